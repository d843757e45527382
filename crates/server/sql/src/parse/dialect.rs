//! PostgreSQL as sqlparser is to read it: sqlparser's own dialect, with the precedence of operators corrected.

use std::any::TypeId;

use seawall_values::system::system;
use sqlparser::ast::{DataType, Expr, Ident, ObjectName, TypedString, UnaryOperator, Value, ValueWithSpan};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

/// What binds as `PgOther`: all operators without a level of their own.
const OTHER_OPERATORS: u8 = 70;

/// Between `COLLATE` and a subscript.
const SIGN: u8 = 125;

/// The dialect.
#[derive(Debug)]
pub(super) struct PostgreSql;

macro_rules! as_postgresql {
    ($($name:ident),* $(,)?) => { $(fn $name(&self) -> bool { PostgreSqlDialect {}.$name() })* };
}

impl Dialect for PostgreSql {
    /// sqlparser asks for this in many places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(character)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(character)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(keyword)
    }

    fn is_table_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        PostgreSqlDialect {}.is_table_alias(keyword, parser)
    }

    /// Operators before their operand, `VARIADIC x`, `float8 '1'`.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Some((op, precedence)) = prefix_operator(&parser.peek_token_ref().token) {
            parser.advance_token();
            let operand = parser.parse_subexpr(precedence);
            return Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }));
        }
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        if word.quote_style.is_some() {
            return None;
        }
        if word.keyword == Keyword::VARIADIC {
            return Some(variadic(parser));
        }
        let is_literal = matches!(parser.peek_nth_token_ref(1).token, Token::SingleQuotedString(_));
        if is_literal
            && matches!(word.keyword, Keyword::NoKeyword | Keyword::NAME)
            && system().type_by_name(&word.value).is_some()
        {
            return Some(typed_literal(parser));
        }
        None
    }

    /// `x ISNULL`, and `x::text COLLATE "C"`: sqlparser looks for a collation before operators only.
    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(negation) = list_of_parentheses(parser) {
            return Some(in_list(parser, expr, negation));
        }
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        let (is_null, is_collation) = (is_isnull(word), word.keyword == Keyword::COLLATE);
        if !is_null && !is_collation {
            return None;
        }
        parser.advance_token();
        let expr = Box::new(expr.clone());
        if is_null {
            return Some(Ok(Expr::IsNull(expr)));
        }
        Some(parser.parse_object_name(false).map(|collation| Expr::Collate { expr, collation }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(OTHER_OPERATORS)),
            Token::Word(word) if is_isnull(word) => Some(Ok(self.prec_value(Precedence::Is))),
            Token::Word(word) if word.keyword == Keyword::OPERATOR => Some(Ok(OTHER_OPERATORS)),
            _ => PostgreSqlDialect {}.get_next_precedence(parser),
        }
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    as_postgresql! {
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_empty_projections,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_order_by_using_operator,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_left_associative_joins_without_parens,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_aliased_function_args,
    }
}

/// Operators that stand before their operand, and what binds it: a sign more than `^` and `AT TIME ZONE`, others less than `+`.
fn prefix_operator(token: &Token) -> Option<(UnaryOperator, u8)> {
    let op = match token {
        Token::Minus => return Some((UnaryOperator::Minus, SIGN)),
        Token::Plus => return Some((UnaryOperator::Plus, SIGN)),
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        _ => return None,
    };
    Some((op, OTHER_OPERATORS))
}

/// sqlparser has no such keyword.
/// Whether an operator tells what is in a list, or what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Negation {
    In,
    NotIn,
}

/// `[NOT] IN ((`. sqlparser takes what begins so for a subquery, though it may be a list that begins with one.
fn list_of_parentheses(parser: &Parser<'_>) -> Option<Negation> {
    let keyword = |index| match parser.peek_nth_token_ref(index).token {
        Token::Word(ref word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let (negation, next) = match keyword(0) {
        Keyword::IN => (Negation::In, 1),
        Keyword::NOT if keyword(1) == Keyword::IN => (Negation::NotIn, 2),
        _ => return None,
    };
    let is_open = |index| parser.peek_nth_token_ref(index).token == Token::LParen;
    (is_open(next) && is_open(next + 1)).then_some(negation)
}

fn in_list(parser: &mut Parser<'_>, expr: &Expr, negation: Negation) -> Result<Expr, ParserError> {
    let (expr, negated) = (Box::new(expr.clone()), negation == Negation::NotIn);
    if negated {
        parser.advance_token();
    }
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let subquery = parser.maybe_parse(|parser| {
        let subquery = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        Ok(subquery)
    })?;
    if let Some(subquery) = subquery {
        return Ok(Expr::InSubquery { expr, subquery, negated });
    }
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList { expr, list, negated })
}

fn is_isnull(word: &Word) -> bool {
    word.quote_style.is_none() && word.value == "isnull"
}

fn variadic(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let prefix = Ident::with_span(parser.next_token().span, "variadic");
    Ok(Expr::Prefixed { prefix, value: Box::new(parser.parse_expr()?) })
}

fn typed_literal(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let name = parser.parse_identifier()?;
    let token = parser.next_token();
    let Token::SingleQuotedString(text) = token.token else { return parser.expected("a string", token) };
    Ok(Expr::TypedString(TypedString {
        data_type: DataType::Custom(ObjectName::from(vec![name]), Vec::new()),
        value: ValueWithSpan { value: Value::SingleQuotedString(text), span: token.span },
        uses_odbc_syntax: false,
    }))
}

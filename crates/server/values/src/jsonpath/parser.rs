//! Text to the tree of a path: a parser by precedence of operators.

use std::sync::Arc;

use super::lexer::{Lexer, Token, syntax_error};
use super::{Arithmetic, Comparison, Method, Node, Path, Step};
use crate::datum::Jsonb;
use crate::error::{SqlError, SqlResult, SqlState};

/// Levels of nesting.
const DEPTH_MAX: usize = 200;
/// Operators in a path: each one is a level of the tree that they make.
const OPERATORS_MAX: usize = 500;

pub(super) fn parse(text: &str) -> SqlResult<Path> {
    if text.trim().is_empty() {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let mut lexer = Lexer { rest: text };
    let (token, text) = lexer.next()?;
    let mut parser = Parser { lexer, token, text, depth: 0, operators: 0, subscripts: 0, filters: 0 };
    let is_lax = !parser.accept_word("strict")?;
    if is_lax {
        parser.accept_word("lax")?;
    }
    let expression = parser.or()?;
    match parser.token {
        Token::End => Ok(Path { is_lax, expression }),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    text: &'a str,
    depth: usize,
    operators: usize,
    /// How many subscripts and filters are open: `last` and `@` mean something only there.
    subscripts: usize,
    filters: usize,
}

fn boxed(node: Node) -> Box<Node> {
    Box::new(node)
}

fn is_predicate(node: &Node) -> bool {
    matches!(
        node,
        Node::Compare(..)
            | Node::And(..)
            | Node::Or(..)
            | Node::Not(_)
            | Node::IsUnknown(_)
            | Node::Exists(_)
            | Node::StartsWith(..)
            | Node::LikeRegex(..)
    )
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> SqlResult<Token> {
        let (token, text) = self.lexer.next()?;
        self.text = text;
        Ok(std::mem::replace(&mut self.token, token))
    }

    #[cold]
    fn unexpected(&self) -> Box<SqlError> {
        syntax_error(self.text)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(found) if found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> SqlResult<bool> {
        let is_there = self.is_symbol(symbol);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect(&mut self, symbol: &str) -> SqlResult<()> {
        if self.accept(symbol)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn accept_word(&mut self, word: &str) -> SqlResult<bool> {
        let is_there = self.is_word(word);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.accept_word(word)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(crate::json::too_deep());
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// Takes an operator between two operands.
    fn operator(&mut self) -> SqlResult<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            return Err(crate::json::too_deep());
        }
        self.advance()?;
        Ok(())
    }

    /// A side of an operator of truth values.
    fn predicate(&self, node: Node) -> SqlResult<Box<Node>> {
        if is_predicate(&node) { Ok(boxed(node)) } else { Err(self.unexpected()) }
    }

    /// A side of an operator of items.
    fn item(&self, node: Node) -> SqlResult<Box<Node>> {
        if is_predicate(&node) { Err(self.unexpected()) } else { Ok(boxed(node)) }
    }

    fn or(&mut self) -> SqlResult<Node> {
        let mut left = self.and()?;
        while self.is_symbol("||") {
            let checked = self.predicate(left)?;
            self.operator()?;
            let right = self.and()?;
            left = Node::Or(checked, self.predicate(right)?);
        }
        Ok(left)
    }

    fn and(&mut self) -> SqlResult<Node> {
        let mut left = self.comparison()?;
        while self.is_symbol("&&") {
            let checked = self.predicate(left)?;
            self.operator()?;
            let right = self.comparison()?;
            left = Node::And(checked, self.predicate(right)?);
        }
        Ok(left)
    }

    fn comparison(&mut self) -> SqlResult<Node> {
        let left = self.sum()?;
        let comparison = match self.token {
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            _ if self.is_word("starts") => {
                let subject = self.item(left)?;
                self.advance()?;
                self.expect_word("with")?;
                return Ok(Node::StartsWith(subject, self.prefix()?));
            }
            _ if self.is_word("like_regex") => {
                let subject = self.item(left)?;
                self.advance()?;
                return self.like_regex(subject);
            }
            _ => return Ok(left),
        };
        let left = self.item(left)?;
        self.advance()?;
        let right = self.sum()?;
        Ok(Node::Compare(comparison, left, self.item(right)?))
    }

    fn prefix(&mut self) -> SqlResult<Box<Node>> {
        match self.advance()? {
            Token::Text(text) => Ok(boxed(Node::Literal(Jsonb::String(Arc::from(text))))),
            Token::Variable(name) => Ok(boxed(Node::Variable(name))),
            _ => Err(self.unexpected()),
        }
    }

    fn like_regex(&mut self, subject: Box<Node>) -> SqlResult<Node> {
        let Token::Text(pattern) = self.advance()? else { return Err(self.unexpected()) };
        let mut flags = String::new();
        if self.accept_word("flag")? {
            let Token::Text(letters) = self.advance()? else { return Err(self.unexpected()) };
            if let Some(wrong) = letters.chars().find(|letter| !"imsqx".contains(*letter)) {
                let message = "invalid input syntax for type jsonpath";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(format!(
                    "Unrecognized flag character \"{wrong}\" in LIKE_REGEX predicate."
                )));
            }
            flags = letters;
        }
        // A pattern that is wrong is an error of the path, not of its use.
        super::predicate::compiled(&pattern, &flags)?;
        Ok(Node::LikeRegex(subject, pattern, flags))
    }

    fn sum(&mut self) -> SqlResult<Node> {
        let mut left = self.product()?;
        loop {
            let operator = match self.token {
                Token::Symbol("+") => Arithmetic::Add,
                Token::Symbol("-") => Arithmetic::Subtract,
                _ => return Ok(left),
            };
            let checked = self.item(left)?;
            self.operator()?;
            let right = self.product()?;
            left = Node::Arithmetic(operator, checked, self.item(right)?);
        }
    }

    fn product(&mut self) -> SqlResult<Node> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.token {
                Token::Symbol("*") => Arithmetic::Multiply,
                Token::Symbol("/") => Arithmetic::Divide,
                Token::Symbol("%") => Arithmetic::Modulo,
                _ => return Ok(left),
            };
            let checked = self.item(left)?;
            self.operator()?;
            let right = self.signed()?;
            left = Node::Arithmetic(operator, checked, self.item(right)?);
        }
    }

    fn signed(&mut self) -> SqlResult<Node> {
        let is_minus = self.is_symbol("-");
        if !is_minus && !self.is_symbol("+") {
            return self.accessors();
        }
        self.advance()?;
        let operand = self.deeper(Self::signed)?;
        match operand {
            // A sign before a number makes a number.
            Node::Literal(Jsonb::Number(number)) => {
                let number = if is_minus { number.negated() } else { number };
                Ok(Node::Literal(Jsonb::Number(number)))
            }
            operand => Ok(Node::Sign(is_minus, self.item(operand)?)),
        }
    }

    fn accessors(&mut self) -> SqlResult<Node> {
        let start = self.primary()?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        Ok(if steps.is_empty() { start } else { Node::Steps(boxed(start), steps) })
    }

    fn primary(&mut self) -> SqlResult<Node> {
        let text = self.text;
        match self.advance()? {
            Token::Symbol("$") => Ok(Node::Root),
            Token::Symbol("@") if self.filters > 0 => Ok(Node::Current),
            Token::Symbol("@") => {
                let message = "@ is not allowed in root expressions";
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
            Token::Variable(name) => Ok(Node::Variable(name)),
            Token::Text(text) => Ok(Node::Literal(Jsonb::String(Arc::from(text)))),
            Token::Number(number) => Ok(Node::Literal(Jsonb::Number(number.parse()?))),
            Token::Symbol("(") => self.parenthesis(),
            Token::Symbol("!") => {
                let operand = if self.is_word("exists") {
                    self.primary()?
                } else {
                    self.expect("(")?;
                    let inner = self.deeper(Self::or)?;
                    self.expect(")")?;
                    inner
                };
                Ok(Node::Not(self.predicate(operand)?))
            }
            Token::Word(word) => self.keyword(&word, text),
            _ => Err(syntax_error(text)),
        }
    }

    fn keyword(&mut self, word: &str, text: &str) -> SqlResult<Node> {
        match word {
            "true" => return Ok(Node::Literal(Jsonb::Bool(true))),
            "false" => return Ok(Node::Literal(Jsonb::Bool(false))),
            "null" => return Ok(Node::Literal(Jsonb::Null)),
            _ => {}
        }
        if word.eq_ignore_ascii_case("exists") {
            self.expect("(")?;
            let inner = self.deeper(Self::or)?;
            self.expect(")")?;
            return Ok(Node::Exists(self.item(inner)?));
        }
        if word.eq_ignore_ascii_case("last") {
            if self.subscripts > 0 {
                return Ok(Node::Last);
            }
            let message = "LAST is allowed only in array subscripts";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Err(syntax_error(text))
    }

    fn parenthesis(&mut self) -> SqlResult<Node> {
        let inner = self.deeper(Self::or)?;
        self.expect(")")?;
        if is_predicate(&inner) && self.accept_word("is")? {
            self.expect_word("unknown")?;
            return Ok(Node::IsUnknown(boxed(inner)));
        }
        Ok(inner)
    }

    fn step(&mut self) -> SqlResult<Option<Step>> {
        if self.accept("[")? {
            return self.subscript().map(Some);
        }
        if self.accept("?")? {
            self.expect("(")?;
            self.filters += 1;
            let inner = self.deeper(Self::or)?;
            self.filters -= 1;
            self.expect(")")?;
            return Ok(Some(Step::Filter(*self.predicate(inner)?)));
        }
        if !self.accept(".")? {
            return Ok(None);
        }
        let text = self.text;
        Ok(Some(match self.advance()? {
            Token::Symbol("*") => Step::AnyMember,
            Token::Symbol("**") => self.descendants()?,
            Token::Text(key) => Step::Member(key),
            Token::Word(word) if self.is_symbol("(") => {
                self.advance()?;
                self.method(&word)?
            }
            Token::Word(word) => Step::Member(word),
            _ => return Err(syntax_error(text)),
        }))
    }

    fn method(&mut self, name: &str) -> SqlResult<Step> {
        let methods =
            [Method::Abs, Method::Size, Method::Type, Method::Floor, Method::Ceiling, Method::Double];
        if let Some(method) = methods.into_iter().find(|method| method.name().eq_ignore_ascii_case(name)) {
            self.expect(")")?;
            return Ok(Step::Method(method));
        }
        if ["datetime", "keyvalue"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Err(SqlError::unsupported(format!("jsonpath item method .{name}()")));
        }
        Err(syntax_error("("))
    }

    fn level(&mut self) -> SqlResult<Option<u32>> {
        let text = self.text;
        match self.advance()? {
            Token::Number(number) => number.parse().map(Some).map_err(|_| syntax_error(text)),
            Token::Word(word) if word.eq_ignore_ascii_case("last") => Ok(None),
            _ => Err(syntax_error(text)),
        }
    }

    fn descendants(&mut self) -> SqlResult<Step> {
        if !self.accept("{")? {
            return Ok(Step::Descendants(Some(0), None));
        }
        let first = self.level()?;
        let last = if self.accept_word("to")? { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::Descendants(first, last))
    }

    fn subscript(&mut self) -> SqlResult<Step> {
        if self.accept("*")? {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut elements = Vec::new();
        loop {
            let first = self.deeper(Self::sum)?;
            let last = if self.accept_word("to")? { Some(self.deeper(Self::sum)?) } else { None };
            elements.push((first, last));
            if !self.accept(",")? {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Step::Elements(elements))
    }
}

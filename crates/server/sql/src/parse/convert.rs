//! PostgreSQL's tokens as sqlparser's.
//!
//! Words that are no keywords of PostgreSQL become plain names, so that what other databases make of them is not read here. The column
//! of a location is PostgreSQL's position; the line is always 1.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token as Parsed, TokenWithSpan, Word};

use super::keywords::keyword_kind;
use super::token::{Token, TokenKind};

/// One token for each.
pub(super) fn converted(tokens: &[Token]) -> Vec<TokenWithSpan> {
    tokens.iter().map(convert).collect()
}

fn convert(token: &Token) -> TokenWithSpan {
    let start = Location::new(1, u64::from(token.position));
    let end = Location::new(1, u64::from(token.end_position));
    TokenWithSpan::new(kind(&token.kind), Span::new(start, end))
}

fn kind(kind: &TokenKind) -> Parsed {
    match kind {
        TokenKind::Word(word) => self::word(word),
        TokenKind::Quoted(name) => {
            Parsed::Word(Word { value: name.clone(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
        }
        TokenKind::String(value) => Parsed::SingleQuotedString(value.clone()),
        TokenKind::Bits(digits) => Parsed::SingleQuotedByteStringLiteral(digits.clone()),
        TokenKind::HexadecimalBits(digits) => Parsed::HexStringLiteral(digits.clone()),
        TokenKind::Number(number) => Parsed::Number(number.clone(), false),
        TokenKind::Parameter(parameter) => Parsed::Placeholder(parameter.clone()),
        TokenKind::Operator(operator) => self::operator(operator),
        TokenKind::Character(character) => match character {
            '(' => Parsed::LParen,
            ')' => Parsed::RParen,
            '[' => Parsed::LBracket,
            ']' => Parsed::RBracket,
            ',' => Parsed::Comma,
            ';' => Parsed::SemiColon,
            '.' => Parsed::Period,
            ':' => Parsed::Colon,
            other => Parsed::Char(*other),
        },
        TokenKind::Cast => Parsed::DoubleColon,
        // An older way to write `=>`.
        TokenKind::ColonEquals => Parsed::RArrow,
        TokenKind::Dots => Parsed::Char('.'),
    }
}

fn word(word: &str) -> Parsed {
    if keyword_kind(word).is_some() {
        Parsed::make_word(word, None)
    } else {
        Parsed::Word(Word { value: word.to_owned(), quote_style: None, keyword: Keyword::NoKeyword })
    }
}

fn operator(operator: &str) -> Parsed {
    match operator {
        "=" => Parsed::Eq,
        "<>" => Parsed::Neq,
        "<" => Parsed::Lt,
        ">" => Parsed::Gt,
        "<=" => Parsed::LtEq,
        ">=" => Parsed::GtEq,
        "=>" => Parsed::RArrow,
        "+" => Parsed::Plus,
        "-" => Parsed::Minus,
        "*" => Parsed::Mul,
        "/" => Parsed::Div,
        "%" => Parsed::Mod,
        "^" => Parsed::Caret,
        "||" => Parsed::StringConcat,
        "&" => Parsed::Ampersand,
        "|" => Parsed::Pipe,
        "#" => Parsed::Sharp,
        "##" => Parsed::DoubleSharp,
        "~" => Parsed::Tilde,
        "~*" => Parsed::TildeAsterisk,
        "!~" => Parsed::ExclamationMarkTilde,
        "!~*" => Parsed::ExclamationMarkTildeAsterisk,
        "~~" => Parsed::DoubleTilde,
        "~~*" => Parsed::DoubleTildeAsterisk,
        "!~~" => Parsed::ExclamationMarkDoubleTilde,
        "!~~*" => Parsed::ExclamationMarkDoubleTildeAsterisk,
        "<<" => Parsed::ShiftLeft,
        ">>" => Parsed::ShiftRight,
        "&&" => Parsed::Overlap,
        "!!" => Parsed::DoubleExclamationMark,
        "@" => Parsed::AtSign,
        "^@" => Parsed::CaretAt,
        "|/" => Parsed::PGSquareRoot,
        "||/" => Parsed::PGCubeRoot,
        "->" => Parsed::Arrow,
        "->>" => Parsed::LongArrow,
        "#>" => Parsed::HashArrow,
        "#>>" => Parsed::HashLongArrow,
        "@>" => Parsed::AtArrow,
        "<@" => Parsed::ArrowAt,
        "#-" => Parsed::HashMinus,
        "@?" => Parsed::AtQuestion,
        "@@" => Parsed::AtAt,
        "?" => Parsed::Question,
        "?&" => Parsed::QuestionAnd,
        "?|" => Parsed::QuestionPipe,
        other => Parsed::CustomBinaryOperator(other.to_owned()),
    }
}

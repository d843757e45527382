//! One token of a statement, as PostgreSQL's lexer sees it.

/// A token and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Where it begins and ends: bytes of the source.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where it begins and ends: characters of the source, from 1.
    pub(crate) position: u32,
    pub(crate) end_position: u32,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word without quotes: a keyword or a name, in lower case.
    Word(String),
    /// A name in quotes.
    Quoted(String),
    /// A string constant of any form: its value.
    String(String),
    /// `B'01'`.
    Bits(String),
    /// `X'1F'`.
    HexadecimalBits(String),
    /// A number without a sign, as written.
    Number(String),
    /// `$1`, as written.
    Parameter(String),
    /// An operator: one or more of `+-*/<>=~!@#%^&|?` and the backquote.
    Operator(String),
    /// `(`, `)`, `[`, `]`, `,`, `;`, `.`, `:`, or a character that begins no token.
    Character(char),
    /// `::`.
    Cast,
    /// `:=`.
    ColonEquals,
    /// `..`.
    Dots,
}

impl TokenKind {
    /// Whether it is this word, without quotes. `word` is in lower case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, TokenKind::Word(own) if own == word)
    }

    pub(crate) fn is_character(&self, character: char) -> bool {
        matches!(self, TokenKind::Character(own) if *own == character)
    }

    pub(crate) fn is_operator(&self, operator: &str) -> bool {
        matches!(self, TokenKind::Operator(own) if own == operator)
    }
}

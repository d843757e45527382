//! A parsed `json`: every value knows the part of the text that it is, since functions of `json` give parts as they were written.

use std::ops::Range;

use crate::error::SqlResult;
use crate::json::parse::{Build, parse};

/// A value in a text.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Its text.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number,
    /// A string, without quotes and escapes.
    String(String),
    /// An array.
    Array(Vec<Tree>),
    /// An object: members as written, repeated keys included.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Its text within the text that was parsed.
    pub fn text<'a>(&self, whole: &'a str) -> &'a str {
        &whole[self.span.clone()]
    }

    /// What `->>` gives: the value of a string, the text of all others; nothing for `null`.
    pub fn as_text<'a>(&'a self, whole: &'a str) -> Option<&'a str> {
        match &self.kind {
            Kind::Null => None,
            Kind::String(text) => Some(text),
            _ => Some(self.text(whole)),
        }
    }
}

/// Parses a `json`.
///
/// # Errors
/// As `parse`.
pub fn parse_tree(text: &str) -> SqlResult<Tree> {
    parse(text, &mut TreeBuilder)
}

/// Checks that a text is a `json`.
///
/// # Errors
/// As `parse`, but `\u` escapes only need four digits.
pub fn validate(text: &str) -> SqlResult<()> {
    parse(text, &mut Validator)
}

struct TreeBuilder;

impl Build for TreeBuilder {
    type Value = Tree;
    const READS_ESCAPES: bool = true;

    fn null(&mut self, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::Null })
    }

    fn boolean(&mut self, value: bool, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::Bool(value) })
    }

    fn number(&mut self, _text: &str, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::Number })
    }

    fn string(&mut self, text: String, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::String(text) })
    }

    fn array(&mut self, values: Vec<Tree>, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::Array(values) })
    }

    fn object(&mut self, members: Vec<(String, Tree)>, span: Range<usize>) -> SqlResult<Tree> {
        Ok(Tree { span, kind: Kind::Object(members) })
    }
}

struct Validator;

impl Build for Validator {
    type Value = ();
    const READS_ESCAPES: bool = false;

    fn null(&mut self, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }

    fn boolean(&mut self, _value: bool, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }

    fn number(&mut self, _text: &str, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }

    fn string(&mut self, _text: String, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }

    fn array(&mut self, _values: Vec<()>, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }

    fn object(&mut self, _members: Vec<(String, ())>, _span: Range<usize>) -> SqlResult<()> {
        Ok(())
    }
}

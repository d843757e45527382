//! Reads a statement from its tokens, one after another: names, words, numbers, and by sqlparser expressions, types and queries.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{DataType, Expr};
use sqlparser::parser::{Parser, ParserError};

use super::keywords::{KeywordKind, keyword_kind};
use super::statement::ObjectName;
use super::statement::definition::WrittenExpression;
use super::text::Text;
use super::token::{Token, TokenKind};
use super::tree::Tree;

/// A place in the tokens of a statement.
pub(super) struct Reader<'a> {
    tree: Tree<'a>,
    text: &'a Text,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tree: Tree<'a>, text: &'a Text) -> Reader<'a> {
        Reader { tree, text, at: 0 }
    }

    // What is here.

    pub(super) fn peek(&self, ahead: usize) -> Option<&TokenKind> {
        self.tree.token(self.at + ahead).map(|token| &token.kind)
    }

    fn token(&self) -> Option<&Token> {
        self.tree.token(self.at)
    }

    /// The position of the next token.
    pub(super) fn position(&self) -> Option<u32> {
        self.token().map(|token| token.position)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.token().is_none()
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    pub(super) fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        self.peek(ahead).is_some_and(|kind| kind.is_word(word))
    }

    pub(super) fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word_at(ahead, word))
    }

    pub(super) fn is_character(&self, character: char) -> bool {
        self.peek(0).is_some_and(|kind| kind.is_character(character))
    }

    pub(super) fn is_operator(&self, operator: &str) -> bool {
        self.peek(0).is_some_and(|kind| kind.is_operator(operator))
    }

    // Taking it.

    pub(super) fn skip(&mut self, tokens: usize) {
        self.at += tokens;
    }

    /// Takes the words if all of them are next.
    pub(super) fn take(&mut self, words: &[&str]) -> bool {
        let is_here = self.is_words(words);
        if is_here {
            self.at += words.len();
        }
        is_here
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.take(&[word])
    }

    /// Takes the one of the words that is next.
    pub(super) fn take_one_of<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        let word = words.iter().find(|word| self.is_word(word)).copied();
        self.at += usize::from(word.is_some());
        word
    }

    pub(super) fn take_character(&mut self, character: char) -> bool {
        let is_here = self.is_character(character);
        self.at += usize::from(is_here);
        is_here
    }

    pub(super) fn take_operator(&mut self, operator: &str) -> bool {
        let is_here = self.is_operator(operator);
        self.at += usize::from(is_here);
        is_here
    }

    pub(super) fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.error()) }
    }

    pub(super) fn expect(&mut self, words: &[&str]) -> SqlResult<()> {
        words.iter().try_for_each(|word| self.expect_word(word))
    }

    pub(super) fn expect_character(&mut self, character: char) -> SqlResult<()> {
        if self.take_character(character) { Ok(()) } else { Err(self.error()) }
    }

    pub(super) fn expect_end(&self) -> SqlResult<()> {
        if self.is_at_end() && !self.tree.ends_wrongly() {
            Ok(())
        } else {
            Err(self.tree.syntax_error_in_query(self.at))
        }
    }

    // Errors.

    /// `42601` at the next token.
    pub(super) fn error(&self) -> Box<SqlError> {
        self.tree.syntax_error(self.at)
    }

    // Names.

    /// A name of a column, table or anything else but a function or type.
    pub(super) fn name(&mut self) -> SqlResult<String> {
        self.word_of(|kind| matches!(kind, None | Some(KeywordKind::Unreserved | KeywordKind::ColumnName)))
    }

    /// Any word, as after `AS`.
    pub(super) fn label(&mut self) -> SqlResult<String> {
        self.word_of(|_| true)
    }

    /// A word that is not reserved, as roles and settings are named.
    pub(super) fn unreserved_word(&mut self) -> SqlResult<String> {
        self.word_of(|kind| kind != Some(KeywordKind::Reserved))
    }

    fn word_of(&mut self, is_allowed: impl Fn(Option<KeywordKind>) -> bool) -> SqlResult<String> {
        let name = match self.peek(0) {
            Some(TokenKind::Quoted(name)) => name.clone(),
            Some(TokenKind::Word(word)) if is_allowed(keyword_kind(word)) => word.clone(),
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(name)
    }

    /// `name`, `schema.name`, `database.schema.name`.
    pub(super) fn object_name(&mut self) -> SqlResult<ObjectName> {
        let position = self.position();
        let mut parts = vec![self.name()?];
        while self.take_character('.') {
            parts.push(self.label()?);
        }
        let written = parts.join(".");
        let (name, schema, database) = (parts.pop().unwrap_or_default(), parts.pop(), parts.pop());
        if !parts.is_empty() {
            let message = format!("improper qualified name (too many dotted names): {written}");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        }
        Ok(ObjectName { database, schema, name, position })
    }

    /// `ONLY name`, `name *`: without tables that inherit, both mean the same.
    pub(super) fn relation_name(&mut self) -> SqlResult<ObjectName> {
        if self.take_word("only") {
            if self.take_character('(') {
                let name = self.object_name()?;
                self.expect_character(')')?;
                return Ok(name);
            }
            return self.object_name();
        }
        let name = self.object_name()?;
        self.take_operator("*");
        Ok(name)
    }

    /// One or more, with commas between them.
    pub(super) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut items = vec![one(self)?];
        while self.take_character(',') {
            items.push(one(self)?);
        }
        Ok(items)
    }

    /// `(a, b)`.
    pub(super) fn names_in_parentheses(&mut self) -> SqlResult<Vec<String>> {
        self.expect_character('(')?;
        let names = self.list(Self::name)?;
        self.expect_character(')')?;
        Ok(names)
    }

    /// `(a, b)`, or nothing.
    pub(super) fn optional_names(&mut self) -> SqlResult<Vec<String>> {
        if self.is_character('(') { self.names_in_parentheses() } else { Ok(Vec::new()) }
    }

    pub(super) fn if_exists(&mut self) -> bool {
        self.take(&["if", "exists"])
    }

    pub(super) fn if_not_exists(&mut self) -> bool {
        self.take(&["if", "not", "exists"])
    }

    // Constants.

    pub(super) fn string(&mut self) -> SqlResult<String> {
        match self.take_string() {
            Some(value) => Ok(value),
            None => Err(self.error()),
        }
    }

    pub(super) fn take_string(&mut self) -> Option<String> {
        let Some(TokenKind::String(value)) = self.peek(0) else { return None };
        let value = value.clone();
        self.at += 1;
        Some(value)
    }

    /// A number with its sign, as written.
    pub(super) fn take_number(&mut self) -> Option<String> {
        let sign = match self.peek(0) {
            Some(TokenKind::Operator(sign)) if sign == "-" || sign == "+" => sign.as_str(),
            _ => "",
        };
        let ahead = usize::from(!sign.is_empty());
        let Some(TokenKind::Number(number)) = self.peek(ahead) else { return None };
        let number = if sign == "-" { format!("-{number}") } else { number.clone() };
        self.at += 1 + ahead;
        Some(number)
    }

    /// A whole number with its sign.
    pub(super) fn integer(&mut self) -> SqlResult<i64> {
        let at = self.at;
        match self.take_number().and_then(|number| number.parse().ok()) {
            Some(number) => Ok(number),
            None => {
                self.at = at;
                Err(self.error())
            }
        }
    }

    // By sqlparser.

    /// Something that sqlparser reads from here on.
    pub(super) fn parse<T>(
        &mut self,
        parse: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>,
    ) -> SqlResult<T> {
        let (value, at) = self.tree.parse_at(self.at, parse)?;
        self.at = at;
        Ok(value)
    }

    pub(super) fn data_type(&mut self) -> SqlResult<DataType> {
        self.take_word("setof");
        self.parse(Parser::parse_data_type)
    }

    pub(super) fn expression(&mut self) -> SqlResult<Expr> {
        self.parse(Parser::parse_expr)
    }

    /// An expression with its words.
    pub(super) fn written_expression(&mut self) -> SqlResult<WrittenExpression> {
        let start = self.at;
        let expr = self.expression()?;
        Ok(WrittenExpression { expr, text: self.text_since(start) })
    }

    /// `(expression)`, with the words within.
    pub(super) fn expression_in_parentheses(&mut self) -> SqlResult<WrittenExpression> {
        self.expect_character('(')?;
        let expression = self.written_expression()?;
        self.expect_character(')')?;
        Ok(expression)
    }

    /// The expression that the next tokens are.
    pub(super) fn expression_of(&mut self, tokens: usize) -> SqlResult<WrittenExpression> {
        let (start, end) = (self.at, self.tree.length().min(self.at + tokens));
        let expr = self.tree.parse_between(start, end, Parser::parse_expr)?;
        self.at = end;
        Ok(WrittenExpression { expr, text: self.text_since(start) })
    }

    /// The expression after `DEFAULT`: what may follow it is no part of it.
    pub(super) fn default_expression(&mut self) -> SqlResult<WrittenExpression> {
        self.expression_of(self.end_of_default() - self.at)
    }

    /// Where an expression ends that has no `NOT`, `AND` and their like outside of parentheses.
    fn end_of_default(&self) -> usize {
        let mut depth = 0_usize;
        let mut end = self.at;
        while let Some(token) = self.tree.token(end) {
            match &token.kind {
                TokenKind::Character('(' | '[') => depth += 1,
                TokenKind::Character(')' | ']') if depth > 0 => depth -= 1,
                TokenKind::Character(')' | ',') if depth == 0 => break,
                TokenKind::Word(word) if word == "case" => depth += 1,
                TokenKind::Word(word) if word == "end" && depth > 0 => depth -= 1,
                TokenKind::Word(word) if depth == 0 && end > self.at && self.ends_default(end, word) => break,
                _ => {}
            }
            end += 1;
        }
        end
    }

    fn ends_default(&self, at: usize, word: &str) -> bool {
        let is_after = |word: &str| self.tree.token(at - 1).is_some_and(|token| token.kind.is_word(word));
        match word {
            "not" | "null" => !is_after("is"),
            "constraint" | "check" | "unique" | "primary" | "references" | "generated" | "default"
            | "collate" | "deferrable" | "initially" | "and" | "or" | "in" | "like" | "ilike" | "similar"
            | "between" | "isnull" | "notnull" | "overlaps" | "at" => true,
            _ => false,
        }
    }

    /// What was taken since a place, as it was written.
    pub(super) fn text_since(&self, start: usize) -> Text {
        let token = |at: usize| self.tree.token(at);
        let range = match (token(start), token(self.at.saturating_sub(1))) {
            (Some(first), Some(last)) if first.start <= last.end => first.start..last.end,
            _ => 0..0,
        };
        self.text.part(range)
    }

    /// For `text_since` and `go_back`.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// To a place before this one.
    pub(super) fn go_back(&mut self, place: usize) {
        self.at = place;
    }

    pub(super) fn text(&self) -> &Text {
        self.text
    }
}

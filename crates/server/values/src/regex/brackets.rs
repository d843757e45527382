//! Bracket expressions: `[a-z[:digit:]_]`.

use std::iter::Peekable;
use std::str::Chars;

use super::invalid;
use super::translate::{character_escape, push_literal};
use crate::error::SqlResult;

/// The members of a class that an escape in lower or upper case names.
pub(super) fn class_of_escape(letter: char) -> &'static str {
    match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => "\\s",
        _ => "\\p{Alphabetic}\\p{Nd}_",
    }
}

/// The members of a class.
fn class(name: &str) -> SqlResult<&'static str> {
    Ok(match name {
        "alnum" => "\\p{Alphabetic}\\p{Nd}",
        "alpha" => "\\p{Alphabetic}",
        "ascii" => "\\x{0}-\\x{7f}",
        "blank" => "\\x{9}\\x{20}",
        "cntrl" => "\\p{Cc}",
        "digit" => "0-9",
        "graph" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}",
        "lower" => "\\p{Lowercase}",
        "print" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Zs}",
        "punct" => "\\p{P}\\p{S}",
        "space" => "\\s",
        "upper" => "\\p{Uppercase}",
        "word" => "\\p{Alphabetic}\\p{Nd}_",
        "xdigit" => "0-9A-Fa-f",
        _ => return Err(invalid("invalid character class")),
    })
}

/// One member of a bracket: a character, which may begin a range, or more.
enum Member {
    Character(char),
    Class(String),
}

/// Translates what follows a `[`, up to its `]`.
pub(super) fn translate(
    characters: &mut Peekable<Chars<'_>>,
    has_escapes: bool,
    newline_stops: bool,
    output: &mut String,
) -> SqlResult<()> {
    output.push('[');
    if characters.next_if_eq(&'^').is_some() {
        output.push('^');
        if newline_stops {
            output.push_str("\\x{a}");
        }
    }
    let mut is_first = true;
    loop {
        let next = characters.next().ok_or_else(unbalanced)?;
        if next == ']' && !is_first {
            output.push(']');
            return Ok(());
        }
        is_first = false;
        let from = match member(next, characters, has_escapes)? {
            Member::Class(text) => {
                output.push_str(&text);
                if is_range(characters) {
                    return Err(invalid("invalid character range"));
                }
                continue;
            }
            Member::Character(character) => character,
        };
        push_literal(output, from);
        if is_range(characters) {
            characters.next();
            let next = characters.next().ok_or_else(unbalanced)?;
            match member(next, characters, has_escapes)? {
                Member::Character(to) if to >= from => {
                    output.push('-');
                    push_literal(output, to);
                }
                _ => return Err(invalid("invalid character range")),
            }
        }
    }
}

/// Whether a `-` follows that is not the last member.
fn is_range(characters: &Peekable<Chars<'_>>) -> bool {
    let mut rest = characters.clone();
    rest.next() == Some('-') && rest.next().is_some_and(|after| after != ']')
}

#[cold]
fn unbalanced() -> Box<crate::SqlError> {
    invalid("brackets [] not balanced")
}

fn member(next: char, characters: &mut Peekable<Chars<'_>>, has_escapes: bool) -> SqlResult<Member> {
    match next {
        '[' => match characters.peek() {
            Some(':') => Ok(Member::Class(class(&named(characters, ':')?)?.to_owned())),
            Some('.') => collating(&named(characters, '.')?).map(Member::Character),
            Some('=') => collating(&named(characters, '=')?).map(Member::Character),
            _ => Ok(Member::Character('[')),
        },
        '\\' if has_escapes => {
            let letter = characters.next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
            match letter {
                'd' | 's' | 'w' => Ok(Member::Class(class_of_escape(letter).to_owned())),
                'D' | 'S' | 'W' => Ok(Member::Class(format!("[^{}]", class_of_escape(letter)))),
                _ if !letter.is_ascii_alphanumeric() => Ok(Member::Character(letter)),
                _ => character_escape(letter, characters).map(Member::Character),
            }
        }
        _ => Ok(Member::Character(next)),
    }
}

/// The name in `[:name:]`; the first of the two marks is next.
fn named(characters: &mut Peekable<Chars<'_>>, mark: char) -> SqlResult<String> {
    characters.next();
    let mut name = String::new();
    loop {
        let next = characters.next().ok_or_else(unbalanced)?;
        if next == mark && characters.next_if_eq(&']').is_some() {
            return Ok(name);
        }
        name.push(next);
    }
}

/// The character with a name in `[.name.]`.
fn collating(name: &str) -> SqlResult<char> {
    let mut characters = name.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, character)) => Ok(*character),
            None => Err(invalid("invalid collating element")),
        },
    }
}

/// Names of POSIX for characters of ASCII.
const NAMES: &[(&str, char)] = &[
    ("NUL", '\0'),
    ("alert", '\u{7}'),
    ("backspace", '\u{8}'),
    ("tab", '\t'),
    ("newline", '\n'),
    ("vertical-tab", '\u{b}'),
    ("form-feed", '\u{c}'),
    ("carriage-return", '\r'),
    ("space", ' '),
    ("exclamation-mark", '!'),
    ("quotation-mark", '"'),
    ("number-sign", '#'),
    ("dollar-sign", '$'),
    ("percent-sign", '%'),
    ("ampersand", '&'),
    ("apostrophe", '\''),
    ("left-parenthesis", '('),
    ("right-parenthesis", ')'),
    ("asterisk", '*'),
    ("plus-sign", '+'),
    ("comma", ','),
    ("hyphen", '-'),
    ("period", '.'),
    ("slash", '/'),
    ("colon", ':'),
    ("semicolon", ';'),
    ("less-than-sign", '<'),
    ("equals-sign", '='),
    ("greater-than-sign", '>'),
    ("question-mark", '?'),
    ("commercial-at", '@'),
    ("left-square-bracket", '['),
    ("backslash", '\\'),
    ("right-square-bracket", ']'),
    ("circumflex", '^'),
    ("underscore", '_'),
    ("grave-accent", '`'),
    ("left-brace", '{'),
    ("vertical-line", '|'),
    ("right-brace", '}'),
    ("tilde", '~'),
    ("DEL", '\u{7f}'),
];

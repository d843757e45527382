//! A template: fields, and the text between them.

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum Part<F> {
    /// A field with its modifiers.
    Field(F, Modifiers),
    /// A blank outside of quotes.
    Space(char),
    /// Punctuation outside of quotes, in templates of dates.
    Separator(char),
    /// Any other character.
    Text(char),
}

/// Modifiers before and after a field of a date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modifiers {
    /// `FM`: no blanks and no zeros in front.
    pub(super) is_filled: bool,
    /// `TM`: names in the language of the session, which is English.
    pub(super) is_translated: bool,
    /// `TH` or `th` after a number.
    pub(super) ordinal: Option<Ordinal>,
}

/// The case of an ordinal suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordinal {
    Upper,
    Lower,
}

impl Ordinal {
    /// The suffix of a number in digits: `1st`, `2nd`, `11th`.
    pub(super) fn suffix(self, digits: &str) -> &'static str {
        let digits = digits.as_bytes();
        let last = digits.last().copied().unwrap_or(b'0');
        let is_teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
        match (if is_teen { b'0' } else { last }, self) {
            (b'1', Ordinal::Upper) => "ST",
            (b'1', Ordinal::Lower) => "st",
            (b'2', Ordinal::Upper) => "ND",
            (b'2', Ordinal::Lower) => "nd",
            (b'3', Ordinal::Upper) => "RD",
            (b'3', Ordinal::Lower) => "rd",
            (_, Ordinal::Upper) => "TH",
            (_, Ordinal::Lower) => "th",
        }
    }
}

/// What a kind of templates consists of.
pub(super) struct Grammar<F: 'static> {
    /// Names of fields; where two match, the first one does.
    pub(super) fields: &'static [(&'static str, F)],
    /// Whether fields have modifiers, and punctuation separates.
    pub(super) is_of_moments: bool,
}

/// Cuts a template into its parts.
pub(super) fn parse<F: Copy>(template: &str, grammar: &Grammar<F>) -> Vec<Part<F>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut modifiers = Modifiers::default();
        if grammar.is_of_moments {
            rest = prefix(rest, &mut modifiers);
        }
        if let Some((name, field)) = grammar.fields.iter().find(|(name, _)| rest.starts_with(name)) {
            rest = &rest[name.len()..];
            if grammar.is_of_moments {
                rest = suffix(rest, &mut modifiers);
            }
            parts.push(Part::Field(*field, modifiers));
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = quotation(quoted, &mut parts);
        } else {
            // A backslash has a meaning only before a quote.
            let text = rest.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(rest);
            let Some(character) = text.chars().next() else { break };
            rest = &text[character.len_utf8()..];
            parts.push(plain(character, grammar.is_of_moments));
        }
    }
    parts
}

fn prefix<'a>(rest: &'a str, modifiers: &mut Modifiers) -> &'a str {
    if let Some(rest) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
        modifiers.is_filled = true;
        return rest;
    }
    if let Some(rest) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
        modifiers.is_translated = true;
        return rest;
    }
    rest
}

fn suffix<'a>(rest: &'a str, modifiers: &mut Modifiers) -> &'a str {
    for (name, ordinal) in [("TH", Some(Ordinal::Upper)), ("th", Some(Ordinal::Lower)), ("SP", None)] {
        if let Some(rest) = rest.strip_prefix(name) {
            modifiers.ordinal = ordinal;
            return rest;
        }
    }
    rest
}

/// Text up to a quote; a backslash makes the next character text.
fn quotation<'a, F>(quoted: &'a str, parts: &mut Vec<Part<F>>) -> &'a str {
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return &quoted[at + 1..],
            '\\' => parts.push(Part::Text(characters.next().map_or('\\', |(_, character)| character))),
            _ => parts.push(Part::Text(character)),
        }
    }
    ""
}

fn plain<F>(character: char, is_of_moments: bool) -> Part<F> {
    if is_of_moments && is_separator(character) {
        Part::Separator(character)
    } else if is_space(character) {
        Part::Space(character)
    } else {
        Part::Text(character)
    }
}

/// Whether a character is ASCII punctuation, which separates fields of a date.
pub(super) fn is_separator(character: char) -> bool {
    character.is_ascii_punctuation()
}

/// Whether C's `isspace` holds for a character.
pub(super) fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\x0b'
}

//! PostgreSQL's regular expressions in the syntax of crate `fancy_regex`.

use std::fmt::Write;

use super::{Flags, Syntax, brackets, invalid};
use crate::error::SqlResult;

/// The expression in the other syntax, and what is known of it.
pub(super) struct Translation {
    pub(super) text: String,
    /// The flags, with those that the expression itself sets.
    pub(super) flags: Flags,
    pub(super) has_alternatives: bool,
    /// Whether a quantifier wants as little as possible.
    pub(super) has_reluctant: bool,
}

pub(super) fn translate(pattern: &str, flags: Flags) -> SqlResult<Translation> {
    let mut flags = flags;
    let mut rest = pattern;
    if flags.syntax == Syntax::Advanced {
        rest = directors(rest, &mut flags)?;
    }
    let mut translator = Translator::new(rest, flags);
    match flags.syntax {
        Syntax::Literal => rest.chars().for_each(|character| push_literal(&mut translator.output, character)),
        _ => translator.run()?,
    }
    let Translator { output, has_alternatives, has_reluctant, .. } = translator;
    Ok(Translation { text: output, flags, has_alternatives, has_reluctant })
}

/// Reads `***:`, `***=` and embedded options `(?i)` at the start; returns what is after them.
fn directors<'a>(pattern: &'a str, flags: &mut Flags) -> SqlResult<&'a str> {
    let mut rest = pattern;
    if let Some(after) = rest.strip_prefix("***=") {
        flags.syntax = Syntax::Literal;
        return Ok(after);
    }
    if let Some(after) = rest.strip_prefix("***:") {
        rest = after;
    } else if rest.starts_with("***") {
        return Err(invalid("quantifier operand invalid"));
    }
    let Some(options) = rest.strip_prefix("(?") else { return Ok(rest) };
    if !options.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Ok(rest);
    }
    for (at, option) in options.char_indices() {
        if option == ')' {
            return Ok(&options[at + 1..]);
        }
        if !set_option(flags, option) {
            return Err(invalid("invalid embedded option"));
        }
    }
    Err(invalid("invalid embedded option"))
}

/// Sets the option with a letter; `false`: there is none.
pub(crate) fn set_option(flags: &mut Flags, letter: char) -> bool {
    match letter {
        'b' => flags.syntax = Syntax::Basic,
        'c' => flags.ignores_case = false,
        'e' => flags.syntax = Syntax::Extended,
        'i' => flags.ignores_case = true,
        'm' | 'n' => (flags.newline_stops, flags.newline_anchors) = (true, true),
        'p' => (flags.newline_stops, flags.newline_anchors) = (true, false),
        'q' => flags.syntax = Syntax::Literal,
        's' => (flags.newline_stops, flags.newline_anchors) = (false, false),
        't' => flags.is_expanded = false,
        'w' => (flags.newline_stops, flags.newline_anchors) = (false, true),
        'x' => flags.is_expanded = true,
        _ => return false,
    }
    true
}

/// Appends a character that stands for itself.
pub(super) fn push_literal(output: &mut String, character: char) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() && !character.is_whitespace() {
        output.push(character);
    } else {
        write!(output, "\\x{{{:x}}}", u32::from(character)).expect("a string takes all that is written");
    }
}

/// What stands before the place that is read: whether a quantifier may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Atom,
    Constraint,
    Quantifier,
}

/// An open parenthesis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Capturing,
    Plain,
    /// A look at what follows or precedes: groups in it do not capture.
    Lookaround,
}

struct Open {
    group: Group,
    number: usize,
    /// Where it begins in the output.
    start: usize,
}

struct Translator<'a> {
    characters: std::iter::Peekable<std::str::Chars<'a>>,
    flags: Flags,
    output: String,
    groups: usize,
    /// Groups that are closed: those that a reference may name.
    closed: Vec<usize>,
    open: Vec<Open>,
    /// Where the group that was closed last begins in the output.
    last_group_start: Option<usize>,
    /// Ends of quantifiers in the output that want as much as possible.
    greedy: Vec<usize>,
    before: Before,
    has_alternatives: bool,
    has_reluctant: bool,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str, flags: Flags) -> Translator<'a> {
        Translator {
            characters: pattern.chars().peekable(),
            flags,
            output: String::new(),
            groups: 0,
            closed: Vec::new(),
            open: Vec::new(),
            last_group_start: None,
            greedy: Vec::new(),
            before: Before::Nothing,
            has_alternatives: false,
            has_reluctant: false,
        }
    }

    fn run(&mut self) -> SqlResult<()> {
        while let Some(character) = self.characters.next() {
            if self.flags.is_expanded && self.skips(character) {
                continue;
            }
            if self.flags.syntax == Syntax::Basic {
                self.basic(character)?
            } else {
                self.advanced(character)?
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err(invalid("parentheses () not balanced")) }
    }

    /// Skips white space and comments.
    fn skips(&mut self, character: char) -> bool {
        if character == '#' {
            for next in self.characters.by_ref() {
                if next == '\n' {
                    break;
                }
            }
            return true;
        }
        character.is_whitespace()
    }

    fn advanced(&mut self, character: char) -> SqlResult<()> {
        match character {
            '|' => self.alternative(),
            '(' => return self.open_group(),
            ')' => return self.close_group(),
            '*' | '+' | '?' => return self.quantifier(&character.to_string()),
            '{' if self.characters.peek().is_some_and(char::is_ascii_digit) => return self.bound(),
            '^' => self.start_anchor(),
            '$' => self.end_anchor(),
            '.' => self.any(),
            '[' => return self.bracket(),
            '\\' => return self.escape(),
            _ => self.literal(character),
        }
        Ok(())
    }

    /// Basic expressions: `\(`, `\)`, `\{`, and anchors only at the ends.
    fn basic(&mut self, character: char) -> SqlResult<()> {
        match character {
            '*' if self.before == Before::Nothing || self.before == Before::Constraint => self.literal('*'),
            '*' => return self.quantifier("*"),
            '^' if self.before == Before::Nothing => self.start_anchor(),
            '$' if self.is_at_end_of_branch() => self.end_anchor(),
            '.' => self.any(),
            '[' => return self.bracket(),
            '\\' => match self.characters.next() {
                Some('(') => {
                    self.begin(Group::Capturing, "(");
                }
                Some(')') => return self.close_group(),
                Some('{') => return self.bound(),
                Some(digit @ '1'..='9') => return self.reference(digit),
                Some('<') => self.constraint("\\b(?=\\w)"),
                Some('>') => self.constraint("\\b(?<=\\w)"),
                Some(other) => self.literal(other),
                None => return Err(invalid("invalid escape \\ sequence")),
            },
            _ => self.literal(character),
        }
        Ok(())
    }

    fn is_at_end_of_branch(&self) -> bool {
        let rest: Vec<char> = self.characters.clone().take(2).collect();
        rest.is_empty() || rest == ['\\', ')']
    }

    fn literal(&mut self, character: char) {
        push_literal(&mut self.output, character);
        self.before = Before::Atom;
    }

    fn atom(&mut self, text: &str) {
        self.output.push_str(text);
        self.before = Before::Atom;
    }

    fn constraint(&mut self, text: &str) {
        self.output.push_str(text);
        self.before = Before::Constraint;
    }

    fn start_anchor(&mut self) {
        self.constraint(if self.flags.newline_anchors { "(?m:^)" } else { "\\A" });
    }

    fn end_anchor(&mut self) {
        self.constraint(if self.flags.newline_anchors { "(?m:$)" } else { "\\z" });
    }

    fn any(&mut self) {
        self.atom(if self.flags.newline_stops { "[^\\x{a}]" } else { "(?s:.)" });
    }

    fn alternative(&mut self) {
        self.has_alternatives = true;
        self.output.push('|');
        self.before = Before::Nothing;
    }

    fn open_group(&mut self) -> SqlResult<()> {
        let is_inside_lookaround = self.open.iter().any(|open| open.group == Group::Lookaround);
        let mut group = if is_inside_lookaround { Group::Plain } else { Group::Capturing };
        let mut text = if is_inside_lookaround { "(?:" } else { "(" };
        if self.flags.syntax == Syntax::Advanced && self.characters.peek() == Some(&'?') {
            self.characters.next();
            (group, text) = match self.characters.next() {
                Some(':') => (Group::Plain, "(?:"),
                Some('#') => return self.comment(),
                Some('=') => (Group::Lookaround, "(?="),
                Some('!') => (Group::Lookaround, "(?!"),
                Some('<') => match self.characters.next() {
                    Some('=') => (Group::Lookaround, "(?<="),
                    Some('!') => (Group::Lookaround, "(?<!"),
                    _ => return Err(invalid("quantifier operand invalid")),
                },
                _ => return Err(invalid("quantifier operand invalid")),
            };
        }
        self.begin(group, text);
        Ok(())
    }

    fn begin(&mut self, group: Group, text: &str) {
        self.groups += usize::from(group == Group::Capturing);
        self.open.push(Open { group, number: self.groups, start: self.output.len() });
        self.output.push_str(text);
        self.before = Before::Nothing;
    }

    fn comment(&mut self) -> SqlResult<()> {
        if self.characters.by_ref().any(|character| character == ')') {
            Ok(())
        } else {
            Err(invalid("parentheses () not balanced"))
        }
    }

    fn close_group(&mut self) -> SqlResult<()> {
        let Some(Open { group, number, start }) = self.open.pop() else {
            return Err(invalid("parentheses () not balanced"));
        };
        if group == Group::Capturing {
            self.closed.push(number);
        }
        self.output.push(')');
        self.last_group_start = Some(start);
        self.before = if group == Group::Lookaround { Before::Constraint } else { Before::Atom };
        Ok(())
    }

    fn quantifier(&mut self, text: &str) -> SqlResult<()> {
        if self.before != Before::Atom {
            return Err(invalid("quantifier operand invalid"));
        }
        let is_reluctant =
            self.flags.syntax == Syntax::Advanced && self.characters.next_if_eq(&'?').is_some();
        self.has_reluctant |= is_reluctant;
        self.before = Before::Quantifier;
        if text == "{1,1}" {
            if is_reluctant {
                self.make_reluctant();
            }
            return Ok(());
        }
        if self.output.ends_with("(?:)") || self.output.ends_with("()") {
            return Ok(());
        }
        self.output.push_str(text);
        if is_reluctant {
            self.output.push('?');
        } else {
            self.greedy.push(self.output.len());
        }
        Ok(())
    }

    /// `(..){1,1}?` makes all of a group want as little as possible.
    fn make_reluctant(&mut self) {
        let Some(start) = self.last_group_start.filter(|_| self.output.ends_with(')')) else {
            return;
        };
        let inside = self.greedy.partition_point(|end| *end <= start);
        for end in self.greedy.drain(inside..).rev() {
            self.output.insert(end, '?');
        }
    }

    fn bound(&mut self) -> SqlResult<()> {
        let least = self.count()?.unwrap_or(0);
        let mut most = Some(least);
        if self.characters.peek() == Some(&',') {
            self.characters.next();
            most = self.count()?;
        }
        if self.flags.syntax == Syntax::Basic && self.characters.peek() == Some(&'\\') {
            self.characters.next();
        }
        match self.characters.next() {
            Some('}') => {}
            Some(_) => return Err(invalid("invalid repetition count(s)")),
            None => return Err(invalid("braces {} not balanced")),
        }
        match most {
            Some(most) if most < least => Err(invalid("invalid repetition count(s)")),
            Some(most) => self.quantifier(&format!("{{{least},{most}}}")),
            None => self.quantifier(&format!("{{{least},}}")),
        }
    }

    fn count(&mut self) -> SqlResult<Option<u32>> {
        let mut count = None;
        while let Some(digit) = self.characters.peek().and_then(|next| next.to_digit(10)) {
            self.characters.next();
            let value = count.unwrap_or(0) * 10 + digit;
            if value > 255 {
                return Err(invalid("invalid repetition count(s)"));
            }
            count = Some(value);
        }
        Ok(count)
    }

    fn bracket(&mut self) -> SqlResult<()> {
        let rest: String = self.characters.clone().take(6).collect();
        if let Some(after) = [("[:<:]]", "\\b(?=\\w)"), ("[:>:]]", "\\b(?<=\\w)")]
            .iter()
            .find(|(text, _)| rest.starts_with(text))
        {
            self.characters.nth(5);
            self.constraint(after.1);
            return Ok(());
        }
        let is_extended = self.flags.syntax == Syntax::Advanced;
        brackets::translate(&mut self.characters, is_extended, self.flags.newline_stops, &mut self.output)?;
        self.before = Before::Atom;
        Ok(())
    }

    fn escape(&mut self) -> SqlResult<()> {
        let Some(character) = self.characters.next() else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        if self.flags.syntax == Syntax::Extended || !character.is_ascii_alphanumeric() {
            self.literal(character);
            return Ok(());
        }
        match character {
            'd' | 's' | 'w' => self.atom(&format!("[{}]", brackets::class_of_escape(character))),
            'D' | 'S' | 'W' => self.atom(&format!("[^{}]", brackets::class_of_escape(character))),
            'A' => self.constraint("\\A"),
            'Z' => self.constraint("\\z"),
            'm' => self.constraint("\\b(?=\\w)"),
            'M' => self.constraint("\\b(?<=\\w)"),
            'y' => self.constraint("\\b"),
            'Y' => self.constraint("\\B"),
            '1'..='9' => return self.reference(character),
            _ => {
                let literal = character_escape(character, &mut self.characters)?;
                self.literal(literal);
            }
        }
        Ok(())
    }

    /// `\m` and `\mnn`: what a group matched. Of two digits and more it is one only if there is such a group; else octal.
    fn reference(&mut self, first: char) -> SqlResult<()> {
        let mut number = first.to_digit(10).unwrap_or(0);
        while let Some(digit) = self.characters.peek().and_then(|next| next.to_digit(10)) {
            let longer = number * 10 + digit;
            if usize::try_from(longer).is_ok_and(|longer| longer > self.groups) {
                break;
            }
            self.characters.next();
            number = longer;
        }
        if !self.closed.iter().any(|closed| u32::try_from(*closed) == Ok(number)) {
            return Err(invalid("invalid backreference number"));
        }
        self.atom(&format!("(?:\\{number})"));
        Ok(())
    }
}

/// The character that an escape means; `letter` is what follows the backslash.
pub(super) fn character_escape(
    letter: char,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> SqlResult<char> {
    let code = match letter {
        'a' => 7,
        'b' => 8,
        'B' => u32::from('\\'),
        'c' => match characters.next() {
            Some(control) => u32::from(control) & 0x1F,
            None => return Err(invalid("invalid escape \\ sequence")),
        },
        'e' => 0x1B,
        'f' => 0xC,
        'n' => 0xA,
        'r' => 0xD,
        't' => 9,
        'v' => 0xB,
        'u' => digits(characters, 16, 4, 4)?,
        'U' => digits(characters, 16, 8, 8)?,
        'x' => digits(characters, 16, 1, 255)?,
        '0' => digits(characters, 8, 0, 2)?,
        _ => return Err(invalid("invalid escape \\ sequence")),
    };
    char::from_u32(code).ok_or_else(|| invalid("invalid escape \\ sequence"))
}

fn digits(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    base: u32,
    least: usize,
    most: usize,
) -> SqlResult<u32> {
    let (mut value, mut count) = (0_u32, 0);
    while count < most
        && let Some(digit) = characters.peek().and_then(|next| next.to_digit(base))
    {
        characters.next();
        value = value.checked_mul(base).map_or(u32::MAX, |value| value.saturating_add(digit));
        count += 1;
    }
    if count < least { Err(invalid("invalid escape \\ sequence")) } else { Ok(value) }
}

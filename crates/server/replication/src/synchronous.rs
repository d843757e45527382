//! Which standbys commits wait for: `synchronous_standby_names`, as PostgreSQL writes and understands it.
//!
//! | text                      | a commit waits for                                                     |
//! |---------------------------|------------------------------------------------------------------------|
//! | (empty)                   | none                                                                   |
//! | `a, b`                    | one: `a`, and `b` while `a` is not connected                           |
//! | `2 (a, b, c)`, `FIRST 2 (a, b, c)` | the first two of the list that are connected                  |
//! | `ANY 2 (a, b, c)`         | any two of them                                                        |
//! | `*` for a name            | any name                                                               |
//!
//! Names are those that standbys call themselves (`application_name`), in capital or small letters; one that is more than a word, or is
//! a keyword, stands in double quotation marks. A standby counts while it is connected and has been sent everything once.

use std::fmt;
use std::str::FromStr;

use seawall_engine::QuorumPositions;
use seawall_types::Lsn;

use crate::message::Progress;
use crate::sabotage::{Defect, sabotaged};

/// More standbys than this are not counted on.
const COUNT_MAX: usize = 1000;

/// How the standbys that count are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyChoice {
    /// Those that come first in the list, of those that are connected.
    First,
    /// Those that are fastest.
    Any,
}

/// The value of `synchronous_standby_names`, but an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyNames {
    choice: StandbyChoice,
    count: usize,
    names: Vec<String>,
}

/// Why a text is not a list of standbys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandbyNamesError {
    /// Something else is expected.
    #[error("expected {expected} at {at:?}, as in \"ANY 1 (a, b)\" or \"a, b\"")]
    Syntax {
        /// What.
        expected: &'static str,
        /// What stands there.
        at: String,
    },
    /// No commit waits for so many.
    #[error("the number of synchronous standbys is {0}: it must be from 1 to {COUNT_MAX}")]
    Count(String),
    /// They could never all be there.
    #[error("{count} standbys are waited for, and {names} are named: name more, or wait for fewer")]
    TooFew {
        /// So many are waited for.
        count: usize,
        /// So many are named.
        names: usize,
    },
}

/// What a standby is to the commits: `sync_state` of `pg_stat_replication`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// It is not named.
    Asynchronous,
    /// It takes the place of one that is lost.
    Potential,
    /// Commits wait for it.
    Synchronous,
    /// It is one of those of which some are enough.
    Quorum,
}

impl SyncState {
    /// PostgreSQL's word.
    pub fn name(self) -> &'static str {
        match self {
            SyncState::Asynchronous => "async",
            SyncState::Potential => "potential",
            SyncState::Synchronous => "sync",
            SyncState::Quorum => "quorum",
        }
    }
}

/// A stream, as far as commits ask.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The number of its connection.
    pub(crate) process_id: i32,
    /// What the receiver calls itself.
    pub(crate) name: String,
    /// Whether it has been sent everything once.
    pub(crate) is_streaming: bool,
    pub(crate) progress: Progress,
}

impl StandbyNames {
    /// Reads the setting; `None` for an empty one.
    ///
    /// # Errors
    /// `StandbyNamesError`.
    pub fn parse(text: &str) -> Result<Option<StandbyNames>, StandbyNamesError> {
        if text.trim().is_empty() { Ok(None) } else { text.parse().map(Some) }
    }

    /// The place of a standby in the list, from 1 on; 0 if it is not named.
    pub(crate) fn priority(&self, application_name: &str) -> usize {
        let is_named = |name: &String| name == "*" || name.eq_ignore_ascii_case(application_name);
        self.names.iter().position(is_named).map_or(0, |index| index + 1)
    }

    /// What enough standbys have; `None` if there are too few.
    pub(crate) fn positions(&self, streams: &[Member]) -> Option<QuorumPositions> {
        let members = self.members(streams);
        let counted = match self.choice {
            StandbyChoice::First => members.get(..self.count)?,
            StandbyChoice::Any => &members[..],
        };
        // Of the first ones all have to have it, of any as many as are counted on.
        let nth = |position: fn(&Progress) -> Lsn| {
            let mut positions: Vec<Lsn> = counted.iter().map(|member| position(&member.progress)).collect();
            positions.sort_unstable_by(|left, right| right.cmp(left));
            let last = if sabotaged(Defect::QuorumOfOne) { 1 } else { self.count };
            positions.get(last - 1).copied()
        };
        Some(QuorumPositions {
            written: nth(|progress| progress.written)?,
            flushed: nth(|progress| progress.flushed)?,
            applied: nth(|progress| progress.applied)?,
        })
    }

    /// What a stream is to the commits.
    pub(crate) fn sync_state(&self, stream: &Member, streams: &[Member]) -> SyncState {
        if self.priority(&stream.name) == 0 {
            return SyncState::Asynchronous;
        }
        let place = self.members(streams).iter().position(|member| member.process_id == stream.process_id);
        match (self.choice, place) {
            (StandbyChoice::Any, Some(_)) => SyncState::Quorum,
            (StandbyChoice::First, Some(place)) if place < self.count => SyncState::Synchronous,
            _ => SyncState::Potential,
        }
    }

    /// The standbys that count, in their order: those that are named, and have been sent everything once.
    fn members<'s>(&self, streams: &'s [Member]) -> Vec<&'s Member> {
        let counts = |stream: &&Member| stream.is_streaming && stream.progress.flushed > Lsn::ZERO;
        let named = streams.iter().filter(counts);
        let mut members: Vec<(usize, &Member)> = named
            .map(|stream| (self.priority(&stream.name), stream))
            .filter(|(priority, _)| *priority > 0)
            .collect();
        members.sort_by_key(|(priority, stream)| (*priority, stream.process_id));
        members.into_iter().map(|(_, stream)| stream).collect()
    }
}

impl fmt::Display for StandbyNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choice = match self.choice {
            StandbyChoice::First => "FIRST",
            StandbyChoice::Any => "ANY",
        };
        write!(formatter, "{choice} {} (", self.count)?;
        for (index, name) in self.names.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let is_word = name == "*" || (is_word(name) && keyword(name).is_none());
            match is_word {
                true => write!(formatter, "{comma}{name}")?,
                false => write!(formatter, "{comma}\"{}\"", name.replace('"', "\"\""))?,
            }
        }
        formatter.write_str(")")
    }
}

impl FromStr for StandbyNames {
    type Err = StandbyNamesError;

    fn from_str(text: &str) -> Result<StandbyNames, StandbyNamesError> {
        let mut tokens = Tokens { rest: text.trim_start() };
        let choice = keyword(tokens.peek_word());
        if choice.is_some() {
            tokens.word();
        }
        let word = tokens.peek_word();
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        // A number in front of a parenthesis; a standby may be called 2, too.
        let has_count = choice.is_some() || (is_number && tokens.is_behind_word('('));
        let (count, names) = if has_count {
            if !is_number {
                return Err(tokens.refused("a number of standbys"));
            }
            let count = tokens.word();
            tokens.take('(', "`(`")?;
            let names = tokens.names()?;
            tokens.take(')', "`,` or `)`")?;
            (count, names)
        } else {
            ("1", tokens.names()?)
        };
        if !tokens.rest.is_empty() {
            return Err(tokens.refused("the end"));
        }
        let number = count.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
        let count = number.ok_or_else(|| StandbyNamesError::Count(count.to_owned()))?;
        // One name may be that of several standbys, but a list of fewer names is a mistake more often.
        if count > names.len() && !names.iter().any(|name| name == "*") {
            return Err(StandbyNamesError::TooFew { count, names: names.len() });
        }
        Ok(StandbyNames { choice: choice.unwrap_or(StandbyChoice::First), count, names })
    }
}

fn keyword(word: &str) -> Option<StandbyChoice> {
    match word {
        word if word.eq_ignore_ascii_case("first") => Some(StandbyChoice::First),
        word if word.eq_ignore_ascii_case("any") => Some(StandbyChoice::Any),
        _ => None,
    }
}

fn is_word_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '$' || !letter.is_ascii()
}

fn is_word(name: &str) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let begins = name.chars().next().is_some_and(|first| is_word_letter(first) && first != '$');
    begins
        && name.chars().all(is_word_letter)
        && (is_number || !name.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// What is left to read, without space in front.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn peek_word(&self) -> &'t str {
        let end = self.rest.find(|letter| !is_word_letter(letter)).unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    fn is_behind_word(&self, wanted: char) -> bool {
        self.rest[self.peek_word().len()..].trim_start().starts_with(wanted)
    }

    fn word(&mut self) -> &'t str {
        let word = self.peek_word();
        self.rest = self.rest[word.len()..].trim_start();
        word
    }

    fn take(&mut self, wanted: char, expected: &'static str) -> Result<(), StandbyNamesError> {
        let rest = self.rest.strip_prefix(wanted).ok_or_else(|| self.refused(expected))?;
        self.rest = rest.trim_start();
        Ok(())
    }

    fn names(&mut self) -> Result<Vec<String>, StandbyNamesError> {
        let mut names = vec![self.name()?];
        while self.rest.starts_with(',') {
            self.take(',', "`,`")?;
            names.push(self.name()?);
        }
        Ok(names)
    }

    fn name(&mut self) -> Result<String, StandbyNamesError> {
        const EXPECTED: &str = "the name of a standby";
        if self.rest.starts_with('*') {
            self.take('*', EXPECTED)?;
            return Ok("*".to_owned());
        }
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let word = self.peek_word();
        if !is_word(word) || keyword(word).is_some() {
            return Err(self.refused(EXPECTED));
        }
        Ok(self.word().to_owned())
    }

    fn quoted(&mut self) -> Result<String, StandbyNamesError> {
        let mut name = String::new();
        let mut letters = self.rest[1..].chars();
        loop {
            match letters.next() {
                None => return Err(self.refused("a quoted name that ends")),
                Some('"') if letters.as_str().starts_with('"') => {
                    letters.next();
                    name.push('"');
                }
                Some('"') => break,
                Some(letter) => name.push(letter),
            }
        }
        if name.is_empty() {
            return Err(self.refused("the name of a standby"));
        }
        self.rest = letters.as_str().trim_start();
        Ok(name)
    }

    fn refused(&self, expected: &'static str) -> StandbyNamesError {
        StandbyNamesError::Syntax { expected, at: self.rest.chars().take(20).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        text.parse::<StandbyNames>().map_or_else(|error| error.to_string(), |names| names.to_string())
    }

    #[test]
    fn lists_are_read_as_postgresql_reads_them() {
        for (text, expected) in [
            ("a", "FIRST 1 (a)"),
            (" a , b ", "FIRST 1 (a, b)"),
            ("*", "FIRST 1 (*)"),
            ("2 (a, b)", "FIRST 2 (a, b)"),
            ("2(a,b)", "FIRST 2 (a, b)"),
            ("first 2 (a, b, c)", "FIRST 2 (a, b, c)"),
            ("ANY 2 (\"first\", \"a \"\"b\", *)", "ANY 2 (\"first\", \"a \"\"b\", *)"),
            ("2, 3", "FIRST 1 (2, 3)"),
            ("any 1 (any_standby)", "ANY 1 (any_standby)"),
        ] {
            assert_eq!(read(text), expected, "{text}");
            assert_eq!(read(expected), expected, "what is shown reads back");
        }
        assert_eq!(StandbyNames::parse(" "), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("ANY (a)", "expected a number of standbys at \"(a)\""),
            ("ANY 1", "expected `(` at \"\""),
            ("ANY 1 (a", "expected `,` or `)` at \"\""),
            ("ANY 1 (a b)", "expected `,` or `)` at \"b)\""),
            ("ANY 1 ()", "expected the name of a standby at \")\""),
            ("ANY 1 (a,)", "expected the name of a standby at \")\""),
            ("ANY 1 (a) b", "expected the end at \"b\""),
            ("a b", "expected the end at \"b\""),
            ("a-b", "expected the end at \"-b\""),
            ("first", "expected a number of standbys at \"\""),
            ("1a", "expected the name of a standby at \"1a\""),
            ("\"a", "expected a quoted name that ends at \"\\\"a\""),
            ("\"\"", "expected the name of a standby at \"\\\"\\\"\""),
            ("0 (a)", "the number of synchronous standbys is 0"),
            ("99999999999999999999 (a)", "the number of synchronous standbys is 99999999999999999999"),
            ("ANY 3 (a, b)", "3 standbys are waited for, and 2 are named"),
        ] {
            assert!(read(text).starts_with(expected), "{text}: {}", read(text));
        }
    }

    fn stream(process_id: i32, name: &str, positions: (u64, u64, u64)) -> Member {
        let (written, flushed, applied) = positions;
        let (written, flushed, applied) = (Lsn::new(written), Lsn::new(flushed), Lsn::new(applied));
        let progress = Progress { written, flushed, applied };
        Member { process_id, name: name.to_owned(), is_streaming: true, progress }
    }

    fn positions(names: &str, streams: &[Member]) -> Option<(u64, u64, u64)> {
        let names: StandbyNames = names.parse().unwrap();
        let found = names.positions(streams)?;
        Some((found.written.get(), found.flushed.get(), found.applied.get()))
    }

    #[test]
    fn of_any_the_fastest_count_and_of_first_the_first() {
        let streams =
            [stream(1, "a", (30, 20, 10)), stream(2, "B", (50, 15, 15)), stream(3, "c", (40, 40, 40))];
        assert_eq!(positions("ANY 1 (a, b, c)", &streams), Some((50, 40, 40)));
        assert_eq!(positions("ANY 2 (a, b, c)", &streams), Some((40, 20, 15)));
        assert_eq!(positions("ANY 3 (*)", &streams), Some((30, 15, 10)));
        assert_eq!(positions("ANY 2 (a, c, d)", &streams), Some((30, 20, 10)));
        assert_eq!(positions("ANY 2 (a, d)", &streams), None);
        assert_eq!(positions("a, b", &streams), Some((30, 20, 10)));
        assert_eq!(positions("d, b, a", &streams), Some((50, 15, 15)), "d is not connected");
        assert_eq!(positions("FIRST 2 (c, b, a)", &streams), Some((40, 15, 15)));
        assert_eq!(positions("FIRST 2 (d, a)", &streams), None);
    }

    #[test]
    fn a_standby_that_catches_up_or_says_nothing_does_not_count() {
        let mut behind = stream(1, "a", (30, 20, 10));
        behind.is_streaming = false;
        assert_eq!(positions("a", &[behind]), None);
        assert_eq!(positions("a", &[stream(1, "a", (0, 0, 0))]), None);
    }

    #[test]
    fn the_state_of_a_standby_is_as_postgresql_shows_it() {
        let streams =
            [stream(1, "a", (30, 20, 10)), stream(2, "b", (50, 15, 15)), stream(3, "c", (40, 40, 40))];
        let states = |names: &str| -> Vec<&str> {
            let names: StandbyNames = names.parse().unwrap();
            streams.iter().map(|stream| names.sync_state(stream, &streams).name()).collect()
        };
        assert_eq!(states("b, a"), ["potential", "sync", "async"]);
        assert_eq!(states("ANY 1 (b, a)"), ["quorum", "quorum", "async"]);
        assert_eq!(states("FIRST 2 (*)"), ["sync", "sync", "potential"]);
    }
}

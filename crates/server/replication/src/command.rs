//! PostgreSQL's replication commands, as texts.

use std::ops::Range;
use std::str::Chars;

use seawall_types::{Lsn, TimelineId};

use crate::copy::decode_ranges;
use crate::settings::Listens;
use crate::take_over::TakeOver;

/// A command of a connection for replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `IDENTIFY_SYSTEM`: the database, its timeline, and the end of its log.
    IdentifySystem,
    /// `SHOW name`.
    Show(String),
    /// `READ_REPLICATION_SLOT slot`.
    ReadSlot(String),
    /// `CREATE_REPLICATION_SLOT slot [TEMPORARY] PHYSICAL [RESERVE_WAL]`.
    CreateSlot {
        /// Its name.
        name: String,
        /// It ends with the connection.
        is_temporary: bool,
    },
    /// `DROP_REPLICATION_SLOT slot [WAIT]`.
    DropSlot(String),
    /// `TIMELINE_HISTORY timeline`.
    TimelineHistory(TimelineId),
    /// `START_REPLICATION [SLOT slot] [PHYSICAL] position [TIMELINE timeline]`.
    Start(StartReplication),
    /// `SEAWALL_COPY SLOT slot [SINCE position]`: a copy of the database, for a new standby that follows by the slot; or of what has changed
    /// since, which goes on with the next two.
    Copy {
        /// The slot, which is there before the copy begins.
        slot: String,
        /// Rows that have not changed since are left out.
        since: Option<Lsn>,
    },
    /// `SEAWALL_COPY_ROWS 'ranges'`: the rows of these ranges, which were left out.
    CopyRows(Vec<Range<Vec<u8>>>),
    /// `SEAWALL_COPY_END`: the copy has all that was asked for.
    CopyEnd,
    /// `SEAWALL_LISTENS port ['directory']`: where the standby of this connection listens.
    Listens(Listens),
    /// `SEAWALL_TAKE_OVER 'order' TIMELINE timeline AT position`: this standby is to go on where its primary's log ends.
    TakeOver(TakeOver),
    /// `SEAWALL_CANCEL_TAKE_OVER 'order'`: it is not, unless it has.
    CancelTakeOver {
        /// The order's name.
        order: String,
    },
}

/// What is to be streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartReplication {
    /// The slot that moves with what the receiver has.
    pub slot: Option<String>,
    /// The first byte.
    pub position: Lsn,
    /// The timeline; `None`: the one that the server is on.
    pub timeline: Option<TimelineId>,
}

/// Why a text is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It is not one of replication, or is malformed.
    #[error("syntax error at or near \"{near}\"")]
    Syntax {
        /// The word that is not understood.
        near: String,
    },
    /// It is about logical replication.
    #[error("logical replication is not supported")]
    Logical,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// A keyword, a number or a position, as written.
    Plain(String),
    /// In quotation marks of either kind.
    Quoted(String),
    Sign(char),
}

impl Command {
    /// Reads a command. A semicolon may end it.
    ///
    /// # Errors
    /// `Syntax`, `Logical`.
    pub fn parse(text: &str) -> Result<Command, CommandError> {
        let mut words = Words { words: split(text)?, next: 0 };
        let command = match words.keyword().as_deref() {
            Some("IDENTIFY_SYSTEM") => Command::IdentifySystem,
            Some("SHOW") => Command::Show(words.name()?),
            Some("READ_REPLICATION_SLOT") => Command::ReadSlot(words.name()?),
            Some("CREATE_REPLICATION_SLOT") => words.create_slot()?,
            Some("DROP_REPLICATION_SLOT") => {
                let name = words.name()?;
                words.takes("WAIT");
                Command::DropSlot(name)
            }
            Some("TIMELINE_HISTORY") => Command::TimelineHistory(words.timeline()?),
            Some("START_REPLICATION") => words.start()?,
            Some("SEAWALL_COPY") => {
                if !words.takes("SLOT") {
                    return Err(words.refused());
                }
                let slot = words.name()?;
                let since =
                    if words.takes("SINCE") { Some(words.plain(|word| word.parse().ok())?) } else { None };
                Command::Copy { slot, since }
            }
            Some("SEAWALL_COPY_ROWS") => words.copy_rows()?,
            Some("SEAWALL_COPY_END") => Command::CopyEnd,
            Some("SEAWALL_LISTENS") => words.listens()?,
            Some("SEAWALL_TAKE_OVER") => words.take_over()?,
            Some("SEAWALL_CANCEL_TAKE_OVER") => Command::CancelTakeOver { order: words.name()? },
            _ => return Err(words.refused_first()),
        };
        words.end()?;
        Ok(command)
    }
}

struct Words {
    words: Vec<Word>,
    next: usize,
}

impl Words {
    fn refused_at(&self, position: usize) -> CommandError {
        let near = match self.words.get(position) {
            Some(Word::Plain(word) | Word::Quoted(word)) => word.clone(),
            Some(Word::Sign(sign)) => sign.to_string(),
            None => "end of command".to_owned(),
        };
        CommandError::Syntax { near }
    }

    fn refused_first(&self) -> CommandError {
        self.refused_at(0)
    }

    fn refused(&self) -> CommandError {
        self.refused_at(self.next)
    }

    /// The next word as a keyword, in capitals.
    fn keyword(&mut self) -> Option<String> {
        let Some(Word::Plain(word)) = self.words.get(self.next) else { return None };
        self.next += 1;
        Some(word.to_ascii_uppercase())
    }

    fn takes(&mut self, keyword: &str) -> bool {
        let found = matches!(self.words.get(self.next), Some(Word::Plain(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let found = self.words.get(self.next) == Some(&Word::Sign(sign));
        self.next += usize::from(found);
        found
    }

    /// A name: in small letters, unless it is quoted.
    fn name(&mut self) -> Result<String, CommandError> {
        let name = match self.words.get(self.next) {
            Some(Word::Plain(word)) => word.to_ascii_lowercase(),
            Some(Word::Quoted(word)) => word.clone(),
            Some(Word::Sign(_)) | None => return Err(self.refused()),
        };
        self.next += 1;
        Ok(name)
    }

    fn plain<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Result<T, CommandError> {
        let found = match self.words.get(self.next) {
            Some(Word::Plain(word)) => read(word),
            _ => None,
        };
        let found = found.ok_or_else(|| self.refused())?;
        self.next += 1;
        Ok(found)
    }

    fn timeline(&mut self) -> Result<TimelineId, CommandError> {
        self.plain(|word| TimelineId::new(word.parse().ok()?))
    }

    /// Options in parentheses are PostgreSQL 15's way, and those without are that of clients before.
    fn create_slot(&mut self) -> Result<Command, CommandError> {
        let name = self.name()?;
        let is_temporary = self.takes("TEMPORARY");
        if self.takes("LOGICAL") {
            return Err(CommandError::Logical);
        }
        if !self.takes("PHYSICAL") {
            return Err(self.refused());
        }
        if self.takes_sign('(') {
            while !self.takes_sign(')') {
                // A slot keeps the log from its creation on, whether that is asked for or not.
                if !self.takes("RESERVE_WAL") && !self.takes("TRUE") && !self.takes_sign(',') {
                    return Err(self.refused());
                }
            }
        }
        self.takes("RESERVE_WAL");
        Ok(Command::CreateSlot { name, is_temporary })
    }

    fn start(&mut self) -> Result<Command, CommandError> {
        let slot = if self.takes("SLOT") { Some(self.name()?) } else { None };
        if self.takes("LOGICAL") {
            return Err(CommandError::Logical);
        }
        self.takes("PHYSICAL");
        let position = self.plain(|word| word.parse().ok())?;
        let timeline = if self.takes("TIMELINE") { Some(self.timeline()?) } else { None };
        Ok(Command::Start(StartReplication { slot, position, timeline }))
    }

    fn copy_rows(&mut self) -> Result<Command, CommandError> {
        let found = match self.words.get(self.next) {
            Some(Word::Quoted(digits)) => decode_ranges(digits),
            _ => None,
        };
        let ranges = found.ok_or_else(|| self.refused())?;
        self.next += 1;
        Ok(Command::CopyRows(ranges))
    }

    fn listens(&mut self) -> Result<Command, CommandError> {
        let port = self.plain(|word| word.parse().ok())?;
        let socket_directory = match self.words.get(self.next) {
            Some(Word::Quoted(_)) => Some(self.name()?),
            _ => None,
        };
        Ok(Command::Listens(Listens { port, socket_directory }))
    }

    fn take_over(&mut self) -> Result<Command, CommandError> {
        let order = self.name()?;
        if !self.takes("TIMELINE") {
            return Err(self.refused());
        }
        let timeline = self.timeline()?;
        if !self.takes("AT") {
            return Err(self.refused());
        }
        let at = self.plain(|word| word.parse().ok())?;
        Ok(Command::TakeOver(TakeOver { order, timeline, at }))
    }

    fn end(mut self) -> Result<(), CommandError> {
        self.takes_sign(';');
        if self.next == self.words.len() { Ok(()) } else { Err(self.refused()) }
    }
}

fn split(text: &str) -> Result<Vec<Word>, CommandError> {
    let mut words = Vec::new();
    let mut rest = text.chars();
    loop {
        let before = rest.clone();
        match rest.next() {
            None => return Ok(words),
            Some(space) if space.is_ascii_whitespace() => {}
            Some(mark @ ('"' | '\'')) => words.push(Word::Quoted(quoted(&mut rest, mark)?)),
            Some(first) if is_of_word(first) => {
                let length = before.as_str().find(|letter| !is_of_word(letter));
                let (word, after) = before.as_str().split_at(length.unwrap_or(before.as_str().len()));
                words.push(Word::Plain(word.to_owned()));
                rest = after.chars();
            }
            Some(sign) => words.push(Word::Sign(sign)),
        }
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '/' | '.')
}

/// Up to the closing mark; two of them are one.
fn quoted(rest: &mut Chars<'_>, mark: char) -> Result<String, CommandError> {
    let mut word = String::new();
    loop {
        match rest.next() {
            Some(letter) if letter == mark => match rest.clone().next() {
                Some(again) if again == mark => {
                    rest.next();
                    word.push(mark);
                }
                _ => return Ok(word),
            },
            Some(letter) => word.push(letter),
            None => return Err(CommandError::Syntax { near: "end of command".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    #[test]
    fn commands_of_pg_receivewal_are_read() {
        let slot = |name: &str, is_temporary| Command::CreateSlot { name: name.to_owned(), is_temporary };
        let start = |slot: Option<&str>, position: u64, number| {
            Command::Start(StartReplication {
                slot: slot.map(str::to_owned),
                position: Lsn::new(position),
                timeline: number,
            })
        };
        for (text, expected) in [
            ("IDENTIFY_SYSTEM", Command::IdentifySystem),
            ("identify_system;", Command::IdentifySystem),
            ("SHOW wal_segment_size", Command::Show("wal_segment_size".to_owned())),
            ("READ_REPLICATION_SLOT \"a\"\"B\"", Command::ReadSlot("a\"B".to_owned())),
            ("CREATE_REPLICATION_SLOT \"s\" PHYSICAL (RESERVE_WAL)", slot("s", false)),
            ("CREATE_REPLICATION_SLOT S TEMPORARY PHYSICAL RESERVE_WAL", slot("s", true)),
            ("DROP_REPLICATION_SLOT \"s\" WAIT", Command::DropSlot("s".to_owned())),
            ("SEAWALL_COPY SLOT \"s\"", Command::Copy { slot: "s".to_owned(), since: None }),
            (
                "SEAWALL_COPY SLOT s SINCE 0/1000",
                Command::Copy { slot: "s".to_owned(), since: Some(Lsn::new(0x1000)) },
            ),
            (
                "SEAWALL_COPY_ROWS '000000016100000002ffff'",
                Command::CopyRows(vec![b"a".to_vec()..vec![0xFF, 0xFF]]),
            ),
            ("SEAWALL_COPY_END", Command::CopyEnd),
            ("TIMELINE_HISTORY 2", Command::TimelineHistory(timeline(2))),
            ("SEAWALL_LISTENS 5433", Command::Listens(Listens { port: 5433, socket_directory: None })),
            (
                "SEAWALL_LISTENS 5433 '/tmp/o''neil'",
                Command::Listens(Listens { port: 5433, socket_directory: Some("/tmp/o'neil".to_owned()) }),
            ),
            (
                "SEAWALL_TAKE_OVER 'a1' TIMELINE 2 AT 0/1000",
                Command::TakeOver(TakeOver {
                    order: "a1".to_owned(),
                    timeline: timeline(2),
                    at: Lsn::new(0x1000),
                }),
            ),
            ("SEAWALL_CANCEL_TAKE_OVER 'a1'", Command::CancelTakeOver { order: "a1".to_owned() }),
            (
                "START_REPLICATION SLOT \"s\" 1/A2000000 TIMELINE 2",
                start(Some("s"), 0x1_A200_0000, Some(timeline(2))),
            ),
            ("START_REPLICATION PHYSICAL 0/1000", start(None, 0x1000, None)),
        ] {
            assert_eq!(Command::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_word() {
        for (text, near) in [
            ("", "end of command"),
            ("select 1", "select"),
            ("START_REPLICATION 0-1000", "0"),
            ("START_REPLICATION 0/1000 TIMELINE 0", "0"),
            ("TIMELINE_HISTORY x", "x"),
            ("SEAWALL_COPY", "end of command"),
            ("SEAWALL_COPY SLOT s SINCE x", "x"),
            ("SEAWALL_COPY_ROWS 'zz'", "zz"),
            ("SEAWALL_COPY_ROWS", "end of command"),
            ("SEAWALL_LISTENS 70000", "70000"),
            ("SEAWALL_TAKE_OVER 'a' AT 0/1000", "AT"),
            ("SEAWALL_TAKE_OVER 'a' TIMELINE 1 AT 4096-", "4096"),
            ("CREATE_REPLICATION_SLOT s", "end of command"),
            ("CREATE_REPLICATION_SLOT s PHYSICAL (TWO_PHASE)", "TWO_PHASE"),
            ("READ_REPLICATION_SLOT \"s", "end of command"),
            ("IDENTIFY_SYSTEM IDENTIFY_SYSTEM", "IDENTIFY_SYSTEM"),
        ] {
            assert_eq!(Command::parse(text), Err(CommandError::Syntax { near: near.to_owned() }), "{text}");
        }
        let logical = Command::parse("CREATE_REPLICATION_SLOT s LOGICAL pgoutput");
        assert_eq!(logical, Err(CommandError::Logical));
        assert_eq!(Command::parse("START_REPLICATION SLOT s LOGICAL 0/0"), Err(CommandError::Logical));
    }
}

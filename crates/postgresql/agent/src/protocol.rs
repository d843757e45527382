//! What a command and the agent say to each other: a line each way on a socket, then the end.
//!
//! ```text
//!   command                                    agent
//!   push 1a2b3c4d pg_wal/0000...01     -->     ok | released MESSAGE | failed MESSAGE | other
//!   fetch 1a2b3c4d 0000...01 pg_wal/RECOVERYXLOG --> ok | missing | failed MESSAGE | other
//!   hello 1a2b3c4d                     -->     ok | other
//!   status 1a2b3c4d text|json          -->     status MESSAGE
//!   stop 1a2b3c4d                      -->     ok
//! ```
//! The eight digits stand for the settings, for credentials in the environment, and for the data directory: `other` means that the agent runs
//! with other ones and is about to end, so that the next one can be started with these. In paths and messages `%`, spaces and line feeds are written as `%XX`.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seawall_codec::checksum::crc32c;

use crate::settings::ArchiveSettings;

/// A longer line is none of ours.
pub(crate) const LINE_BYTES_MAX: u64 = 64 << 10;

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Archive this file: a path, from the data directory on.
    Push { path: String },
    /// Fetch the file with this name to this path, from the data directory on.
    Fetch { name: String, path: String },
    /// Say that you are there.
    Hello,
    /// Say how things are.
    Status(Form),
    /// End, when nothing is under way.
    Stop,
}

/// What an answer looks like, and a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What the agent answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done.
    Ok,
    /// PostgreSQL may remove the file although it is not archived as it should be, and why.
    Released(String),
    /// There is no such file in the repository.
    Missing,
    /// It could not be done, and why.
    Failed(String),
    /// How things are.
    Status(String),
    /// The settings are not those that the agent was started with.
    OtherSettings,
}

/// What agents are told apart by: the settings, with what they take from the environment, since an agent keeps the environment that it
/// was started with; and the data directory. Another one may be under its name by now, or at the same moment in another container.
pub(crate) fn mark_of(settings: &ArchiveSettings, data: &Path) -> u32 {
    let identity = |found: std::fs::Metadata| format!("{:x}-{:x}", found.dev(), found.ino());
    // A directory that is missing is told by whoever works in it.
    let directory = std::fs::metadata(data).map(identity).unwrap_or_default();
    let environment = settings.environment().into_iter().flat_map(|(name, value)| [name, value]);
    let own = [settings.to_text(), directory].map(String::into_bytes);
    let parts: Vec<Vec<u8>> = own.into_iter().chain(environment).collect();
    crc32c(&parts.join(&0))
}

impl Request {
    pub(crate) fn to_line(&self, mark: u32) -> String {
        match self {
            Request::Push { path } => format!("push {mark:08x} {}\n", escape(path)),
            Request::Fetch { name, path } => format!("fetch {mark:08x} {} {}\n", escape(name), escape(path)),
            Request::Hello => format!("hello {mark:08x}\n"),
            Request::Status(Form::Text) => format!("status {mark:08x} text\n"),
            Request::Status(Form::Json) => format!("status {mark:08x} json\n"),
            Request::Stop => format!("stop {mark:08x}\n"),
        }
    }

    /// The request, and the mark of the settings; `None` for any other line.
    pub(crate) fn parse(line: &str) -> Option<(Request, u32)> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let mark = u32::from_str_radix(words.get(1).filter(|mark| mark.len() == 8)?, 16).ok()?;
        let request = match (words[0], &words[2..]) {
            ("push", [path]) => Request::Push { path: unescape(path)? },
            ("fetch", [name, path]) => Request::Fetch { name: unescape(name)?, path: unescape(path)? },
            ("hello", []) => Request::Hello,
            ("status", ["text"]) => Request::Status(Form::Text),
            ("status", ["json"]) => Request::Status(Form::Json),
            ("stop", []) => Request::Stop,
            _ => return None,
        };
        Some((request, mark))
    }
}

impl Answer {
    pub(crate) fn to_line(&self) -> String {
        match self {
            Answer::Ok => "ok\n".to_owned(),
            Answer::Missing => "missing\n".to_owned(),
            Answer::Released(message) => format!("released {}\n", escape(message)),
            Answer::Failed(message) => format!("failed {}\n", escape(message)),
            Answer::Status(message) => format!("status {}\n", escape(message)),
            Answer::OtherSettings => "other\n".to_owned(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Answer> {
        let line = line.strip_suffix('\n')?;
        Some(match line.split_once(' ') {
            None if line == "ok" => Answer::Ok,
            None if line == "missing" => Answer::Missing,
            None if line == "other" => Answer::OtherSettings,
            Some(("released", message)) => Answer::Released(unescape(message)?),
            Some(("failed", message)) => Answer::Failed(unescape(message)?),
            Some(("status", message)) => Answer::Status(unescape(message)?),
            _ => return None,
        })
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' | ' ' | '\n' | '\r' => {
                write!(escaped, "%{:02X}", u32::from(character)).expect("writing to a String cannot fail");
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        plain.push(char::from(u8::from_str_radix(digits, 16).ok()?));
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let odd = "pg wal/100%\nü\r";
        for request in [
            Request::Push { path: odd.to_owned() },
            Request::Fetch { name: "0000".to_owned(), path: odd.to_owned() },
            Request::Hello,
            Request::Status(Form::Text),
            Request::Status(Form::Json),
            Request::Stop,
        ] {
            let line = request.to_line(7);
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(Request::parse(&line), Some((request, 7)));
        }
        for answer in [
            Answer::Ok,
            Answer::Missing,
            Answer::OtherSettings,
            Answer::Failed(odd.to_owned()),
            Answer::Released(odd.to_owned()),
            Answer::Status(String::new()),
        ] {
            assert_eq!(Answer::parse(&answer.to_line()), Some(answer));
        }
        for line in [
            "",
            "\n",
            "push\n",
            "push 7 x\n",
            "push 00000007\n",
            "push 00000007 x",
            "grow 00000007\n",
            "push 00000007 %\n",
        ] {
            assert_eq!(Request::parse(line), None, "{line:?}");
        }
        assert_eq!(Answer::parse("okay\n"), None);
    }
}

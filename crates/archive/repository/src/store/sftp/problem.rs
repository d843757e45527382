//! Why a server did not do what it was asked over SFTP.

use russh_sftp::client::error::Error;
use russh_sftp::protocol::StatusCode;

use crate::store::StoreCause;
use crate::store::listing::is_obeyed;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Problem {
    /// The server's answer. The connection is good for others.
    Answer(StoreCause, String),
    /// The connection cannot be used any more.
    Broken(StoreCause, String),
}

impl Problem {
    pub(super) fn other(message: impl Into<String>) -> Problem {
        Problem::Answer(StoreCause::Other, message.into())
    }

    /// Whether the server says that there is no such file or directory.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Problem::Answer(StoreCause::NotFound, _))
    }

    /// Whether the server may have had more than one reason to give this answer: the protocol has few.
    pub(super) fn is_unspecific(&self) -> bool {
        matches!(self, Problem::Answer(StoreCause::Other, _))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let broken = |message: String| Problem::Broken(StoreCause::Interrupted, message);
        match error {
            Error::Status(status) => {
                let cause = match status.status_code {
                    StatusCode::NoSuchFile => StoreCause::NotFound,
                    StatusCode::PermissionDenied => StoreCause::Denied,
                    StatusCode::NoConnection | StatusCode::ConnectionLost => {
                        return broken(status.error_message);
                    }
                    _ => StoreCause::Other,
                };
                let said = status.error_message.replace(is_obeyed, " ");
                // Most servers say nothing but the name of the code.
                let message = match status.status_code {
                    StatusCode::OpUnsupported => format!("the server cannot do that: {said}"),
                    _ => format!("the server says {said:?}"),
                };
                Problem::Answer(cause, message)
            }
            Error::Timeout => Problem::Broken(StoreCause::TimedOut, "no answer in time".to_owned()),
            other => broken(other.to_string()),
        }
    }
}

/// What the program `ssh` has written before it ended, as a cause and a message. `is_established`: requests were answered before.
pub(super) fn of_ssh(said: &str, fallback: &str, is_established: bool) -> Problem {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let cause =
        if has(&["Host key verification failed", "host key is known for", "IDENTIFICATION HAS CHANGED"]) {
            StoreCause::UntrustedHost
        } else if has(&["Permission denied (", "Too many authentication failures", "no such identity"]) {
            StoreCause::Unauthenticated
        } else if is_established {
            StoreCause::Interrupted
        } else {
            StoreCause::Unreachable
        };
    let lines: Vec<String> = said
        .lines()
        .map(|line| line.trim_end().replace(is_obeyed, " "))
        .filter(|line| !line.is_empty() && !line.starts_with('@'))
        .collect();
    let message = if lines.is_empty() { fallback.to_owned() } else { lines.join("; ") };
    Problem::Broken(cause, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_told_apart() {
        for (said, established, expected) in [
            ("Host key verification failed.\r\n", false, StoreCause::UntrustedHost),
            ("me@h: Permission denied (publickey).\r\n", false, StoreCause::Unauthenticated),
            ("ssh: connect to host h port 22: Connection refused\r\n", false, StoreCause::Unreachable),
            ("", true, StoreCause::Interrupted),
            ("Connection to h closed by remote host.", true, StoreCause::Interrupted),
        ] {
            match of_ssh(said, "it ended", established) {
                Problem::Broken(cause, message) => {
                    assert_eq!(cause, expected, "{said}");
                    assert!(!message.is_empty() && !message.contains('\r'), "{message:?}");
                }
                problem => panic!("{problem:?}"),
            }
        }
    }
}

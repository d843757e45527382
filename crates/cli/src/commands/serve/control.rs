//! The socket `control` in the directory of a server: `seawall promote` and `seawall switchover` speak to it.
//!
//! A line each way:
//!
//! | request                          | answer                                                     |
//! |----------------------------------|------------------------------------------------------------|
//! | `promote`                        | `promoted TIMELINE PHASE=MICROSECONDS ..`, or `failed WHY` |
//! | `switchover {"wait_seconds":10}` | `switched TIMELINE MILLISECONDS`, or `failed WHY`          |
//!
//! The socket is for the user that serves the directory, and for root. Its path is reached through the directory's descriptor: a path of a
//! socket has at most 107 bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_io::{Disk, OsDisk};
use serde_json::{Value, json};

const NAME: &str = "control";
const PROMOTE: &str = "promote";
const SWITCHOVER: &str = "switchover";
/// A request is a word, and settings of a connection.
const REQUEST_BYTES_MAX: u64 = 16 << 10;
/// A peer that says nothing.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// After an error of `accept`, such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// A switchover may wait twice as long as it was asked to, and logs in to the standby.
const SWITCHOVER_MORE: Duration = Duration::from_secs(60);

/// What the server does when it is asked.
pub(super) trait Controlled: Send + 'static {
    /// Becomes a primary; its timeline, and what took how many microseconds.
    fn promote(&self) -> Result<String, String>;
    /// Hands its role over; the new timeline, and for how many milliseconds writers were parked.
    fn switch_over(&self, asked: &SwitchoverAsked) -> Result<(String, u128), String>;
    /// The answer to `switch_over` was sent.
    fn answered(&self);
}

/// What a switchover is asked for with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchoverAsked {
    /// The standby's name.
    pub(crate) to: Option<String>,
    /// How it is followed.
    pub(crate) follow: Option<String>,
    /// How long it is waited for.
    pub(crate) wait_seconds: u64,
}

impl SwitchoverAsked {
    fn encode(&self) -> String {
        let SwitchoverAsked { to, follow, wait_seconds } = self;
        json!({ "to": to, "follow": follow, "wait_seconds": wait_seconds }).to_string()
    }

    fn decode(text: &str) -> Option<SwitchoverAsked> {
        let value: Value = serde_json::from_str(text).ok()?;
        let of = |name: &str| value[name].as_str().map(str::to_owned);
        Some(SwitchoverAsked {
            to: of("to"),
            follow: of("follow"),
            wait_seconds: value["wait_seconds"].as_u64()?,
        })
    }
}

/// The path of the socket, as long as the directory's descriptor is open.
struct Reached {
    _directory: File,
    path: PathBuf,
}

fn reach(directory: &Path) -> io::Result<Reached> {
    let directory = OpenOptions::new().read(true).open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()));
    Ok(Reached { _directory: directory, path })
}

/// A socket that is listened to.
#[derive(Debug)]
pub(super) struct Control {
    directory: PathBuf,
    is_over: Arc<AtomicBool>,
}

impl Control {
    /// Nobody listens any more, and the socket is removed. What is being answered is answered.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread. A failure leaves a socket that nobody answers.
        if let Ok(reached) = reach(&self.directory) {
            drop(UnixStream::connect(&reached.path));
        }
        OsDisk::new(&self.directory).remove(NAME).unwrap_or_default();
    }
}

/// Listens. Whoever has the directory's lock may replace a socket that a killed process has left.
pub(super) fn listen(directory: &Path, server: impl Controlled) -> io::Result<Control> {
    let reached = reach(directory)?;
    match OsDisk::new(directory).remove(NAME) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&reached.path)?;
    std::fs::set_permissions(&reached.path, std::fs::Permissions::from_mode(0o600))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let control = Control { directory: directory.to_owned(), is_over: Arc::clone(&is_over) };
    let serve = move || {
        for stream in listener.incoming() {
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            match stream {
                Ok(stream) => answer(stream, &server).unwrap_or_else(|error| {
                    tracing::debug!(%error, "a connection to the control socket broke");
                }),
                Err(error) => {
                    tracing::warn!(%error, "a connection to the control socket is not taken");
                    std::thread::park_timeout(ACCEPT_REST);
                }
            }
        }
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(serve)?;
    Ok(control)
}

fn answer(mut stream: UnixStream, server: &impl Controlled) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return writeln!(stream, "failed only the user that serves the directory may do that");
    }
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    let request = request.trim_end();
    let failed = |why: String| format!("failed {}", why.replace('\n', " "));
    if request == PROMOTE {
        let promoted = server.promote();
        let said = promoted.map_or_else(failed, |timeline| format!("promoted {timeline}"));
        return writeln!(stream, "{said}");
    }
    let asked = request.split_once(' ').filter(|(word, _)| *word == SWITCHOVER);
    let Some(asked) = asked.and_then(|(_, text)| SwitchoverAsked::decode(text)) else {
        return writeln!(stream, "failed {request:?} is not a request");
    };
    let said = match server.switch_over(&asked) {
        Ok((timeline, milliseconds)) => format!("switched {timeline} {milliseconds}"),
        Err(why) => failed(why),
    };
    let told = writeln!(stream, "{said}");
    // Whoever asked may be gone; what was done is done.
    server.answered();
    told
}

/// A promotion, as a server tells of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    /// The timeline that it is on.
    pub(crate) timeline: u32,
    /// Its phases and their microseconds, in their order; none from a server of another version.
    pub(crate) phases: Vec<(String, u64)>,
}

impl Promoted {
    /// Of what follows the word `promoted`.
    fn parse(text: &str) -> Option<Promoted> {
        let (timeline, phases) = text.split_once(' ').unwrap_or((text, ""));
        let phases = phases.split_whitespace().filter_map(|phase| {
            let (name, micros) = phase.split_once('=')?;
            Some((name.to_owned(), micros.parse().ok()?))
        });
        Some(Promoted { timeline: timeline.parse().ok()?, phases: phases.collect() })
    }
}

/// Why a server has not done what it was asked.
#[derive(Debug)]
pub(crate) enum AskError {
    /// No server has the directory open.
    NotServed,
    /// It does not want to.
    Refused(String),
    /// It has not answered, and may have done it, or may not.
    Io(io::Error),
}

/// Has the server of a directory become a primary.
pub(crate) fn promote(directory: &Path, limit: Duration) -> Result<Promoted, AskError> {
    let answer = ask(directory, PROMOTE, "promoted", limit)?;
    Promoted::parse(&answer).ok_or_else(|| AskError::Io(ErrorKind::InvalidData.into()))
}

/// Has the server of a directory hand its role over; the new primary's timeline, and for how many milliseconds writers were parked.
pub(crate) fn switch_over(directory: &Path, asked: &SwitchoverAsked) -> Result<(u32, u64), AskError> {
    let limit = Duration::from_secs(asked.wait_seconds) * 2 + SWITCHOVER_MORE;
    let answer = ask(directory, &format!("{SWITCHOVER} {}", asked.encode()), "switched", limit)?;
    let parsed = answer
        .split_once(' ')
        .and_then(|(timeline, parked)| Some((timeline.parse().ok()?, parked.parse().ok()?)));
    parsed.ok_or_else(|| AskError::Io(ErrorKind::InvalidData.into()))
}

/// Asks; what follows `done` in the answer.
fn ask(directory: &Path, request: &str, done: &str, limit: Duration) -> Result<String, AskError> {
    let reached = reach(directory).map_err(AskError::Io)?;
    let mut stream = UnixStream::connect(&reached.path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => AskError::NotServed,
        _ => AskError::Io(error),
    })?;
    stream.set_read_timeout(Some(limit)).map_err(AskError::Io)?;
    writeln!(stream, "{request}").map_err(AskError::Io)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(AskError::Io)?;
    match answer.trim_end().split_once(' ') {
        Some((word, rest)) if word == done => Ok(rest.to_owned()),
        Some(("failed", why)) => Err(AskError::Refused(why.to_owned())),
        _ => Err(AskError::Io(ErrorKind::UnexpectedEof.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says;

    impl Controlled for Says {
        fn promote(&self) -> Result<String, String> {
            Err("it is\none already".to_owned())
        }

        fn switch_over(&self, asked: &SwitchoverAsked) -> Result<(String, u128), String> {
            Ok((asked.wait_seconds.to_string(), u128::from(asked.to.is_some())))
        }

        fn answered(&self) {}
    }

    #[test]
    fn requests_are_answered_until_the_socket_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let asked = |follow: &str| SwitchoverAsked {
            to: Some("x".to_owned()),
            follow: Some(follow.to_owned()),
            wait_seconds: 7,
        };
        assert!(matches!(switch_over(path, &asked("")), Err(AskError::NotServed)));
        let control = listen(path, Says).unwrap();
        let refused = promote(path, REQUEST_TIME);
        assert!(matches!(&refused, Err(AskError::Refused(why)) if why == "it is one already"), "{refused:?}");
        assert_eq!(switch_over(path, &asked("password='a \"b\"'")).unwrap(), (7, 1));
        let refused = ask(path, "else", "else", REQUEST_TIME);
        assert!(matches!(refused, Err(AskError::Refused(_))), "{refused:?}");
        control.end();
        assert!(matches!(promote(path, REQUEST_TIME), Err(AskError::NotServed)));
    }

    #[test]
    fn the_answer_to_promote_has_a_timeline_and_may_have_phases() {
        let phases = vec![("receive".to_owned(), 12), ("apply".to_owned(), 0)];
        assert_eq!(Promoted::parse("2 receive=12 apply=0"), Some(Promoted { timeline: 2, phases }));
        assert_eq!(Promoted::parse("3"), Some(Promoted { timeline: 3, phases: Vec::new() }));
        assert_eq!(Promoted::parse("soon"), None);
    }

    #[test]
    fn what_is_asked_comes_through_as_it_is() {
        for (to, follow) in [(None, None), (Some("a b"), Some("host=x password='y \"z\" \\\\'"))] {
            let asked = SwitchoverAsked {
                to: to.map(str::to_owned),
                follow: follow.map(str::to_owned),
                wait_seconds: 3,
            };
            assert_eq!(SwitchoverAsked::decode(&asked.encode()), Some(asked));
        }
        assert_eq!(SwitchoverAsked::decode("{}"), None);
    }
}

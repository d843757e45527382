//! The socket `control` in the directory of a server that follows another one: `seawall promote` speaks to it.
//!
//! A line each way: `promote`, and `promoted TIMELINE` or `failed WHY`. The socket is for the user that serves the directory, and for root.
//! Its path is reached through the directory's descriptor: a path of a socket has at most 107 bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Disk, OsDisk};
use seawall_sql::session::SqlDatabase;

const NAME: &str = "control";
const PROMOTE: &str = "promote";
/// A request is a word.
const REQUEST_BYTES_MAX: u64 = 64;
/// A peer that says nothing.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// After an error of `accept`, such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(100);

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

/// Listens until the process ends. Whoever has the directory's lock may replace a socket that a killed process has left.
pub(super) fn listen(directory: &Path, sql: Arc<SqlDatabase>) -> io::Result<()> {
    let reached = reach(directory)?;
    match OsDisk::new(directory).remove(NAME) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&reached.path)?;
    std::fs::set_permissions(&reached.path, std::fs::Permissions::from_mode(0o600))?;
    let serve = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => answer(stream, &sql).unwrap_or_else(|error| {
                    tracing::debug!(%error, "a connection to the control socket broke");
                }),
                Err(error) => {
                    tracing::warn!(%error, "a connection to the control socket is not taken");
                    std::thread::park_timeout(ACCEPT_REST);
                }
            }
        }
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(serve).map(drop)
}

/// Nobody listens any more. A failure leaves a socket that nobody answers.
pub(super) fn remove(directory: &Path) {
    OsDisk::new(directory).remove(NAME).unwrap_or_default();
}

fn answer(mut stream: UnixStream, sql: &SqlDatabase) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return writeln!(stream, "failed only the user that serves the directory may do that");
    }
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    if request.trim_end() != PROMOTE {
        return writeln!(stream, "failed {:?} is not a request", request.trim_end());
    }
    match sql.promote("seawall promote") {
        Ok(()) => writeln!(stream, "promoted {}", sql.engine.log().timeline()),
        Err(error) => writeln!(stream, "failed {}", error.to_string().replace('\n', " ")),
    }
}

/// Why a server was not promoted.
#[derive(Debug)]
pub(crate) enum PromoteError {
    /// No server that follows another one has the directory open.
    NotServed,
    /// It does not want to.
    Refused(String),
    /// It has not answered; it may be promoted, or may not.
    Io(io::Error),
}

/// Has the server of a directory become a primary; the timeline that it is on then.
pub(crate) fn promote(directory: &Path, limit: Duration) -> Result<String, PromoteError> {
    let reached = reach(directory).map_err(PromoteError::Io)?;
    let mut stream = UnixStream::connect(&reached.path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => PromoteError::NotServed,
        _ => PromoteError::Io(error),
    })?;
    let answer = ask(&mut stream, limit).map_err(PromoteError::Io)?;
    match answer.trim_end().split_once(' ') {
        Some(("promoted", timeline)) => Ok(timeline.to_owned()),
        Some(("failed", why)) => Err(PromoteError::Refused(why.to_owned())),
        _ => Err(PromoteError::Io(ErrorKind::UnexpectedEof.into())),
    }
}

fn ask(stream: &mut UnixStream, limit: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(limit))?;
    writeln!(stream, "{PROMOTE}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

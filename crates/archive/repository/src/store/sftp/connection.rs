//! One connection to a server: the program `ssh` of OpenSSH, which speaks to the server, and the protocol on its input and output.
//!
//! `ssh` brings what administrators know: `known_hosts`, keys in files, agents and tokens, certificates, `~/.ssh/config` with jump hosts.
//! It is told never to ask anything, and to refuse a host whose key it does not know: a key that is taken on first use is not checked. No
//! secret is in this process, in its arguments or in its messages.
//!
//! A connection serves one request of the store at a time, which may be many of the protocol. When its owner drops it, the program is
//! killed; when this process is killed, the program's input ends, and so does the program.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::{Either, join_all, select};
use futures_util::stream;
use parking_lot::Mutex;
use russh_sftp::client::RawSftpSession;
use russh_sftp::client::error::Error;
use russh_sftp::extensions::{FSYNC, HARDLINK, LIMITS, STATVFS};
use russh_sftp::protocol::{FileAttributes, OpenFlags, StatusCode};
use tokio::io::{AsyncReadExt, join};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::problem::{Problem, of_ssh};
use crate::store::StoreCause;
use crate::url::SftpPlace;

/// To make a connection takes a few round trips: more means that nobody is there.
const CONNECT_SECONDS: u64 = 10;
/// A server that says nothing for so many of these intervals is gone.
const ALIVE_SECONDS: u64 = 10;
const ALIVE_MISSED: u64 = 3;
/// Every server takes so much at once.
const BYTES_AT_ONCE: u64 = 32 << 10;
/// As much as is used of what a server offers: OpenSSH offers 255 KiB.
const BYTES_AT_ONCE_MAX: u64 = 255 << 10;
/// Requests of one transfer that are under way, so that a long line is filled.
const WINDOW: usize = 32;
/// Single requests have no limit of their own: each request of the store has one for all of them.
const REQUEST_SECONDS: u64 = 86_400;
/// Of what `ssh` writes, the end is kept.
const SAID_BYTES_MAX: usize = 4096;
/// How long the program gets to say why it ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) struct Connection {
    sftp: RawSftpSession,
    program: Program,
    pub(super) abilities: Abilities,
}

/// What a server can do.
pub(super) struct Abilities {
    write_bytes: usize,
    read_bytes: u64,
    pub(super) can_sync: bool,
    pub(super) can_link: bool,
    can_tell_space: bool,
}

impl Default for Abilities {
    /// What every server can do.
    fn default() -> Abilities {
        Abilities {
            write_bytes: usize::try_from(BYTES_AT_ONCE).expect("32 KiB fit into memory"),
            read_bytes: BYTES_AT_ONCE,
            can_sync: false,
            can_link: false,
            can_tell_space: false,
        }
    }
}

async fn learn(connection: &Connection) -> Result<Abilities, Problem> {
    let version = connection.sftp.init().await?;
    let has = |extension: &str| version.extensions.contains_key(extension);
    let (can_sync, can_link, can_tell_space) = (has(FSYNC), has(HARDLINK), has(STATVFS));
    let abilities = Abilities { can_sync, can_link, can_tell_space, ..Abilities::default() };
    if !has(LIMITS) {
        return Ok(abilities);
    }
    let limits = connection.sftp.limits().await?;
    let at_once = |offered: u64| offered.clamp(BYTES_AT_ONCE, BYTES_AT_ONCE_MAX);
    let write_bytes = usize::try_from(at_once(limits.max_write_len)).expect("255 KiB fit into memory");
    Ok(Abilities { read_bytes: at_once(limits.max_read_len), write_bytes, ..abilities })
}

/// The bits of the mode that have the kind of a file, and two kinds.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

pub(super) fn is_directory(attributes: &FileAttributes) -> bool {
    attributes.permissions.is_some_and(|mode| mode & KIND == DIRECTORY)
}

pub(super) fn is_file(attributes: &FileAttributes) -> bool {
    attributes.permissions.is_some_and(|mode| mode & KIND == FILE)
}

/// A file or directory of the server.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) attributes: FileAttributes,
}

impl Connection {
    /// Connects, and learns what the server can do.
    pub(super) async fn open(place: &SftpPlace) -> Result<Connection, Problem> {
        let (program, output, input) = Program::start(place).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound => ": install OpenSSH's client (Debian: openssh-client)",
                _ => "",
            };
            Problem::Broken(StoreCause::Other, format!("cannot run the program ssh: {error}{hint}"))
        })?;
        let sftp = RawSftpSession::new(join(output, input));
        sftp.set_timeout(REQUEST_SECONDS);
        let mut connection = Connection { sftp, program, abilities: Abilities::default() };
        match connection.run(learn).await {
            Ok(abilities) => Ok(Connection { abilities, ..connection }),
            Err(problem) => Err(connection.explain(problem, false).await),
        }
    }

    /// Runs a request, until the program ends: what is asked after that would be waited for in vain.
    pub(super) async fn run<T>(
        &self,
        request: impl AsyncFnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let (request, ended) = (pin!(request(self)), pin!(self.program.ended()));
        match select(request, ended).await {
            Either::Left((result, _)) => result,
            Either::Right(((), _)) => {
                Err(Problem::Broken(StoreCause::Interrupted, "ssh has ended".to_owned()))
            }
        }
    }

    /// Whether the program still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.program.child.try_wait(), Ok(None))
    }

    /// Why the connection broke, from what the program has said. The connection is not to be used any more.
    pub(super) async fn explain(&mut self, problem: Problem, is_established: bool) -> Problem {
        let message = match problem {
            Problem::Broken(StoreCause::Interrupted, message) => message,
            problem => return problem,
        };
        // It comes to its end when the program does.
        if tokio::time::timeout(LAST_WORDS, &mut self.program.reader).await.is_err() {
            tracing::debug!("the connection broke, and ssh still runs");
        }
        let said = self.program.said.lock().clone();
        of_ssh(&said, &format!("the connection broke: {message}"), is_established)
    }

    /// What is at `path`, links followed; `None` if nothing is there.
    pub(super) async fn attributes(&self, path: &str) -> Result<Option<FileAttributes>, Problem> {
        match self.sftp.stat(path).await.map_err(Problem::from) {
            Ok(found) => Ok(Some(found.attrs)),
            Err(problem) if problem.is_absence() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Makes a directory, if it is not there.
    pub(super) async fn make_directory(&self, path: &str) -> Result<(), Problem> {
        let attributes = FileAttributes { permissions: Some(0o700), ..FileAttributes::empty() };
        match self.sftp.mkdir(path, attributes).await.map_err(Problem::from) {
            Ok(_) => Ok(()),
            Err(problem) if problem.is_unspecific() => match self.attributes(path).await? {
                Some(found) if is_directory(&found) => Ok(()),
                _ => Err(problem),
            },
            Err(problem) => Err(problem),
        }
    }

    /// Writes a file that is new, and makes its content durable if the server can do so.
    pub(super) async fn write_new(&self, path: &str, pieces: &[Bytes]) -> Result<(), Problem> {
        let attributes = FileAttributes { permissions: Some(0o600), ..FileAttributes::empty() };
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUDE;
        let handle = self.sftp.open(path, flags, attributes).await?.handle;
        match self.write(&handle, pieces).await {
            Err(broken @ Problem::Broken(..)) => Err(broken),
            written => written.and(self.sftp.close(&handle).await.map(drop).map_err(Problem::from)),
        }
    }

    async fn write(&self, handle: &str, pieces: &[Bytes]) -> Result<(), Problem> {
        let mut offset = 0;
        let chunks = pieces.iter().flat_map(|piece| piece.chunks(self.abilities.write_bytes)).map(|chunk| {
            let at = offset;
            offset += chunk.len() as u64;
            self.sftp.write(handle, at, chunk.to_vec())
        });
        let mut answers = stream::iter(chunks).buffered(WINDOW);
        while let Some(answer) = answers.next().await {
            answer?;
        }
        drop(answers);
        if self.abilities.can_sync {
            self.sftp.fsync(handle).await.map(drop).map_err(Problem::from)
        } else {
            Ok(())
        }
    }

    /// Makes the names in a directory durable: servers on Linux open a directory as they do a file, and sync it.
    pub(super) async fn sync_directory(&self, path: &str) -> Result<(), Problem> {
        let handle = self.sftp.open(path, OpenFlags::READ, FileAttributes::empty()).await?.handle;
        let synced = self.sftp.fsync(&handle).await.map_err(Problem::from);
        let closed = self.sftp.close(&handle).await.map_err(Problem::from);
        synced.and(closed).map(drop)
    }

    /// Gives a file a second name, unless something has that name.
    pub(super) async fn link(&self, path: &str, name: &str) -> Result<(), Problem> {
        self.sftp.hardlink(path, name).await.map(drop).map_err(Problem::from)
    }

    /// Removes a file; whether it was there.
    pub(super) async fn remove(&self, path: &str) -> Result<bool, Problem> {
        match self.sftp.remove(path).await.map_err(Problem::from) {
            Ok(_) => Ok(true),
            Err(problem) if problem.is_absence() => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    /// Removes files; of each, what `remove` says.
    pub(super) async fn remove_many(&self, paths: &[String]) -> Vec<Result<bool, Problem>> {
        stream::iter(paths).map(|path| self.remove(path)).buffered(WINDOW).collect().await
    }

    /// Reads bytes of a file: fewer where it ends before.
    pub(super) async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes, Problem> {
        let handle = self.sftp.open(path, OpenFlags::READ, FileAttributes::empty()).await?.handle;
        let chunk = |number: u64| {
            let start = range.start + number * self.abilities.read_bytes;
            start..(start + self.abilities.read_bytes).min(range.end)
        };
        let count = (range.end - range.start).div_ceil(self.abilities.read_bytes);
        let chunks = join_all((0..count).map(|number| self.read_chunk(&handle, chunk(number)))).await;
        let closed = self.sftp.close(&handle).await.map_err(Problem::from);
        let mut content = BytesMut::new();
        for (number, read) in (0..count).zip(chunks) {
            let read = read?;
            let is_last = read.len() as u64 != chunk(number).end - chunk(number).start;
            content.extend_from_slice(&read);
            if is_last {
                break;
            }
        }
        closed.map(|_| content.freeze())
    }

    /// A server may give less than it is asked for, and still have more.
    async fn read_chunk(&self, handle: &str, range: Range<u64>) -> Result<Vec<u8>, Problem> {
        let mut content = Vec::new();
        while range.start + (content.len() as u64) < range.end {
            let start = range.start + content.len() as u64;
            let bytes = u32::try_from(range.end - start).expect("at most 255 KiB");
            match self.sftp.read(handle, start, bytes).await {
                Ok(piece) if piece.data.is_empty() || piece.data.len() as u64 > u64::from(bytes) => {
                    let problem = format!("the server gave {} of {bytes} bytes", piece.data.len());
                    return Err(Problem::Broken(StoreCause::Faulty, problem));
                }
                Ok(piece) => content.extend_from_slice(&piece.data),
                Err(Error::Status(status)) if status.status_code == StatusCode::Eof => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(content)
    }

    /// What is in a directory, in the server's order, one part after the other: `take` may refuse to take more.
    pub(super) async fn list(
        &self,
        path: &str,
        mut take: impl FnMut(Entry) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let handle = self.sftp.opendir(path).await?.handle;
        let listed = loop {
            let files = match self.sftp.readdir(&handle).await {
                Ok(part) => part.files,
                Err(Error::Status(status)) if status.status_code == StatusCode::Eof => break Ok(()),
                Err(error) => break Err(Problem::from(error)),
            };
            let named = files.into_iter().filter(|file| file.filename != "." && file.filename != "..");
            let taken = named
                .map(|file| Entry { name: file.filename, attributes: file.attrs })
                .try_for_each(&mut take);
            if taken.is_err() {
                break taken;
            }
        };
        let closed = self.sftp.close(&handle).await.map_err(Problem::from);
        listed.and(closed.map(drop))
    }

    /// Bytes that are free where `path` is, if the server tells.
    pub(super) async fn free_bytes(&self, path: &str) -> Option<u64> {
        if !self.abilities.can_tell_space {
            return None;
        }
        let space = self.sftp.statvfs(path).await.ok()?;
        Some(space.blocks_avail.saturating_mul(space.fragment_size))
    }
}

/// The program, which is killed when its owner drops it. Not one of the runtime's processes: that would have this process handle
/// signals, which may be part of somebody else's program.
struct Program {
    child: Child,
    /// The end of what it has written to its standard error.
    said: Arc<Mutex<String>>,
    /// Reads that, and says when it ends, as it does with the program.
    reader: JoinHandle<()>,
    has_ended: watch::Receiver<bool>,
}

impl Program {
    /// Starts it; with its output and its input.
    fn start(place: &SftpPlace) -> std::io::Result<(Program, pipe::Receiver, pipe::Sender)> {
        let mut child = command(place).spawn()?;
        let output = child.stdout.take().map(OwnedFd::from).expect("it was asked for");
        let input = child.stdin.take().map(OwnedFd::from).expect("it was asked for");
        let errors = child.stderr.take().map(OwnedFd::from).expect("it was asked for");
        let said = Arc::<Mutex<String>>::default();
        let errors = pipe::Receiver::from_owned_fd(errors)?;
        let (end, has_ended) = watch::channel(false);
        let reader = keep_last_words(errors, Arc::clone(&said));
        let reader = tokio::spawn(async move {
            reader.await;
            end.send_replace(true);
        });
        let program = Program { child, said, reader, has_ended };
        Ok((program, pipe::Receiver::from_owned_fd(output)?, pipe::Sender::from_owned_fd(input)?))
    }

    async fn ended(&self) {
        let mut has_ended = self.has_ended.clone();
        // An error is a reader that is gone: it has ended.
        drop(has_ended.wait_for(|has_ended| *has_ended).await);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.reader.abort();
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::debug!(%error, "ssh cannot be ended");
        }
    }
}

async fn keep_last_words(mut errors: pipe::Receiver, said: Arc<Mutex<String>>) {
    let mut piece = vec![0; SAID_BYTES_MAX];
    while let Ok(length @ 1..) = errors.read(&mut piece).await {
        let mut said = said.lock();
        said.push_str(&String::from_utf8_lossy(&piece[..length]));
        let excess = said.len().saturating_sub(SAID_BYTES_MAX);
        let start = (excess..=said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
        said.drain(..start);
    }
}

fn command(place: &SftpPlace) -> Command {
    let mut command = Command::new("ssh");
    // Nobody is there to be asked, and nothing but the protocol goes over the connection. Each connection is its own.
    for option in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "RequestTTY=no",
        "RemoteCommand=none",
        "ControlMaster=no",
        "ControlPath=none",
        "LogLevel=ERROR",
    ] {
        command.arg("-o").arg(option);
    }
    command.arg("-o").arg(format!("ConnectTimeout={CONNECT_SECONDS}"));
    command.arg("-o").arg(format!("ServerAliveInterval={ALIVE_SECONDS}"));
    command.arg("-o").arg(format!("ServerAliveCountMax={ALIVE_MISSED}"));
    if let Some(path) = &place.known_hosts {
        // Spaces would separate several files.
        command.arg("-o").arg(format!("UserKnownHostsFile=\"{}\"", path.display()));
        command.arg("-o").arg("GlobalKnownHostsFile=none");
    }
    if let Some(path) = &place.identity_file {
        command.arg("-o").arg("IdentitiesOnly=yes").arg("-i").arg(path);
    }
    if let Some(port) = place.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = &place.user {
        command.arg("-l").arg(user);
    }
    command.args(["-s", "--", &place.host, "sftp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

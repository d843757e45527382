//! A connection to the upstream, as PostgreSQL's protocol has it: login, commands, the copied messages of a stream.
//!
//! Over anything that reads and writes. A read that times out loses nothing: what has come of a message stays in the buffer.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use seawall_engine::VALUE_BYTES_MAX;

use crate::settings::{TargetServer, UpstreamHost, UpstreamSettings};

const VERSION_3_0: u32 = 3 << 16;
/// Kind and length.
const HEAD_BYTES: usize = 5;
/// No message of a sender is longer: one of a copy has other rows beside the longest one.
const MESSAGE_BYTES_MAX: usize = VALUE_BYTES_MAX + (2 << 20);
const READ_BYTES: usize = 256 << 10;
/// What a standby says at the login.
const IN_HOT_STANDBY: &[u8] = b"in_hot_standby\0on\0";

/// What a connection goes over.
pub trait Wire: Read + Write + Send {
    /// Reads return `WouldBlock` or `TimedOut` after this.
    ///
    /// # Errors
    /// What the system says.
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()>;
}

/// Makes connections.
pub trait Dial: Send + Sync {
    /// A new connection to one of the hosts.
    ///
    /// # Errors
    /// What the system says.
    fn dial(&self, host: &UpstreamHost) -> io::Result<Box<dyn Wire>>;
}

/// Why a connection does not do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The network.
    #[error("the connection is lost: {0}")]
    Io(#[from] io::Error),
    /// The upstream refuses.
    #[error("the upstream says: {severity} {code}: {message}")]
    Refused {
        /// `ERROR` or `FATAL`.
        severity: String,
        /// SQLSTATE.
        code: String,
        /// Why.
        message: String,
    },
    /// The upstream wants another proof than a password by SCRAM.
    #[error("the upstream asks for authentication of kind {0}, and only SCRAM-SHA-256 is known")]
    Authentication(u32),
    /// It wants a password, and there is none.
    #[error("the upstream asks for a password: give one as password=...")]
    NoPassword,
    /// The upstream does not know the password.
    #[error("the upstream has not shown that it knows the password: {0}")]
    Scram(io::Error),
    /// It is a standby, and a primary is to be followed.
    #[error("the upstream is a standby, and a primary is asked for (target_session_attrs)")]
    NotPrimary,
    /// A message that has no meaning here.
    #[error("the upstream sends a message of kind {kind:?}, {bytes} bytes, that has no meaning here")]
    Unexpected {
        /// Its kind.
        kind: char,
        /// Its length.
        bytes: usize,
    },
}

/// Rows of texts.
pub type TextRows = Vec<Vec<Option<String>>>;

/// What comes while a stream is under way.
#[derive(Debug, PartialEq, Eq)]
pub enum Streamed {
    /// A message of the sender.
    Message(Vec<u8>),
    /// Nothing within the limit.
    Nothing,
    /// The sender has ended the stream.
    Done,
}

/// A connection. See the module.
pub struct Client {
    wire: Box<dyn Wire>,
    input: Input,
    /// The upstream has said that it is a standby.
    is_standby: bool,
    /// How long an answer may take.
    patience: Duration,
}

struct Frame {
    kind: u8,
    body: Vec<u8>,
}

/// Bytes that have come and are not taken yet. The memory stays: a stream of short messages would clear more of it than it uses.
#[derive(Default)]
struct Input {
    memory: Vec<u8>,
    taken: usize,
    come: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.memory[self.taken..self.come]
    }

    fn take(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Room for a read.
    fn room(&mut self) -> &mut [u8] {
        self.memory.copy_within(self.taken..self.come, 0);
        (self.come, self.taken) = (self.come - self.taken, 0);
        let wanted = self.come + READ_BYTES;
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        } else if self.come == 0 && self.memory.len() > 4 * READ_BYTES {
            // After a message that was long.
            self.memory = vec![0; READ_BYTES];
        }
        &mut self.memory[self.come..]
    }

    fn has_come(&mut self, bytes: usize) {
        self.come += bytes;
    }
}

impl Client {
    /// Logs in for replication.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn log_in(wire: Box<dyn Wire>, settings: &UpstreamSettings) -> Result<Client, ClientError> {
        wire.set_read_timeout(settings.connect_timeout)?;
        let patience = settings.connect_timeout;
        let mut client = Client { wire, input: Input::default(), is_standby: false, patience };
        let mut body = VERSION_3_0.to_be_bytes().to_vec();
        for (name, value) in [
            ("user", settings.user.as_str()),
            ("replication", "true"),
            ("application_name", &settings.application_name),
        ] {
            for text in [name, value] {
                body.extend(text.bytes().filter(|byte| *byte != 0));
                body.push(0);
            }
        }
        body.push(0);
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
        let packet = [&length.to_be_bytes()[..], &body].concat();
        client.wire.write_all(&packet)?;
        client.wire.flush()?;
        loop {
            let frame = client.message()?;
            match frame.kind {
                b'R' => client.authenticate(&frame, settings)?,
                b'S' => client.is_standby |= frame.body == IN_HOT_STANDBY,
                b'K' | b'N' => {}
                b'Z' if client.is_standby && settings.target == TargetServer::Primary => {
                    return Err(ClientError::NotPrimary);
                }
                b'Z' => return Ok(client),
                _ => return Err(frame.unexpected()),
            }
        }
    }

    fn authenticate(&mut self, frame: &Frame, settings: &UpstreamSettings) -> Result<(), ClientError> {
        match frame.number() {
            Some(0) => Ok(()),
            Some(10) => {
                let offered = frame.body[4..].split(|byte| *byte == 0);
                if !offered.clone().any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(ClientError::Authentication(10));
                }
                self.prove(settings)
            }
            other => Err(ClientError::Authentication(other.unwrap_or(0))),
        }
    }

    fn prove(&mut self, settings: &UpstreamSettings) -> Result<(), ClientError> {
        let password = settings.password.as_deref().ok_or(ClientError::NoPassword)?;
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let first = scram.message();
        let mut body = [SCRAM_SHA_256.as_bytes(), &[0]].concat();
        body.extend_from_slice(&u32::try_from(first.len()).unwrap_or(0).to_be_bytes());
        body.extend_from_slice(first);
        self.send(b'p', &body)?;
        let answer = self.sasl_message(11)?;
        scram.update(&answer).map_err(ClientError::Scram)?;
        let proof = scram.message().to_vec();
        self.send(b'p', &proof)?;
        let last = self.sasl_message(12)?;
        scram.finish(&last).map_err(ClientError::Scram)
    }

    fn sasl_message(&mut self, kind: u32) -> Result<Vec<u8>, ClientError> {
        let frame = self.message()?;
        match (frame.kind, frame.number()) {
            (b'R', Some(found)) if found == kind => Ok(frame.body[4..].to_vec()),
            (b'R', Some(found)) => Err(ClientError::Authentication(found)),
            _ => Err(frame.unexpected()),
        }
    }

    /// Whether the upstream has said at the login that it is a standby.
    pub(crate) fn is_standby(&self) -> bool {
        self.is_standby
    }

    /// Runs a command; its rows.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn command(&mut self, text: &str) -> Result<TextRows, ClientError> {
        self.send_text(text)?;
        let mut rows = Vec::new();
        let mut refused = None;
        loop {
            let frame = match self.message() {
                Err(error @ ClientError::Refused { .. }) => {
                    refused = Some(error);
                    continue;
                }
                frame => frame?,
            };
            match frame.kind {
                b'D' => rows.push(frame.texts().ok_or_else(|| frame.unexpected())?),
                b'T' | b'C' | b'N' | b'S' | b'I' => {}
                b'Z' => return refused.map_or(Ok(rows), Err),
                _ => return Err(frame.unexpected()),
            }
        }
    }

    /// Runs a command that begins a stream.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn begin_stream(&mut self, text: &str) -> Result<(), ClientError> {
        self.send_text(text)?;
        loop {
            let frame = self.message()?;
            match frame.kind {
                b'W' | b'H' => return Ok(()),
                b'N' | b'S' => {}
                _ => return Err(frame.unexpected()),
            }
        }
    }

    /// What has come of the stream, or comes within `limit`.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn streamed(&mut self, limit: Duration) -> Result<Streamed, ClientError> {
        loop {
            let Some(frame) = self.next_frame()? else {
                if limit.is_zero() {
                    return Ok(Streamed::Nothing);
                }
                self.wire.set_read_timeout(limit)?;
                if !self.read_some()? {
                    return Ok(Streamed::Nothing);
                }
                continue;
            };
            match frame.kind {
                b'd' => return Ok(Streamed::Message(frame.body)),
                b'c' => return Ok(Streamed::Done),
                b'E' => return Err(refused(&frame.body)),
                b'N' | b'S' => {}
                _ => return Err(frame.unexpected()),
            }
        }
    }

    /// After the sender has ended a copy: takes the end of the command, so that another one may follow.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn end_stream(&mut self) -> Result<(), ClientError> {
        // Waits for messages of a stream are shorter.
        self.wire.set_read_timeout(self.patience)?;
        loop {
            let frame = self.message()?;
            match frame.kind {
                // `START_REPLICATION` says in a row which timeline comes next.
                b'C' | b'N' | b'S' | b'T' | b'D' => {}
                b'Z' => return Ok(()),
                _ => return Err(frame.unexpected()),
            }
        }
    }

    /// After the sender has ended a stream in which both sides speak: ends this side, and takes the end of the command.
    ///
    /// # Errors
    /// `ClientError`.
    pub fn leave_stream(&mut self) -> Result<(), ClientError> {
        self.send(b'c', &[])?;
        self.end_stream()
    }

    /// Sends a message of the stream.
    ///
    /// # Errors
    /// `Io`.
    pub fn send_streamed(&mut self, message: &[u8]) -> Result<(), ClientError> {
        self.send(b'd', message)
    }

    fn send_text(&mut self, text: &str) -> Result<(), ClientError> {
        self.send(b'Q', &[text.as_bytes(), &[0]].concat())
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), ClientError> {
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
        self.wire.write_all(&[&[kind][..], &length.to_be_bytes(), body].concat())?;
        Ok(self.wire.flush()?)
    }

    /// The next message; an error of the upstream is an error.
    fn message(&mut self) -> Result<Frame, ClientError> {
        loop {
            match self.next_frame()? {
                Some(frame) if frame.kind == b'E' => return Err(refused(&frame.body)),
                Some(frame) => return Ok(frame),
                None if !self.read_some()? => return Err(io::Error::from(ErrorKind::TimedOut).into()),
                None => {}
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, ClientError> {
        let rest = self.input.rest();
        let Some((&kind, after)) = rest.split_first() else { return Ok(None) };
        let Some(length) = after.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some(body_bytes) = length.checked_sub(4).filter(|bytes| *bytes <= MESSAGE_BYTES_MAX) else {
            return Err(ClientError::Unexpected { kind: char::from(kind), bytes: length });
        };
        let Some(body) = rest.get(HEAD_BYTES..HEAD_BYTES + body_bytes) else { return Ok(None) };
        let body = body.to_vec();
        self.input.take(HEAD_BYTES + body_bytes);
        Ok(Some(Frame { kind, body }))
    }

    /// Reads what is there; `false`: nothing came within the limit.
    fn read_some(&mut self) -> Result<bool, ClientError> {
        match self.wire.read(self.input.room()) {
            Ok(0) => Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => {
                self.input.has_come(bytes);
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(false),
                ErrorKind::Interrupted => Ok(true),
                _ => Err(error.into()),
            },
        }
    }
}

impl Frame {
    fn number(&self) -> Option<u32> {
        self.body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn unexpected(&self) -> ClientError {
        ClientError::Unexpected { kind: char::from(self.kind), bytes: self.body.len() }
    }

    /// The columns of a row.
    fn texts(&self) -> Option<Vec<Option<String>>> {
        let (count, mut rest) = self.body.split_first_chunk::<2>()?;
        let mut row = Vec::new();
        for _column in 0..u16::from_be_bytes(*count) {
            let (length, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            row.push(match usize::try_from(i32::from_be_bytes(*length)) {
                Err(_) => None,
                Ok(bytes) => {
                    let text = String::from_utf8(rest.get(..bytes)?.to_vec()).ok()?;
                    rest = &rest[bytes..];
                    Some(text)
                }
            });
        }
        rest.is_empty().then_some(row)
    }
}

/// An error of the upstream.
fn refused(body: &[u8]) -> ClientError {
    let field = |kind: u8| {
        let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&kind));
        found.map_or_else(String::new, |field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    ClientError::Refused { severity: field(b'S'), code: field(b'C'), message: field(b'M') }
}

//! A client of the protocol that sends what it is told, right or wrong, and shows what it gets as text.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use seawall_testing::{PATIENCE, wait_for};

/// A connection that can be read and written.
pub(crate) trait Stream: Read + Write + Send {
    fn set_limit(&self, limit: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }
}

impl Stream for UnixStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Client {
    stream: Box<dyn Stream>,
    pub(crate) process_id: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) settings: Vec<(String, String)>,
}

/// A start-up packet.
pub(crate) fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    with_length(&body)
}

/// A request to cancel.
pub(crate) fn cancel(process_id: i32, key: &[u8]) -> Vec<u8> {
    with_length(&[&80_877_102_u32.to_be_bytes(), &process_id.to_be_bytes()[..], key].concat())
}

fn with_length(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &with_length(body)[..]].concat()
}

pub(crate) fn text(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| [part.as_bytes(), b"\0"].concat()).collect()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &text(&[sql]))
}

pub(crate) const SYNC: &[u8] = b"S\0\0\0\x04";

pub(crate) const VERSION: u32 = 3 << 16;

impl Client {
    pub(crate) fn of(stream: impl Stream + 'static) -> Client {
        stream.set_limit(PATIENCE).unwrap();
        Client { stream: Box::new(stream), process_id: 0, key: Vec::new(), settings: Vec::new() }
    }

    pub(crate) fn tcp(port: u16) -> Client {
        Client::of(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    /// Logged in, without a password.
    pub(crate) fn logged_in(port: u16, user: &str) -> Client {
        let mut client = Client::tcp(port);
        client.log_in(user);
        client
    }

    /// Logged in as soon as there is a place.
    pub(crate) fn admitted(port: u16, user: &str) -> Client {
        wait_for("a place for a client", || {
            let mut client = Client::tcp(port);
            client.try_log_in(user).ok().map(|()| client)
        })
    }

    pub(crate) fn log_in(&mut self, user: &str) {
        self.try_log_in(user).unwrap();
    }

    pub(crate) fn finish_login(&mut self) {
        self.try_finish_login().unwrap();
    }

    fn try_log_in(&mut self, user: &str) -> Result<(), String> {
        self.send(&startup(VERSION, &[("user", user), ("database", "postgres")]));
        self.try_finish_login()
    }

    /// Reads up to the first ReadyForQuery.
    fn try_finish_login(&mut self) -> Result<(), String> {
        loop {
            let message = self.receive().ok_or("the server has hung up")?;
            match message.kind {
                b'R' if matches!(message.body[..4], [0, 0, 0, 0 | 12]) => {}
                b'S' => {
                    let (name, value) = (string(&message.body, 0), string(&message.body, 1));
                    self.settings.push((name, value));
                }
                b'K' => {
                    self.process_id = i32::from_be_bytes(message.body[..4].try_into().unwrap());
                    self.key = message.body[4..].to_vec();
                }
                b'Z' => return Ok(()),
                _ => return Err(shown(&message)),
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// As `send`, to a server that may have hung up.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// The next message; `None`: the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let received = self.try_receive();
        received.unwrap_or_else(|error| {
            let is_closed = matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            );
            assert!(is_closed, "waiting for a message: {error}");
            None
        })
    }

    /// As `receive`; an error if the limit of time is over.
    pub(crate) fn try_receive(&mut self) -> io::Result<Option<Message>> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.stream.read_exact(&mut body)?;
        Ok(Some(Message { kind: head[0], body }))
    }

    /// Messages up to ReadyForQuery, a request for data, or the end, as text.
    pub(crate) fn answers(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        loop {
            let message = self.receive();
            answers.push(message.as_ref().map_or("closed".to_owned(), shown));
            if message.is_none_or(|message| matches!(message.kind, b'Z' | b'G')) {
                return answers;
            }
        }
    }

    /// Sends a query, and returns its answers.
    pub(crate) fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(&query(sql));
        self.answers()
    }

    pub(crate) fn set_limit(&self, limit: Duration) {
        self.stream.set_limit(limit).unwrap();
    }
}

fn string(body: &[u8], index: usize) -> String {
    String::from_utf8_lossy(body.split(|byte| *byte == 0).nth(index).unwrap_or_default()).into_owned()
}

fn number(body: &[u8]) -> i32 {
    body.first_chunk().map_or(-1, |bytes| i32::from_be_bytes(*bytes))
}

fn count(body: &[u8]) -> usize {
    body.first_chunk().map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)))
}

/// A message as one line.
pub(crate) fn shown(message: &Message) -> String {
    let body = &message.body[..];
    match message.kind {
        b'R' => format!("Authentication {}", number(body)),
        b'S' => format!("ParameterStatus {} {}", string(body, 0), string(body, 1)),
        b'K' => "BackendKeyData".to_owned(),
        b'Z' => format!("ReadyForQuery {}", char::from(body[0])),
        b'1' => "ParseComplete".to_owned(),
        b'2' => "BindComplete".to_owned(),
        b'3' => "CloseComplete".to_owned(),
        b'n' => "NoData".to_owned(),
        b's' => "PortalSuspended".to_owned(),
        b'I' => "EmptyQueryResponse".to_owned(),
        b'c' => "CopyDone".to_owned(),
        b'v' => format!("NegotiateProtocolVersion {:#x}", number(body)),
        b'C' => format!("CommandComplete {}", string(body, 0)),
        b'G' => format!("CopyInResponse {} {}", body[0], count(&body[1..])),
        b'H' => format!("CopyOutResponse {} {}", body[0], count(&body[1..])),
        b'd' => format!("CopyData {:?}", String::from_utf8_lossy(body)),
        b't' => {
            let types: Vec<String> = body[2..].chunks(4).map(|oid| number(oid).to_string()).collect();
            format!("ParameterDescription {}", types.join(" ")).trim_end().to_owned()
        }
        b'T' => format!("RowDescription {}", fields(body).join(" ")),
        b'D' => format!("DataRow {}", values(body).join(" ")),
        b'E' => format!("Error {}", error(body)),
        b'N' => format!("Notice {}", error(body)),
        other => format!("message {other}"),
    }
}

fn fields(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    (0..count(body))
        .map(|_| {
            let name = string(rest, 0);
            rest = &rest[name.len() + 1..];
            let (oid, format) = (number(&rest[6..]), count(&rest[16..]));
            rest = &rest[18..];
            format!("{name}:{oid}:{format}")
        })
        .collect()
}

fn values(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    (0..count(body))
        .map(|_| {
            let length = number(rest);
            rest = &rest[4..];
            let Ok(length) = usize::try_from(length) else { return "null".to_owned() };
            let value = format!("{:?}", String::from_utf8_lossy(&rest[..length]));
            rest = &rest[length..];
            value
        })
        .collect()
}

/// Severity, code, message, and what else a client acts on.
fn error(body: &[u8]) -> String {
    let fields: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
    let field = |code: u8| {
        let found = fields.iter().find(|field| field.first() == Some(&code));
        found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    let head: Vec<String> = [b'V', b'C', b'M'].into_iter().filter_map(field).collect();
    let rest = [(b'D', "detail"), (b'H', "hint"), (b'P', "at")]
        .into_iter()
        .filter_map(|(code, name)| field(code).map(|value| format!(" | {name}: {value}")));
    head.join(" ") + &rest.collect::<String>()
}

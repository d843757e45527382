//! The messages that a client sends once it is connected.
//!
//! | byte | message      | byte | message  |
//! |------|--------------|------|----------|
//! | `Q`  | Query        | `S`  | Sync     |
//! | `P`  | Parse        | `X`  | Terminate |
//! | `B`  | Bind         | `F`  | FunctionCall |
//! | `D`  | Describe     | `d`  | CopyData |
//! | `E`  | Execute      | `c`  | CopyDone |
//! | `C`  | Close        | `f`  | CopyFail |
//! | `H`  | Flush        | `p`  | answers of an authentication |
//!
//! Each is its byte, four bytes of length that count themselves, and the body.

use bytes::BytesMut;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

/// The limit of messages that hold a name at most, as PostgreSQL has it.
const SMALL_BYTES_MAX: usize = 10_000;
/// The byte of the kind and the length.
const HEAD_BYTES: usize = 5;
const LENGTH_BYTES: usize = 4;

/// A message that has arrived whole.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) body: BytesMut,
}

/// Why what has arrived is no message: the connection ends, because nobody knows where the next one begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// No message begins with this byte.
    Kind(u8),
    /// It says that it is shorter than its head, or longer than it may be.
    Length(usize),
}

/// Takes the next message off the beginning of `input`; `None`: it has not arrived whole.
pub(crate) fn next_frame(input: &mut BytesMut, bytes_max: usize) -> Result<Option<Frame>, FrameError> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    let bytes_max = body_bytes_max(kind, bytes_max)?;
    let Some(length) = rest.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let body_bytes = length.checked_sub(LENGTH_BYTES).filter(|bytes| *bytes <= bytes_max);
    let body_bytes = body_bytes.ok_or(FrameError::Length(length))?;
    if input.len() < HEAD_BYTES + body_bytes {
        return Ok(None);
    }
    let mut body = input.split_to(HEAD_BYTES + body_bytes);
    bytes::Buf::advance(&mut body, HEAD_BYTES);
    Ok(Some(Frame { kind, body }))
}

fn body_bytes_max(kind: u8, bytes_max: usize) -> Result<usize, FrameError> {
    match kind {
        b'Q' | b'P' | b'B' | b'F' | b'd' => Ok(bytes_max),
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => Ok(SMALL_BYTES_MAX),
        kind => Err(FrameError::Kind(kind)),
    }
}

/// What a Describe or a Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'m> {
    Statement(&'m str),
    Portal(&'m str),
}

/// A Parse.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parse<'m> {
    pub(crate) name: &'m str,
    pub(crate) text: &'m str,
    pub(crate) types: Vec<Oid>,
}

/// A Bind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind<'m> {
    pub(crate) portal: &'m str,
    pub(crate) statement: &'m str,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<&'m [u8]>>,
    pub(crate) result_formats: Vec<i16>,
}

/// An Execute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Execute<'m> {
    pub(crate) portal: &'m str,
    /// 0: all.
    pub(crate) rows: u32,
}

/// The text of a Query or a CopyFail.
pub(crate) fn text(body: &[u8]) -> SqlResult<&str> {
    let mut reader = Reader { rest: body };
    let text = reader.text()?;
    reader.end()?;
    Ok(text)
}

/// A message without a body.
pub(crate) fn empty(body: &[u8]) -> SqlResult<()> {
    Reader { rest: body }.end()
}

pub(crate) fn parse(body: &[u8]) -> SqlResult<Parse<'_>> {
    let mut reader = Reader { rest: body };
    let (name, text) = (reader.text()?, reader.text()?);
    let types = reader.list(4, Reader::u32)?;
    reader.end()?;
    Ok(Parse { name, text, types })
}

pub(crate) fn bind(body: &[u8]) -> SqlResult<Bind<'_>> {
    let mut reader = Reader { rest: body };
    let (portal, statement) = (reader.text()?, reader.text()?);
    let formats = reader.list(2, Reader::i16)?;
    let values = reader.list(4, Reader::value)?;
    let result_formats = reader.list(2, Reader::i16)?;
    reader.end()?;
    Ok(Bind { portal, statement, formats, values, result_formats })
}

/// The target of a Describe or a Close, of which `name` is the name.
pub(crate) fn target<'m>(body: &'m [u8], name: &str) -> SqlResult<Target<'m>> {
    let mut reader = Reader { rest: body };
    let kind = reader.byte()?;
    let named = reader.text()?;
    reader.end()?;
    match kind {
        b'S' => Ok(Target::Statement(named)),
        b'P' => Ok(Target::Portal(named)),
        other => Err(violation(format!("invalid {name} message subtype {other}"))),
    }
}

pub(crate) fn execute(body: &[u8]) -> SqlResult<Execute<'_>> {
    let mut reader = Reader { rest: body };
    let portal = reader.text()?;
    let rows = reader.u32()?;
    reader.end()?;
    // Fewer than none are all, too.
    Ok(Execute { portal, rows: if rows > i32::MAX.unsigned_abs() { 0 } else { rows } })
}

/// The mechanism of a SASLInitialResponse, and the client's first message.
pub(crate) fn sasl_initial(body: &[u8]) -> SqlResult<(&str, Option<&[u8]>)> {
    let mut reader = Reader { rest: body };
    let mechanism = reader.text()?;
    let first = reader.value()?;
    reader.end()?;
    Ok((mechanism, first))
}

/// `08P01`.
pub(crate) fn violation(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// The bytes of a message that are still to be read.
struct Reader<'m> {
    rest: &'m [u8],
}

impl<'m> Reader<'m> {
    fn take(&mut self, bytes: usize) -> SqlResult<&'m [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or_else(|| violation("insufficient data left in message"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| violation("insufficient data left in message"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> SqlResult<u8> {
        self.array().map(|[byte]| byte)
    }

    fn i16(&mut self) -> SqlResult<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn u32(&mut self) -> SqlResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Text up to a zero byte.
    fn text(&mut self) -> SqlResult<&'m str> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| violation("invalid string in message"))?;
        let text = self.take(end + 1)?.get(..end).unwrap_or_default();
        utf8(text)
    }

    /// Bytes after their length; a length of -1 stands for null.
    fn value(&mut self) -> SqlResult<Option<&'m [u8]>> {
        match i32::from_be_bytes(self.array()?) {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.take(length).map(Some),
                Err(_) => Err(violation("insufficient data left in message")),
            },
        }
    }

    /// As many as two bytes say. Nothing is allocated for more of them than there are bytes.
    fn list<T>(&mut self, bytes_min: usize, one: impl Fn(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let count = usize::from(self.array().map(u16::from_be_bytes)?);
        if self.rest.len() / bytes_min < count {
            return Err(violation("insufficient data left in message"));
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn end(&self) -> SqlResult<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

/// Text, or `22021` with the bytes that are none.
fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes.get(error.valid_up_to()..).unwrap_or_default();
        // As many as the first of them announces.
        let length = match bad.first() {
            Some(0xc0..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf7) => 4,
            _ => 1,
        };
        let shown: Vec<String> = bad.iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    fn framed(kind: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&[kind]);
        bytes.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn message_of<T>(result: SqlResult<T>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_message_is_taken_when_it_is_whole() {
        let whole = framed(b'Q', b"SELECT 1\0");
        for length in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..length]);
            assert!(next_frame(&mut part, BYTES_MAX).unwrap().is_none());
            assert_eq!(part.len(), length);
        }
        let mut input = whole.clone();
        input.extend_from_slice(b"S");
        let frame = next_frame(&mut input, BYTES_MAX).unwrap().unwrap();
        assert_eq!((frame.kind, text(&frame.body).unwrap()), (b'Q', "SELECT 1"));
        assert_eq!(&input[..], b"S");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for (bytes, expected) in [
            (&b"Q\0\0\0\x03"[..], FrameError::Length(3)),
            (b"Q\xff\xff\xff\xff", FrameError::Length(0xffff_ffff)),
            (b"Q\x00\x20\x00\x00", FrameError::Length(0x20_0000)),
            (b"S\x00\x00\x30\x00", FrameError::Length(0x3000)),
            (b"\x01", FrameError::Kind(1)),
            (b"GET / HTTP/1.1", FrameError::Kind(b'G')),
        ] {
            assert_eq!(next_frame(&mut BytesMut::from(bytes), BYTES_MAX).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_bind_has_formats_values_and_result_formats() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\0\0\x01";
        let bind = bind(body).unwrap();
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!((bind.formats, bind.result_formats), (vec![1], vec![0, 1]));
        assert_eq!(bind.values, [Some(&b"ab"[..]), None]);
    }

    #[test]
    fn malformed_bodies_are_errors_of_postgresql() {
        assert_eq!(message_of(text(b"SELECT 1")), "08P01: invalid string in message");
        assert_eq!(message_of(text(b"SELECT 1\0x")), "08P01: invalid message format");
        assert_eq!(message_of(text(b"a\xff\0")), "22021: invalid byte sequence for encoding \"UTF8\": 0xff");
        assert_eq!(
            message_of(text(b"\xe2\x28\xa1\0")),
            "22021: invalid byte sequence for encoding \"UTF8\": 0xe2 0x28 0xa1"
        );
        assert_eq!(message_of(parse(b"\0\0\xff\xff")), "08P01: insufficient data left in message");
        assert_eq!(
            message_of(bind(b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0")),
            "08P01: insufficient data left in message"
        );
        assert_eq!(message_of(target(b"Xname\0", "DESCRIBE")), "08P01: invalid DESCRIBE message subtype 88");
        assert_eq!(message_of(execute(b"\0\0")), "08P01: insufficient data left in message");
        assert_eq!(execute(b"\0\xff\xff\xff\xff").unwrap().rows, 0);
    }
}

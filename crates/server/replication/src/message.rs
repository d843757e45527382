//! The messages inside of a stream of replication, as PostgreSQL has them. Integers are big-endian, times are microseconds since 2000.
//!
//! | from     | byte | fields                                                                              |
//! |----------|------|-------------------------------------------------------------------------------------|
//! | sender   | `w`  | first byte's LSN 8, end of the sender's log 8, time 8, bytes of the log             |
//! | sender   | `k`  | end of the sender's log 8, time 8, 1 if an answer is wanted at once 1               |
//! | receiver | `r`  | written up to 8, durable up to 8, applied up to 8, time 8, 1 if an answer is wanted 1 |
//! | receiver | `h`  | of PostgreSQL's standbys: their oldest transactions, which mean nothing here        |

use seawall_types::Lsn;

/// Where `w` has its bytes.
pub const DATA_HEAD_BYTES: usize = 25;
const KEEPALIVE_BYTES: usize = 18;
const STATUS_BYTES: usize = 34;
/// Microseconds from 1970 to 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// How far a receiver is. Each is at most the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Handed to the receiver's operating system up to here.
    pub written: Lsn,
    /// Durable there up to here.
    pub flushed: Lsn,
    /// Shown to the receiver's readers up to here.
    pub applied: Lsn,
}

/// What a sender says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromSender<'m> {
    /// Bytes of the log.
    Data {
        /// Of the first byte.
        start: Lsn,
        /// The end of the sender's durable log.
        end: Lsn,
        /// When it was sent: microseconds since 1970.
        sent_micros: i64,
        /// The bytes.
        bytes: &'m [u8],
    },
    /// The sender is alive.
    KeepAlive {
        /// The end of the sender's durable log.
        end: Lsn,
        /// When it was sent: microseconds since 1970.
        sent_micros: i64,
        /// It waits for an answer.
        wants_answer: bool,
    },
}

/// What a receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromReceiver {
    /// How far it is.
    Status {
        /// How far.
        progress: Progress,
        /// It waits for an answer.
        wants_answer: bool,
    },
    /// Something that means nothing here.
    Ignored,
}

/// The bytes are not a message of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of replication is malformed: kind {kind:#04x}, {bytes} bytes")]
pub struct MessageError {
    /// Its first byte; 0 if there is none.
    pub kind: u8,
    /// Its length.
    pub bytes: usize,
}

impl MessageError {
    fn of(body: &[u8]) -> MessageError {
        MessageError { kind: body.first().copied().unwrap_or(0), bytes: body.len() }
    }
}

/// Appends the head of a `w`; the bytes of the log follow.
pub fn put_data_head(out: &mut Vec<u8>, start: Lsn, end: Lsn, now_micros: i64) {
    out.push(b'w');
    put_lsn(out, start);
    put_lsn(out, end);
    put_time(out, now_micros);
}

/// A `k`.
pub fn keep_alive(end: Lsn, now_micros: i64, wants_answer: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(KEEPALIVE_BYTES);
    out.push(b'k');
    put_lsn(&mut out, end);
    put_time(&mut out, now_micros);
    out.push(u8::from(wants_answer));
    out
}

/// An `r`.
pub fn status(progress: Progress, now_micros: i64, wants_answer: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(STATUS_BYTES);
    out.push(b'r');
    put_lsn(&mut out, progress.written);
    put_lsn(&mut out, progress.flushed);
    put_lsn(&mut out, progress.applied);
    put_time(&mut out, now_micros);
    out.push(u8::from(wants_answer));
    out
}

fn put_lsn(out: &mut Vec<u8>, lsn: Lsn) {
    out.extend_from_slice(&lsn.get().to_be_bytes());
}

fn put_time(out: &mut Vec<u8>, micros: i64) {
    out.extend_from_slice(&micros.saturating_sub(EPOCH_MICROS).to_be_bytes());
}

fn number_at(body: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*body.get(offset..)?.first_chunk()?))
}

fn lsn_at(body: &[u8], offset: usize) -> Option<Lsn> {
    number_at(body, offset).map(Lsn::new)
}

fn time_at(body: &[u8], offset: usize) -> Option<i64> {
    number_at(body, offset).map(|time| time.cast_signed().saturating_add(EPOCH_MICROS))
}

impl FromSender<'_> {
    /// Reads a message of a sender.
    ///
    /// # Errors
    /// `MessageError`.
    pub fn parse(body: &[u8]) -> Result<FromSender<'_>, MessageError> {
        let parsed = match body.first() {
            Some(b'w') if body.len() >= DATA_HEAD_BYTES => lsn_at(body, 1)
                .zip(lsn_at(body, 9))
                .zip(time_at(body, 17))
                .map(|((start, end), sent_micros)| {
                    let bytes = &body[DATA_HEAD_BYTES..];
                    FromSender::Data { start, end, sent_micros, bytes }
                }),
            Some(b'k') if body.len() == KEEPALIVE_BYTES => {
                lsn_at(body, 1).zip(time_at(body, 9)).map(|(end, sent_micros)| FromSender::KeepAlive {
                    end,
                    sent_micros,
                    wants_answer: body[KEEPALIVE_BYTES - 1] != 0,
                })
            }
            _ => None,
        };
        parsed.ok_or_else(|| MessageError::of(body))
    }
}

impl FromReceiver {
    /// Reads a message of a receiver.
    ///
    /// # Errors
    /// `MessageError`.
    pub fn parse(body: &[u8]) -> Result<FromReceiver, MessageError> {
        let malformed = || MessageError::of(body);
        match body.first() {
            Some(b'r') if body.len() == STATUS_BYTES => {
                let at = |offset| lsn_at(body, offset).ok_or_else(malformed);
                let progress = Progress { written: at(1)?, flushed: at(9)?, applied: at(17)? };
                Ok(FromReceiver::Status { progress, wants_answer: body[STATUS_BYTES - 1] != 0 })
            }
            Some(b'h') => Ok(FromReceiver::Ignored),
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let (start, end, now) = (Lsn::new(4096), Lsn::new(5000), 1_700_000_000_000_000);
        let mut data = Vec::new();
        put_data_head(&mut data, start, end, now);
        assert_eq!(data.len(), DATA_HEAD_BYTES);
        data.extend_from_slice(b"log");
        let expected = FromSender::Data { start, end, sent_micros: now, bytes: b"log" };
        assert_eq!(FromSender::parse(&data), Ok(expected));
        let expected = FromSender::KeepAlive { end, sent_micros: now, wants_answer: true };
        assert_eq!(FromSender::parse(&keep_alive(end, now, true)), Ok(expected));
        let progress = Progress { written: end, flushed: start, applied: Lsn::new(1) };
        let expected = FromReceiver::Status { progress, wants_answer: false };
        assert_eq!(FromReceiver::parse(&status(progress, now, false)), Ok(expected));
        assert_eq!(FromReceiver::parse(b"h12345"), Ok(FromReceiver::Ignored));
    }

    #[test]
    fn a_message_that_is_cut_short_is_refused() {
        let whole = status(Progress::default(), 0, true);
        for length in 0..whole.len() {
            FromReceiver::parse(&whole[..length]).unwrap_err();
        }
        let whole = keep_alive(Lsn::ZERO, 0, true);
        for length in 0..whole.len() {
            FromSender::parse(&whole[..length]).unwrap_err();
        }
        let mut head = Vec::new();
        put_data_head(&mut head, Lsn::ZERO, Lsn::ZERO, 0);
        for length in 0..head.len() {
            FromSender::parse(&head[..length]).unwrap_err();
        }
    }
}

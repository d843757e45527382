//! What servers of a replication say to each other: the messages of a copy and of a stream, the commands that begin them, and all that
//! an upstream sends to a standby.

use std::io::{self, Read, Write};
use std::time::Duration;

use seawall_codec::checksum::crc32c;
use seawall_replication::copy::{FromPrimary, decode_ranges, encode_ranges};
use seawall_replication::message::{self, FromReceiver, FromSender};
use seawall_replication::{Client, Command, Streamed, UpstreamSettings, Wire};

use crate::input::Entries;

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[
    ("copy_message", copy_message),
    ("stream_message", stream_message),
    ("replication_command", replication_command),
    ("upstream", upstream),
];

/// The time of all messages that are written again.
const NOW: i64 = 1_700_000_000_000_000;

/// A message of a copy; an odd first byte makes its checksum right.
pub fn copy_message(data: &[u8]) {
    let Some((control, body)) = data.split_first() else { return };
    let mut message = body.to_vec();
    if control % 2 == 1 {
        message.extend_from_slice(&crc32c(body).to_be_bytes());
    }
    let Ok(found) = FromPrimary::parse(&message) else { return };
    let again = found.encode();
    assert_eq!(FromPrimary::parse(&again).as_ref(), Ok(&found));
    if let FromPrimary::Rows(rows) = found {
        let (mut bytes, mut has_failed) = (0, false);
        for row in rows {
            assert!(!has_failed, "nothing comes after an error");
            match row {
                Ok((key, value)) => bytes += key.len() + value.len() + 8,
                Err(_) => has_failed = true,
            }
        }
        assert!(bytes < message.len());
    }
    if let FromPrimary::Unchanged(ranges) = found {
        let found = ranges.take_while(Result::is_ok).count();
        assert!(found * 24 < message.len());
    }
}

/// A message of a sender, and one of a receiver.
pub fn stream_message(data: &[u8]) {
    match FromSender::parse(data) {
        Ok(found @ FromSender::Data { start, end, sent_micros, bytes }) => {
            let mut again = Vec::new();
            message::put_data_head(&mut again, start, end, sent_micros);
            again.extend_from_slice(bytes);
            assert_eq!(FromSender::parse(&again), Ok(found));
        }
        Ok(found @ FromSender::KeepAlive { end, sent_micros, wants_answer }) => {
            let again = message::keep_alive(end, sent_micros, wants_answer);
            assert_eq!(FromSender::parse(&again), Ok(found));
        }
        Err(error) => assert_eq!(error.bytes, data.len()),
    }
    if let Ok(found @ FromReceiver::Status { progress, wants_answer }) = FromReceiver::parse(data) {
        assert_eq!(FromReceiver::parse(&message::status(progress, NOW, wants_answer)), Ok(found));
    }
}

/// A command of a connection for replication. One that is understood is understood with a semicolon, too.
pub fn replication_command(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(command) = Command::parse(&text)
        && !text.contains(';')
    {
        assert_eq!(Command::parse(&format!("{text};")).as_ref(), Ok(&command));
        if let Command::CopyRows(ranges) = command {
            assert_eq!(decode_ranges(&encode_ranges(&ranges)), Some(ranges));
        }
    }
}

/// All that an upstream sends: at the login, for a command, and as a stream. The first byte says how many bytes come at a time.
pub fn upstream(data: &[u8]) {
    let Some((pieces, bytes)) = data.split_first() else { return };
    let wire = Pieces { bytes: bytes.to_vec(), taken: 0, at_a_time: usize::from(*pieces) + 1 };
    let Ok(mut client) = Client::log_in(Box::new(wire), &UpstreamSettings::default()) else { return };
    let Ok(rows) = client.command("IDENTIFY_SYSTEM") else { return };
    assert!(rows.len() <= bytes.len());
    if client.begin_stream("START_REPLICATION PHYSICAL 0/1000").is_err() {
        return;
    }
    let mut streamed = 0;
    while let Ok(Streamed::Message(message)) = client.streamed(Duration::from_secs(1)) {
        streamed += message.len() + 5;
    }
    assert!(streamed <= bytes.len());
}

/// A connection that gives what was written down, and takes everything.
struct Pieces {
    bytes: Vec<u8>,
    taken: usize,
    at_a_time: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(self.at_a_time).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Pieces {
    fn set_read_timeout(&self, _limit: Duration) -> io::Result<()> {
        Ok(())
    }
}

//! The file `handover`: this server's timeline ends at a position, and a standby was ordered, or is about to be, to go on from there.
//!
//! A text:
//! ```text
//! The role of the primary was handed over: this database takes no writes until it is known whether the server below has taken over.
//! version 1
//! timeline 1
//! end 0/1A2B3C
//! order 0123456789abcdef
//! follow host=standby port=5432 user=postgres slot=standby
//! slot standby
//! crc32c 1a2b3c4d
//! ```
//! **If the power goes** while it is written, there is no file, or the one before, or the whole one. A file of another timeline than the
//! one that the database is on says nothing any more, unless that is received: then it says whom this server follows.

use std::io::ErrorKind;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};
use seawall_types::{Lsn, TimelineId};

use crate::directory::{io, write_synced};
use crate::error::Error;

const PATH: &str = "handover";
const NEW_PATH: &str = "handover.new";
const TITLE: &str = "The role of the primary was handed over: this database takes no writes until it is known whether the server below has taken over.";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 10;

/// A role that was handed over, or is being.
#[derive(Clone, PartialEq, Eq)]
pub struct HandoverRecord {
    /// The timeline that ends.
    pub timeline: TimelineId,
    /// Where it ends.
    pub end: Lsn,
    /// Names the order to the standby; no other order has the name.
    pub order: String,
    /// How the standby is reached, and is to be followed: one line. There may be a password in it.
    pub follow: String,
    /// The slot by which it has followed this server, if it had one: of no use once it has taken over.
    pub slot: Option<String>,
}

/// Without what may be a password.
impl std::fmt::Debug for HandoverRecord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HandoverRecord")
            .field("timeline", &self.timeline)
            .field("end", &self.end)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

impl HandoverRecord {
    /// Puts it into the directory, durably, in the place of another one.
    pub(crate) fn store(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("timeline", &self.timeline);
        text.line("end", &self.end);
        text.line("order", &self.order);
        text.line("follow", &self.follow);
        text.line("slot", &self.slot.as_deref().unwrap_or_default());
        match disk.remove(NEW_PATH) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        write_synced(disk, NEW_PATH, text.seal().as_bytes())?;
        disk.rename(NEW_PATH, PATH).map_err(io)?;
        disk.sync_directory("").map_err(io)
    }

    /// What the directory has.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<HandoverRecord>, Error> {
        let file = match disk.open(PATH, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io)?,
        };
        let bytes = file.length().map_err(io)?.min(BYTES_MAX);
        let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
        file.read_exact_at(&mut content, 0).map_err(io)?;
        let damaged = |problem| Error::HandoverRecord { file: disk.location(PATH), problem };
        decode(&content).map(Some).map_err(damaged)
    }

    /// Removes the file durably, if it is there.
    pub(crate) fn remove(disk: &dyn Disk) -> Result<(), Error> {
        match disk.remove(PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| disk.sync_directory("")).map_err(io),
        }
    }
}

fn decode(bytes: &[u8]) -> Result<HandoverRecord, String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    let timeline = text.parsed::<u32>("timeline")?;
    let record = HandoverRecord {
        timeline: TimelineId::new(timeline).ok_or("its timeline cannot be")?,
        end: text.parsed("end")?,
        order: text.field("order")?.to_owned(),
        follow: text.field("follow")?.to_owned(),
        slot: Some(text.field("slot")?.to_owned()).filter(|slot| !slot.is_empty()),
    };
    text.end()?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{PowerLoss, SimulatedDisk};

    use super::*;

    fn record(order: &str) -> HandoverRecord {
        HandoverRecord {
            timeline: TimelineId::new(3).unwrap(),
            end: Lsn::new(0x1A_2B3C),
            order: order.to_owned(),
            follow: "host=a port=1 password='x y'".to_owned(),
            slot: (order == "a").then(|| "first".to_owned()),
        }
    }

    #[test]
    fn a_record_comes_back_whole_or_is_the_one_before_whenever_the_power_goes() {
        for call in 0.. {
            let disk = SimulatedDisk::new(call);
            disk.create_directory("").unwrap();
            assert_eq!(HandoverRecord::read(&disk).unwrap(), None);
            record("a").store(&disk).unwrap();
            disk.crash_at(disk.calls() + call);
            let stored = record("b").store(&disk).is_ok();
            let left = disk.after_power_loss(PowerLoss::Random(call));
            let read = HandoverRecord::read(&left).unwrap().unwrap();
            assert!(read == record("b") || (!stored && read == record("a")), "call {call}: {read:?}");
            if stored && !disk.crashed() {
                break;
            }
        }
    }

    #[test]
    fn a_record_that_was_removed_stays_removed() {
        let disk = SimulatedDisk::new(1);
        disk.create_directory("").unwrap();
        record("a").store(&disk).unwrap();
        HandoverRecord::remove(&disk).unwrap();
        HandoverRecord::remove(&disk).unwrap();
        let left = disk.after_power_loss(PowerLoss::LoseAll);
        assert_eq!(HandoverRecord::read(&left).unwrap(), None);
    }

    #[test]
    fn damage_is_refused_and_a_password_is_not_shown() {
        let disk = SimulatedDisk::new(1);
        disk.create_directory("").unwrap();
        write_synced(&disk, PATH, b"something else").unwrap();
        let refused = HandoverRecord::read(&disk);
        assert!(matches!(refused, Err(Error::HandoverRecord { .. })), "{refused:?}");
        assert!(!format!("{:?}", record("a")).contains("password"));
    }
}

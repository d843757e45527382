//! The file `statistics`: what a database that is open tells other processes about itself, so that a running database can be watched
//! from outside. A thread of its own writes it once a second, if something has changed: nothing else waits for the file, or for the
//! mutexes that the figures are under.
//!
//! Two slots of 128 KiB, written in turn, so that one is whole whenever a reader looks. A slot, integers little-endian:
//!
//! | offset | bytes | field            | meaning                                                              |
//! |-------:|------:|------------------|----------------------------------------------------------------------|
//! |      0 |     4 | checksum         | CRC-32C of the bytes from 4 to the end of the text                    |
//! |      4 |     4 | kind             | 0x535431_01: statistics, version 1                                   |
//! |      8 |    16 | database         | database id; statistics of another one are ignored                   |
//! |     24 |     8 | number           | publications of this process, from 1; slot `number % 2` has it       |
//! |     32 |     8 | process          | its number, as the operating system counts                           |
//! |     40 |     8 | opened_micros    | when it opened the database, microseconds since 1970                 |
//! |     48 |     8 | published_micros | when it wrote the slot, microseconds since 1970                      |
//! |     56 |     8 | text_bytes       | length of the text                                                   |
//! |     64 |       | text             | OpenMetrics text, of all that `Statistics` counts                    |
//!
//! **Nothing depends on the file.** It is never synced: after a power loss it holds whatever the file system had written, and what does not
//! verify is ignored. It is overwritten in place: once it has its length, a publication changes no name and allocates nothing, so the
//! file system's journal, which syncs of other files wait for, has next to nothing to do.
//!
//! **Whether the database is open** is seen from a lock on this file, and not from that of the database: a reader that tried
//! the latter, however briefly, could keep another process from opening the database. A killed process leaves its last statistics, and no lock. The
//! file of a database that is closed is empty, and so is that of one that has just been opened.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use seawall_codec::checksum::crc32c;
use seawall_io::{Clock, DirectoryLock, Disk, DiskFile, LockMode, OpenMode};
use seawall_types::DatabaseId;

use super::open_metrics::{MetricSample, parse};
use crate::encryption::open_superblock;
use crate::engine::Engine;
use crate::error::Error;

const PATH: &str = "statistics";
const SLOT_BYTES: usize = 128 << 10;
const HEADER_BYTES: usize = 64;
const KIND: u32 = 0x5354_3101;
/// How often the statistics are published at most. A database that is open for less publishes nothing.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often they are published if nothing has changed: a monitor sees that the publisher is alive.
const REFRESH: Duration = Duration::from_secs(60);

/// What a database that is or was open in some process has told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedStatistics {
    /// Id of the database.
    pub database: DatabaseId,
    /// Number of the process.
    pub process_id: u64,
    /// When the process opened the database, in microseconds since 1970.
    pub opened_micros: i64,
    /// When the process published the statistics, in microseconds since 1970.
    pub published_micros: i64,
    /// Whether the database is open. If not, the process was killed, or the machine stopped, after it had published.
    pub is_open: bool,
    /// The statistics as OpenMetrics text, as of `Statistics::open_metrics`.
    pub open_metrics: String,
}

impl PublishedStatistics {
    /// The figures of the text.
    ///
    /// # Errors
    /// The first line that this version cannot read.
    pub fn samples(&self) -> Result<Vec<MetricSample>, String> {
        parse(&self.open_metrics)
    }
}

/// The newest statistics that a process has published.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<PublishedStatistics>, Error> {
    let (_, superblock, _) = open_superblock(disk)?;
    let file = match disk.open(PATH, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| Error::io(&error))?,
    };
    // Asked for before the slots are read: statistics that were open then are not older than the answer.
    let is_open = is_locked(disk)?;
    let slots = [0, 1].into_iter().filter_map(|slot| Slot::read(&*file, slot, superblock.database));
    let newest = slots.max_by_key(|slot| slot.number);
    Ok(newest.map(|slot| PublishedStatistics { is_open, ..slot.published }))
}

/// Whether a publisher is alive. The file is there, so nothing is created.
fn is_locked(disk: &dyn Disk) -> Result<bool, Error> {
    match disk.lock(PATH, LockMode::Shared) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(Error::io(&error)),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    number: u64,
    published: PublishedStatistics,
}

impl Slot {
    fn offset(index: u64) -> u64 {
        index * u64::try_from(SLOT_BYTES).expect("128 KiB")
    }

    /// `None` for a text that is longer than a slot.
    fn encode(&self) -> Option<Vec<u8>> {
        let published = &self.published;
        let mut bytes = vec![0; 4];
        bytes.extend(KIND.to_le_bytes());
        bytes.extend(published.database.as_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(published.process_id.to_le_bytes());
        bytes.extend(published.opened_micros.to_le_bytes());
        bytes.extend(published.published_micros.to_le_bytes());
        bytes.extend(u64::try_from(published.open_metrics.len()).ok()?.to_le_bytes());
        assert_eq!(bytes.len(), HEADER_BYTES, "the table at the top");
        bytes.extend(published.open_metrics.as_bytes());
        let checksum = crc32c(&bytes[4..]);
        bytes[0..4].copy_from_slice(&checksum.to_le_bytes());
        (bytes.len() <= SLOT_BYTES).then_some(bytes)
    }

    /// `None` for one that is empty, torn, damaged, or of another database or version.
    fn decode(bytes: &[u8], database: DatabaseId) -> Option<Slot> {
        let field = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let text_bytes =
            usize::try_from(field(56)?).ok().filter(|bytes| *bytes <= SLOT_BYTES - HEADER_BYTES)?;
        let text = bytes.get(HEADER_BYTES..HEADER_BYTES + text_bytes)?;
        let fits = word(0)? == crc32c(&bytes[4..HEADER_BYTES + text_bytes])
            && word(4)? == KIND
            && bytes[8..24] == *database.as_bytes();
        let published = PublishedStatistics {
            database,
            process_id: field(32)?,
            opened_micros: field(40)?.cast_signed(),
            published_micros: field(48)?.cast_signed(),
            is_open: false,
            open_metrics: String::from_utf8(text.to_vec()).ok()?,
        };
        fits.then_some(Slot { number: field(24)?, published })
    }

    fn read(file: &dyn DiskFile, index: u64, database: DatabaseId) -> Option<Slot> {
        let offset = Slot::offset(index);
        // The file may be cut meanwhile, by a process that closes or opens the database.
        let there = usize::try_from(file.length().ok()?.checked_sub(offset)?).ok()?;
        let mut bytes = vec![0; there.min(SLOT_BYTES)];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Slot::decode(&bytes, database)
    }
}

/// The side of the database that is open.
#[derive(Debug)]
pub(crate) struct Publisher {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// The file, since the first publication.
    file: Option<Arc<dyn DiskFile>>,
    /// Missing while a reader has just asked whether there is one.
    lock: Option<Box<dyn DirectoryLock>>,
    last: Slot,
    /// When the last publication was.
    published: Option<Duration>,
    has_failed: bool,
}

impl Publisher {
    fn new(engine: &Engine) -> Publisher {
        let clock = Arc::clone(engine.clock());
        let opened_micros = clock.wall_micros();
        let published = PublishedStatistics {
            database: engine.redo.superblock().database,
            process_id: u64::from(std::process::id()),
            opened_micros,
            published_micros: opened_micros,
            is_open: true,
            open_metrics: String::new(),
        };
        Publisher {
            disk: Arc::clone(&engine.environment.disk),
            clock,
            file: None,
            lock: None,
            last: Slot { number: 0, published },
            published: None,
            has_failed: false,
        }
    }

    /// Publishes the statistics if they have changed. A failure is told to people only, and once.
    fn look(&mut self, engine: &Engine) {
        let now = self.clock.monotonic();
        let text = engine.counted_statistics().open_metrics();
        let is_fresh = self.published.is_some_and(|at| now.saturating_sub(at) < REFRESH);
        if is_fresh && text == self.last.published.open_metrics && self.lock.is_some() {
            return;
        }
        match self.publish(text) {
            Ok(()) => (self.published, self.has_failed) = (Some(now), false),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                tracing::warn!(%error, path = PATH, "statistics not published; this will be tried again");
            }
            Err(_) => {}
        }
    }

    fn publish(&mut self, text: String) -> std::io::Result<()> {
        let file = self.file()?;
        if self.lock.is_none() {
            self.lock = match self.disk.lock(PATH, LockMode::Exclusive) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                lock => Some(lock?),
            };
        }
        let published_micros = self.clock.wall_micros();
        let published =
            PublishedStatistics { published_micros, open_metrics: text, ..self.last.published.clone() };
        let next = Slot { number: self.last.number + 1, published };
        let too_long = || std::io::Error::other("the statistics are longer than a slot of the file");
        let bytes = next.encode().ok_or_else(too_long)?;
        file.write_all_at(&bytes, Slot::offset(next.number % 2))?;
        // Not before: a slot that was not written is tried again, in the same place, and the other one stays whole.
        self.last = next;
        Ok(())
    }

    /// The file, empty at first: what another process has published is no part of it.
    fn file(&mut self) -> std::io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = match self.disk.open(PATH, OpenMode::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.disk.open(PATH, OpenMode::Create)?,
            file => file?,
        };
        file.set_length(0)?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }
}

impl Engine {
    /// The thread that publishes. It goes on in a database that has stopped: a monitor wants to know.
    pub(crate) fn keep_statistics_published(&self) {
        let mut publisher = Publisher::new(self);
        self.background.rest(INTERVAL);
        while !self.background.stopping() {
            publisher.look(self);
            self.background.rest(INTERVAL);
        }
    }
}

/// Empties the file: what an earlier process has left says nothing about a database that is being opened. For whoever has locked
/// the database.
pub(crate) fn forget_earlier(disk: &dyn Disk) {
    let emptied = disk.open(PATH, OpenMode::Write).and_then(|file| file.set_length(0));
    if let Err(error) = emptied
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, path = PATH, "statistics of an earlier process stay");
    }
}

/// The database is closed: its files say all there is.
impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && let Err(error) = file.set_length(0)
        {
            tracing::warn!(%error, path = PATH, "the statistics of a closed database stay");
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{
        Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom,
    };

    use super::*;
    use crate::options::PublishStatistics;
    use crate::{Background, Database, Environment, Options};

    fn open(disk: &SimulatedDisk, clock: &SimulatedClock, publish_statistics: PublishStatistics) -> Database {
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(clock.clone()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let options = Options { background: Background::Manual, publish_statistics, ..Options::default() };
        Database::open(environment, options).unwrap()
    }

    #[test]
    fn statistics_are_published_when_they_change_and_once_a_minute() {
        let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::new(0));
        let database = open(&disk, &clock, PublishStatistics::EverySecond);
        let table = database.create_table("t").unwrap();
        let mut publisher = Publisher::new(database.engine());
        let mut after = |seconds: u64| {
            clock.advance(Duration::from_secs(seconds));
            publisher.look(database.engine());
            read(&disk).unwrap().map(|published| (published.published_micros / 1_000_000, published.is_open))
        };
        assert_eq!(after(1), Some((1, true)));
        assert_eq!(after(1), Some((1, true)), "nothing has changed");
        database.put(&table, "k", "v").unwrap();
        assert_eq!(after(1), Some((3, true)));
        assert_eq!(after(59), Some((3, true)));
        assert_eq!(after(1), Some((63, true)), "the publisher is alive");
        let text = read(&disk).unwrap().unwrap().open_metrics;
        assert_eq!(text, database.engine().counted_statistics().open_metrics());
        drop(publisher);
        assert_eq!(read(&disk).unwrap(), None, "a closed database says nothing");
    }

    #[test]
    fn what_a_killed_process_leaves_is_not_open_and_gives_way_to_the_next_publisher() {
        let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::new(0));
        let database = open(&disk, &clock, PublishStatistics::EverySecond);
        let mut publisher = Publisher::new(database.engine());
        for _ in 0..3 {
            clock.advance(REFRESH);
            publisher.look(database.engine());
        }
        let published = read(&disk).unwrap().unwrap();
        // As the next process finds the disk, and with what a power loss leaves.
        let left = read(&disk.copy()).unwrap().unwrap();
        assert_eq!(left, PublishedStatistics { is_open: false, ..published.clone() });
        for seed in 0..200 {
            let torn = disk.after_power_loss(PowerLoss::Random(seed));
            let found = read(&torn).unwrap();
            let is_whole = found.is_none_or(|found| !found.is_open && parse(&found.open_metrics).is_ok());
            assert!(is_whole, "seed {seed}");
        }
        let again = disk.copy();
        let database = open(&again, &clock, PublishStatistics::EverySecond);
        let mut publisher = Publisher::new(database.engine());
        clock.advance(INTERVAL);
        publisher.look(database.engine());
        let found = read(&again).unwrap().unwrap();
        assert!(found.is_open && found.opened_micros >= published.published_micros, "{found:?}");
    }

    #[test]
    fn a_reader_who_asks_at_that_moment_delays_the_lock_and_nothing_else() {
        let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::new(0));
        let database = open(&disk, &clock, PublishStatistics::EverySecond);
        let mut publisher = Publisher::new(database.engine());
        let reader = disk.lock(PATH, LockMode::Shared).unwrap();
        clock.advance(INTERVAL);
        publisher.look(database.engine());
        drop(reader);
        assert!(read(&disk).unwrap().is_some_and(|published| !published.is_open));
        clock.advance(INTERVAL);
        publisher.look(database.engine());
        assert!(read(&disk).unwrap().is_some_and(|published| published.is_open));
    }

    #[test]
    fn what_a_killed_process_left_is_forgotten_by_whoever_opens_the_database_next() {
        for publish_statistics in [PublishStatistics::Never, PublishStatistics::EverySecond] {
            let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::new(0));
            let database = open(&disk, &clock, PublishStatistics::EverySecond);
            let mut publisher = Publisher::new(database.engine());
            publisher.look(database.engine());
            let killed = disk.copy();
            assert!(read(&killed).unwrap().is_some());
            // Open for less than a second.
            let next = open(&killed, &clock, publish_statistics);
            assert_eq!(read(&killed).unwrap(), None);
            next.close().unwrap();
            assert_eq!(read(&killed).unwrap(), None);
        }
    }

    #[test]
    fn a_publication_that_fails_is_tried_again_and_leaves_the_last_one() {
        let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::new(0));
        let database = open(&disk, &clock, PublishStatistics::EverySecond);
        let table = database.create_table("t").unwrap();
        let mut publisher = Publisher::new(database.engine());
        publisher.look(database.engine());
        let first = read(&disk).unwrap().unwrap();
        database.put(&table, "k", "v").unwrap();
        let target = FaultTarget::Path { prefix: PATH.to_owned(), operations: Operations::Writes };
        disk.inject(Fault { target, error: FaultError::Number(28), skip: 0, count: u64::MAX });
        for _ in 0..3 {
            publisher.look(database.engine());
            assert_eq!(read(&disk).unwrap().unwrap(), first);
        }
        disk.clear_faults();
        publisher.look(database.engine());
        assert_ne!(read(&disk).unwrap().unwrap().open_metrics, first.open_metrics);
    }

    fn slot(number: u64, text: &str) -> Slot {
        let published = PublishedStatistics {
            database: DatabaseId::from_bytes([7; 16]),
            process_id: 4711,
            opened_micros: 1_000_000,
            published_micros: 2_000_000,
            is_open: false,
            open_metrics: text.to_owned(),
        };
        Slot { number, published }
    }

    #[test]
    fn a_slot_reads_back_and_every_changed_byte_is_noticed() {
        let slot = slot(3, "seawall_snapshots 2\n# EOF\n");
        let database = slot.published.database;
        let bytes = slot.encode().unwrap();
        assert_eq!(Slot::decode(&bytes, database), Some(slot));
        assert_eq!(Slot::decode(&bytes, DatabaseId::from_bytes([8; 16])), None);
        for at in 0..bytes.len() {
            assert_eq!(Slot::decode(&bytes[..at], database), None, "cut at {at}");
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_eq!(Slot::decode(&other, database), None, "bit {bit} of byte {at}");
            }
        }
        // Lengths that no slot has, with the right checksum.
        for length in [u64::MAX, 1 << 17, 28, 25] {
            let mut other = bytes.clone();
            other[56..64].copy_from_slice(&length.to_le_bytes());
            let checksum = crc32c(&other[4..]);
            other[0..4].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Slot::decode(&other, database), None, "length {length}");
        }
    }

    #[test]
    fn a_text_longer_than_a_slot_is_refused() {
        assert!(slot(1, &"x".repeat(SLOT_BYTES - HEADER_BYTES)).encode().is_some());
        assert!(slot(1, &"x".repeat(SLOT_BYTES - HEADER_BYTES + 1)).encode().is_none());
    }
}

//! A stream of bytes as objects of a backup: cut, compressed and put by several threads, and fetched back in order by several.
//!
//! ```text
//!   bytes --> Cutter --part--> channel --> threads: compress, put        at most two parts a thread in memory, and two more
//!   bytes <-- PartReader <---- threads: fetch, check, a few parts ahead
//! ```

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::{Scope, ScopedJoinHandle};

use seawall_archive::{ObjectKind, ObjectPlace, Packer, Packing, Repository, System};
use seawall_codec::checksum::Crc64;

use super::missing::{Missing, WantedPart};
use seawall_backup::BackupError;
use seawall_backup::PartInfo;
use seawall_backup::object_names;

/// The first part is a small one: with it, the repository shows soon that a backup is under way, and from where on it needs the log.
const FIRST_PART_BYTES_MAX: usize = 64 << 10;

/// A part on its way.
#[derive(Debug)]
pub(super) struct Part {
    number: u32,
    content: Vec<u8>,
}

/// Cuts a stream into parts.
#[derive(Debug)]
pub(super) struct Cutter {
    part_bytes: usize,
    sender: SyncSender<Part>,
    filling: Vec<u8>,
    number: u32,
}

impl Cutter {
    pub(super) fn new(part_bytes: usize, sender: SyncSender<Part>) -> Cutter {
        Cutter { part_bytes: part_bytes.max(1), sender, filling: Vec::new(), number: 0 }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If nobody takes parts: whoever did has failed, and says why.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let part_bytes = match self.number {
                0 => self.part_bytes.min(FIRST_PART_BYTES_MAX),
                _ => self.part_bytes,
            };
            let room = part_bytes - self.filling.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.filling.extend_from_slice(now);
            bytes = later;
            if self.filling.len() == part_bytes {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends what is left.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.filling.is_empty() { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> io::Result<()> {
        let content = std::mem::take(&mut self.filling);
        let part = Part { number: self.number, content };
        self.number =
            self.number.checked_add(1).ok_or_else(|| io::Error::other("there are too many parts"))?;
        self.sender.send(part).map_err(|_| io::Error::other("the parts are not taken any more"))
    }
}

/// Puts parts of one backup.
#[derive(Clone, Copy)]
pub(super) struct PartWriter<'a> {
    pub(super) repository: &'a Repository,
    pub(super) system: System,
    pub(super) id: &'a str,
    pub(super) place: ObjectPlace,
    pub(super) packing: Packing,
}

impl PartWriter<'_> {
    /// Puts what comes, until there is nothing more or something fails.
    pub(super) fn work(
        &self,
        parts: &Mutex<Receiver<Part>>,
        put: &Mutex<Vec<(u32, PartInfo)>>,
    ) -> Result<(), BackupError> {
        let mut packer = Packer::new(self.packing);
        loop {
            let next = parts.lock().expect("no thread panics while it waits for a part").recv();
            let Ok(part) = next else { return Ok(()) };
            let header = object_names::part(self.id, part.number).header(
                ObjectKind::BackupPart,
                self.system,
                self.place,
            );
            let packed = packer.pack(header, &part.content);
            drop(part.content);
            self.repository.push_object(&packed)?;
            let header = packed.header();
            let info = PartInfo { bytes: header.plain_bytes, checksum: header.plain_checksum };
            put.lock().expect("no thread panics while it adds to a list").push((part.number, info));
        }
    }
}

/// Where the parts of a backup are.
#[derive(Clone, Copy)]
pub(super) struct StoredParts<'a> {
    pub(super) repository: &'a Repository,
    pub(super) system: System,
    pub(super) id: &'a str,
    pub(super) parts: &'a [PartInfo],
}

impl StoredParts<'_> {
    fn fetch(&self, part: &WantedPart) -> Result<Vec<u8>, BackupError> {
        let expected = self.parts[part.index];
        let number =
            u32::try_from(part.index).map_err(|_| BackupError::damaged(self.id, "it has too many parts"))?;
        let object = object_names::part(self.id, number);
        let mut content = Vec::new();
        self.repository.fetch_object(self.system, &object, &mut content)?;
        let mut checksum = Crc64::new();
        checksum.update(&content);
        if (content.len() as u64, checksum.finish()) != (expected.bytes, expected.checksum) {
            return Err(BackupError::damaged(&object, "it is not what the manifest says"));
        }
        Ok(part.cut(content))
    }
}

/// What is missing of all parts, as one stream.
pub(super) struct PartReader<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stored: StoredParts<'env>,
    threads: usize,
    /// Parts that were not asked for yet.
    wanted: std::vec::IntoIter<WantedPart>,
    under_way: VecDeque<ScopedJoinHandle<'scope, Result<Vec<u8>, BackupError>>>,
    current: Vec<u8>,
    read: usize,
    failure: Option<BackupError>,
}

impl<'scope, 'env> PartReader<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        stored: StoredParts<'env>,
        missing: &Missing,
        threads: usize,
    ) -> PartReader<'scope, 'env> {
        let (wanted, read) = (missing.parts(stored.parts).into_iter(), 0);
        let (under_way, current) = (VecDeque::new(), Vec::new());
        PartReader { scope, stored, threads: threads.max(1), wanted, under_way, current, read, failure: None }
    }

    /// Why reading has failed, if it has.
    pub(super) fn take_failure(&mut self) -> Option<BackupError> {
        self.failure.take()
    }

    /// What is wanted of the next part; empty behind the last one.
    fn advance(&mut self) -> io::Result<()> {
        // What was read goes before others come.
        self.current = Vec::new();
        self.read = 0;
        while self.under_way.len() < self.threads
            && let Some(part) = self.wanted.next()
        {
            let stored = self.stored;
            self.under_way.push_back(self.scope.spawn(move || stored.fetch(&part)));
        }
        let Some(first) = self.under_way.pop_front() else { return Ok(()) };
        let fetched = first.join().map_err(|_| io::Error::other("a thread of the restore panicked"))?;
        self.current = fetched.map_err(|error| {
            let words = io::Error::other(error.to_string());
            self.failure = Some(error);
            words
        })?;
        Ok(())
    }
}

impl Read for PartReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.current.len() {
            self.advance()?;
        }
        let rest = &self.current[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_stream_is_cut_wherever_its_pieces_end() {
        let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for (part_bytes, piece_bytes) in [(1, 1), (7, 1000), (100, 3), (100, 250), (1000, 999), (2000, 64)] {
            let (sender, receiver) = sync_channel(content.len());
            let mut cutter = Cutter::new(part_bytes, sender);
            content.chunks(piece_bytes).for_each(|piece| cutter.take(piece).unwrap());
            cutter.finish().unwrap();
            let parts: Vec<Part> = receiver.into_iter().collect();
            let numbers: Vec<u32> = parts.iter().map(|part| part.number).collect();
            let expected = content.len().div_ceil(part_bytes);
            assert_eq!(numbers, (0..u32::try_from(expected).unwrap()).collect::<Vec<_>>());
            assert!(parts[..expected - 1].iter().all(|part| part.content.len() == part_bytes));
            assert_eq!(parts.into_iter().flat_map(|part| part.content).collect::<Vec<_>>(), content);
        }
    }

    #[test]
    fn the_first_part_comes_soon() {
        let (sender, receiver) = sync_channel(9);
        let mut cutter = Cutter::new(100_000, sender);
        cutter.take(&[7; 200_000]).unwrap();
        cutter.finish().unwrap();
        let lengths: Vec<usize> = receiver.into_iter().map(|part| part.content.len()).collect();
        assert_eq!(lengths, [65_536, 100_000, 34_464]);
    }

    #[test]
    fn a_cutter_that_nobody_takes_from_says_so() {
        let (sender, receiver) = sync_channel(1);
        drop(receiver);
        assert!(Cutter::new(4, sender).take(b"12345").is_err());
    }
}

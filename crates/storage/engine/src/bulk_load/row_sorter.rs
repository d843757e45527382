//! Sorting more rows than fit into memory: sorted runs in files, merged at the end. Of rows with one key the last one
//! added stays.
//!
//! ```text
//!   rows --> buffer --> run 0, run 1, run 2, run 3, run 4     in the order of their age
//!                       +------- into one --------+
//!                              run 5,           run 4         until so few are left that all can be read at once
//! ```
//! How many are read at once is bounded twice: by `RUNS_READ_MAX` files, and by the buffer's memory, which is not needed by
//! then. A file is open only while it is written or read.
//!
//! A run is rows end to end: key length u32, value length u32, key, value; integers little-endian. It is stored in pieces,
//! whose borders are anywhere:
//!
//! | offset | bytes | field    | meaning                                                                       |
//! |-------:|------:|----------|-------------------------------------------------------------------------------|
//! |      0 |     4 | length   | of what follows the envelope                                                  |
//! |      4 |     4 | checksum | CRC-32C of the place of the piece and of all of the piece, with zeros in      |
//! |        |       |          | place of the checksum                                                         |
//! |      8 |    40 | envelope | of an encrypted database: nonce and tag (XAES-256-GCM), the place of the      |
//! |        |       |          | piece as associated data; else zero                                           |
//! |     48 |       | rows     | encrypted in an encrypted database                                            |
//!
//! The place of a piece is its offset in the file (u64), then the path of the file in the database's directory.
//!
//! The rows of a run go into the tree, where they could not be distinguished any more from the ones that were given: those of
//! another run neither.
//!
//! Runs are scratch: they are removed when the sorter goes, and by the next open after a crash.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use seawall_codec::checksum::Crc32c;
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_keys::{Cipher, ENVELOPE_BYTES, Envelope};

use crate::error::Error;

/// Directory of the runs, and how their names begin.
pub(crate) const RUN_DIRECTORY: &str = "recovery";
pub(crate) const RUN_PREFIX: &str = "sort-";
/// A piece is written when it has so many bytes: it is a little longer, or as long as one row.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_HEADER_BYTES: usize = 8 + ENVELOPE_BYTES;
const CHECKSUM: Range<usize> = 4..8;
const LENGTHS_BYTES: usize = 8;
/// Files that are open at a time, at most.
const RUNS_READ_MAX: usize = 32;

/// Rows in memory: their bytes end to end, and where each begins.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// The key's first bytes as a number, and the offset of the row in `bytes`: later rows have greater offsets.
    index: Vec<(u64, usize)>,
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = key.len().min(8);
    head[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(head)
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("keys and values were checked against their limits")
}

fn parse_row(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let (lengths, rest) = bytes.split_first_chunk::<LENGTHS_BYTES>()?;
    let (key_bytes, value_bytes) = lengths.split_at(4);
    let length = |bytes: &[u8]| usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok();
    let (key_bytes, value_bytes) = (length(key_bytes)?, length(value_bytes)?);
    let (key, rest) = rest.split_at_checked(key_bytes)?;
    let (value, _) = rest.split_at_checked(value_bytes)?;
    Some((key, value, LENGTHS_BYTES + key_bytes + value_bytes))
}

impl Buffer {
    fn push(&mut self, head_skip: usize, key: &[u8], value: &[u8]) {
        self.index.push((head_of(key.get(head_skip..).unwrap_or_default()), self.bytes.len()));
        self.bytes.extend_from_slice(&length_u32(key.len()).to_le_bytes());
        self.bytes.extend_from_slice(&length_u32(value.len()).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn row(&self, offset: usize) -> (&[u8], &[u8]) {
        let (key, value, _) = parse_row(&self.bytes[offset..]).expect("`push` wrote a whole row");
        (key, value)
    }

    fn sort(&mut self) {
        let mut index = std::mem::take(&mut self.index);
        index.sort_unstable_by(|left, right| {
            let by_key = || self.row(left.1).0.cmp(self.row(right.1).0);
            left.0.cmp(&right.0).then_with(by_key).then(left.1.cmp(&right.1))
        });
        self.index = index;
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.index.len() * size_of::<(u64, usize)>()
    }
}

/// See the module.
pub(crate) struct RowSorter {
    disk: Arc<dyn Disk>,
    cipher: Option<Cipher>,
    name: String,
    buffer: Buffer,
    buffer_limit: usize,
    /// The oldest first.
    runs: Vec<Run>,
    /// Number of the next run: part of its name.
    next_run: u64,
    /// All keys begin with this many bytes that are the same.
    shared_bytes: usize,
}

struct Run {
    path: String,
    bytes: u64,
    /// Its longest piece.
    piece_bytes_max: usize,
}

impl RowSorter {
    /// A sorter that keeps about `buffer_limit` bytes in memory, and encrypts what it writes if there is a cipher. Keys share their first `shared_bytes` bytes.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        cipher: Option<Cipher>,
        name: &str,
        buffer_limit: usize,
        shared_bytes: usize,
    ) -> RowSorter {
        RowSorter {
            disk,
            cipher,
            name: name.to_owned(),
            buffer: Buffer::default(),
            buffer_limit,
            runs: Vec::new(),
            next_run: 0,
            shared_bytes,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.buffer.push(self.shared_bytes, key, value);
        if self.buffer.memory() >= self.buffer_limit { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.buffer.sort();
        let buffer = std::mem::take(&mut self.buffer);
        let place = self.runs.len();
        self.write_run(place, |_, writer| {
            buffer.index.iter().try_for_each(|(_, start)| {
                let (_, _, length) = parse_row(&buffer.bytes[*start..]).expect("`push` wrote a whole row");
                writer.append(&buffer.bytes[*start..*start + length])
            })
        })
    }

    /// Puts a run that `write` writes at a place among the others.
    fn write_run(
        &mut self,
        place: usize,
        write: impl FnOnce(&RowSorter, &mut RunWriter<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = format!("{RUN_DIRECTORY}/{RUN_PREFIX}{}-{}", self.name, self.next_run);
        self.next_run += 1;
        let file = self.disk.open(&path, OpenMode::Create).map_err(|error| Error::io(&error))?;
        let mut writer = RunWriter::new(&*file, &path, self.cipher.as_ref());
        // Entered first, so that a failure below removes the file too.
        self.runs.insert(place, Run { path, bytes: 0, piece_bytes_max: 0 });
        write(self, &mut writer)?;
        let (bytes, piece_bytes_max) = writer.finish()?;
        let run = &mut self.runs[place];
        (run.bytes, run.piece_bytes_max) = (bytes, piece_bytes_max);
        Ok(())
    }

    /// How many of the runs from `first` on can be read at once: at least two.
    fn readable(&self, first: usize) -> usize {
        let mut bytes = 0_usize;
        let fits = |run: &&Run| {
            // A reader has a piece, and of the one before what is left of a row.
            bytes = bytes.saturating_add(run.piece_bytes_max.saturating_mul(2));
            bytes <= self.buffer_limit
        };
        let runs = &self.runs[first..];
        runs.iter().take_while(fits).count().clamp(2, RUNS_READ_MAX).min(runs.len())
    }

    /// Merges neighbouring runs into one until all can be read at once.
    fn merge_surplus(&mut self) -> Result<(), Error> {
        let mut first = 0;
        while self.readable(0) < self.runs.len() {
            if first + 1 >= self.runs.len() {
                first = 0;
            }
            // No more than needed: each row that is merged here is written once more.
            let surplus = self.runs.len() - self.readable(0) + 1;
            let count = self.readable(first).min(surplus.max(2));
            let merged = first..first + count;
            self.write_run(merged.end, |sorter, writer| {
                merge_runs(sorter, &sorter.runs[merged.clone()], |key, value| writer.append_row(key, value))
            })?;
            self.runs.drain(merged).for_each(|run| remove_scratch(&*self.disk, &run));
            first += 1;
        }
        Ok(())
    }

    /// Gives all rows in order to `take`, of each key the last one added.
    pub(crate) fn drain(mut self, take: impl FnMut(&[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.buffer.sort();
        if self.runs.is_empty() {
            return drain_buffer(&self.buffer, take);
        }
        self.spill()?;
        self.merge_surplus()?;
        merge_runs(&self, &self.runs, take)
    }
}

/// Gives all rows of `runs`, the oldest run first, to `take`: in order, of each key the last one added.
fn merge_runs(
    sorter: &RowSorter,
    runs: &[Run],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let readers = runs.iter().map(|run| RunReader::new(&*sorter.disk, run, sorter.cipher.as_ref()));
    let mut readers = readers.collect::<Result<Vec<_>, _>>()?;
    let mut heap: BinaryHeap<_> = BinaryHeap::new();
    for (index, reader) in readers.iter().enumerate() {
        if let Some(key) = reader.key() {
            heap.push(Reverse((key.to_vec(), Reverse(index))));
        }
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(Reverse((mut key, Reverse(index)))) = heap.pop() {
        let reader = &mut readers[index];
        // Of equal keys the one from the latest run comes first, and within a run the last row of a key.
        reader.skip_to_last_of_key()?;
        if last.as_ref() != Some(&key) {
            let (_, value) = reader.row().expect("a reader in the heap stands at a row");
            take(&key, value)?;
            last.get_or_insert_default().clone_from(&key);
        }
        reader.advance()?;
        if let Some(next) = reader.key() {
            key.clear();
            key.extend_from_slice(next);
            heap.push(Reverse((key, Reverse(index))));
        }
    }
    Ok(())
}

fn remove_scratch(disk: &dyn Disk, run: &Run) {
    if let Err(error) = disk.remove(&run.path) {
        tracing::warn!(%error, "scratch file not removed; the next open does");
    }
}

fn drain_buffer(
    buffer: &Buffer,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut rows = buffer.index.iter().map(|(_, offset)| buffer.row(*offset)).peekable();
    while let Some((key, value)) = rows.next() {
        if rows.peek().is_none_or(|(next, _)| *next != key) {
            take(key, value)?;
        }
    }
    Ok(())
}

/// Writes a run, piece by piece.
struct RunWriter<'a> {
    file: &'a dyn DiskFile,
    cipher: Option<&'a Cipher>,
    place: Place,
    /// Room for the header, then rows.
    piece: Vec<u8>,
    offset: u64,
    piece_bytes_max: usize,
}

impl<'a> RunWriter<'a> {
    fn new(file: &'a dyn DiskFile, path: &str, cipher: Option<&'a Cipher>) -> RunWriter<'a> {
        let (place, piece) = (Place::in_file(path), vec![0; PIECE_HEADER_BYTES]);
        RunWriter { file, cipher, place, piece, offset: 0, piece_bytes_max: 0 }
    }

    fn append_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.piece.extend_from_slice(&length_u32(key.len()).to_le_bytes());
        self.piece.extend_from_slice(&length_u32(value.len()).to_le_bytes());
        self.piece.extend_from_slice(key);
        self.append(value)
    }

    /// Appends the bytes of a row, or the rest of them.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), Error> {
        let place = self.place.at(self.offset);
        let (header, rows) = self.piece.split_at_mut(PIECE_HEADER_BYTES);
        header[..4].copy_from_slice(&length_u32(rows.len()).to_le_bytes());
        if let Some(cipher) = self.cipher {
            let envelope = cipher.encrypt(place, rows);
            header[CHECKSUM.end..].copy_from_slice(&envelope.to_bytes());
        }
        header[CHECKSUM].fill(0);
        let checksum = checksum_of(place, header, rows);
        header[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all_at(&self.piece, self.offset).map_err(|error| Error::io(&error))?;
        self.offset += length_u64(self.piece.len());
        self.piece_bytes_max = self.piece_bytes_max.max(self.piece.len());
        self.piece.truncate(PIECE_HEADER_BYTES);
        Ok(())
    }

    /// Bytes of the whole run, and of its longest piece.
    fn finish(mut self) -> Result<(u64, usize), Error> {
        if self.piece.len() > PIECE_HEADER_BYTES {
            self.write_out()?;
        }
        Ok((self.offset, self.piece_bytes_max))
    }
}

/// Where a piece is: see the module.
struct Place(Vec<u8>);

impl Place {
    fn in_file(path: &str) -> Place {
        Place([&[0; 8], path.as_bytes()].concat())
    }

    /// The place of the piece at `offset`.
    fn at(&mut self, offset: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&offset.to_le_bytes());
        &self.0
    }
}

/// The checksum of a piece, computed with zeros in the checksum field of the header.
fn checksum_of(place: &[u8], header: &[u8], rows: &[u8]) -> u32 {
    let mut checksum = Crc32c::new();
    checksum.update(place);
    checksum.update(header);
    checksum.update(rows);
    checksum.finish()
}

fn length_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a buffer's length fits into 64 bits")
}

impl Drop for RowSorter {
    fn drop(&mut self) {
        self.runs.iter().for_each(|run| remove_scratch(&*self.disk, run));
    }
}

/// Reads a run forwards.
struct RunReader<'a> {
    run: &'a Run,
    file: Arc<dyn DiskFile>,
    cipher: Option<&'a Cipher>,
    place: Place,
    /// Rows of the pieces read so far.
    buffer: Vec<u8>,
    position: usize,
    /// Offset in the file of the next piece.
    next: u64,
}

impl<'a> RunReader<'a> {
    fn new(disk: &dyn Disk, run: &'a Run, cipher: Option<&'a Cipher>) -> Result<RunReader<'a>, Error> {
        let file = disk.open(&run.path, OpenMode::Read).map_err(|error| Error::io(&error))?;
        let place = Place::in_file(&run.path);
        let mut reader = RunReader { run, file, cipher, place, buffer: Vec::new(), position: 0, next: 0 };
        reader.fill()?;
        Ok(reader)
    }

    /// Reads on until a whole row is there, or the run ends.
    fn fill(&mut self) -> Result<(), Error> {
        while self.row().is_none() && self.next < self.run.bytes {
            self.buffer.drain(..self.position);
            self.position = 0;
            self.read_piece()?;
        }
        Ok(())
    }

    fn read_piece(&mut self) -> Result<(), Error> {
        let mut header = [0; PIECE_HEADER_BYTES];
        let read = self.file.read_exact_at(&mut header, self.next);
        read.map_err(|error| Error::io(&error))?;
        let [a, b, c, d, e, f, g, h, envelope @ ..] = header;
        let rows_at = self.next + length_u64(PIECE_HEADER_BYTES);
        let end = rows_at.saturating_add(u64::from(u32::from_le_bytes([a, b, c, d])));
        if end > self.run.bytes {
            return Err(self.changed());
        }
        let kept = self.buffer.len();
        let bytes = usize::try_from(end - rows_at).map_err(|_| self.changed())?;
        self.buffer.resize(kept + bytes, 0);
        let rows = &mut self.buffer[kept..];
        self.file.read_exact_at(rows, rows_at).map_err(|error| Error::io(&error))?;
        header[CHECKSUM].fill(0);
        let place = self.place.at(self.next);
        if checksum_of(place, &header, rows) != u32::from_le_bytes([e, f, g, h]) {
            return Err(self.changed());
        }
        if let Some(cipher) = self.cipher {
            let envelope = Envelope::from_bytes(&envelope);
            let decrypted = cipher.decrypt(&envelope, place, rows);
            decrypted.map_err(|_| self.changed())?;
        }
        self.next = end;
        Ok(())
    }

    fn changed(&self) -> Error {
        let message =
            format!("{} at offset {} is not what was written: run the load again", self.run.path, self.next);
        Error::Io { message }
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        parse_row(&self.buffer[self.position..]).map(|(key, value, _)| (key, value))
    }

    fn key(&self) -> Option<&[u8]> {
        self.row().map(|(key, _)| key)
    }

    fn advance(&mut self) -> Result<(), Error> {
        if let Some((_, _, length)) = parse_row(&self.buffer[self.position..]) {
            self.position += length;
        }
        self.fill()
    }

    /// Rows of one key stand in the order in which they were added.
    fn skip_to_last_of_key(&mut self) -> Result<(), Error> {
        loop {
            let Some((key, _, length)) = parse_row(&self.buffer[self.position..]) else { return Ok(()) };
            match parse_row(&self.buffer[self.position + length..]) {
                Some((next, _, _)) if next == key => self.position += length,
                Some(_) => return Ok(()),
                None if self.next >= self.run.bytes => return Ok(()),
                None => {
                    // The next row is not read yet: look at it behind this one.
                    let current = self.buffer[self.position..self.position + length].to_vec();
                    self.position += length;
                    self.fill()?;
                    let same = self
                        .key()
                        .is_some_and(|next| parse_row(&current).is_some_and(|(key, _, _)| next == key));
                    if !same {
                        self.buffer.splice(..self.position, current);
                        self.position = 0;
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_keys::{DatabaseKeys, Purpose, SecretKey};
    use seawall_simulation::{SeededRandom, SimulatedDisk, SimulatedRandom};
    use seawall_types::DatabaseId;
    use std::collections::BTreeMap;

    fn cipher() -> Cipher {
        let (disk, master) = (SimulatedDisk::new(1), SecretKey::from_bytes([1; 32]));
        let random = Arc::new(SimulatedRandom::new(1));
        let keys = DatabaseKeys::create(&disk, DatabaseId::from_bytes([1; 16]), &master, random).unwrap();
        keys.cipher(Purpose::Spill)
    }

    fn sorted(seed: u64, buffer_limit: usize, cipher: Option<&Cipher>) {
        let disk = Arc::new(SimulatedDisk::new(seed));
        disk.create_directory(RUN_DIRECTORY).unwrap();
        let shared: Arc<dyn Disk> = disk.clone();
        let mut sorter = RowSorter::new(shared, cipher.cloned(), "test", buffer_limit, 2);
        let mut random = SeededRandom::new(seed);
        let mut model = BTreeMap::new();
        for _ in 0..3000 {
            let mut key = b"ab".to_vec();
            let length = random.index(12);
            key.extend(random.bytes(length).iter().map(|byte| byte % 3));
            let length = random.index(40);
            let value = random.bytes(length);
            sorter.add(&key, &value).unwrap();
            model.insert(key, value);
        }
        let mut rows = Vec::new();
        sorter
            .drain(|key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
        assert!(disk.list(RUN_DIRECTORY).unwrap().is_empty(), "scratch files are left");
    }

    #[test]
    fn rows_come_out_in_order_with_the_last_value_of_each_key() {
        for seed in 0..5 {
            sorted(seed, usize::MAX, None);
            sorted(seed, 20_000, None);
            sorted(seed, 200, None);
            sorted(seed, 20_000, Some(&cipher()));
        }
    }

    /// Files of this process that are open in a directory.
    #[cfg(target_os = "linux")]
    fn open_files(directory: &std::path::Path) -> usize {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets =
            descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(directory)).count()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn however_many_runs_there_are_few_files_are_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(seawall_io::OsDisk::new(&path));
        disk.create_directory(RUN_DIRECTORY).unwrap();
        // A row of the middle size fills the buffer, so that each has a run of its own.
        let mut sorter = RowSorter::new(disk, None, "test", 40_000, 0);
        let key_of = |number: u32| (number.wrapping_mul(0x9E37_79B9) >> 4).to_be_bytes();
        for number in 0..1500 {
            sorter.add(&key_of(number % 1000), &vec![u8::try_from(number / 1000).unwrap(); 13_000]).unwrap();
            assert_eq!(open_files(&path), 0);
        }
        assert!(sorter.runs.len() > 300);
        let mut last = None;
        let mut count = 0;
        sorter
            .drain(|key, value| {
                assert!(open_files(&path) <= RUNS_READ_MAX);
                let number = (0..1000).find(|number| key_of(*number) == *key).unwrap();
                assert_eq!(value[0], u8::from(number < 500), "the last one added stays");
                assert!(last.replace(key.to_vec()).is_none_or(|last| last[..] < *key));
                count += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((count, open_files(&path)), (1000, 0));
        assert!(
            std::fs::read_dir(path.join(RUN_DIRECTORY)).unwrap().next().is_none(),
            "scratch files are left"
        );
    }

    #[test]
    fn a_merge_of_long_rows_reads_no_more_runs_at_once_than_fit_into_the_buffer() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
        disk.create_directory(RUN_DIRECTORY).unwrap();
        let mut sorter = RowSorter::new(disk, None, "test", 64 << 10, 0);
        for number in 0..20_u8 {
            sorter.add(&[number], &[number; 40 << 10]).unwrap();
            sorter.spill().unwrap();
        }
        assert_eq!(sorter.readable(0), 2);
        sorter.merge_surplus().unwrap();
        assert_eq!(sorter.runs.len(), 2);
    }

    #[test]
    fn an_encrypted_run_shows_nothing_and_no_change_of_any_goes_unnoticed() {
        let needle = b"value that nobody may read";
        for cipher in [None, Some(cipher())] {
            let disk = Arc::new(SimulatedDisk::new(1));
            disk.create_directory(RUN_DIRECTORY).unwrap();
            let shared: Arc<dyn Disk> = disk.clone();
            let mut sorter = RowSorter::new(shared, cipher.clone(), "test", usize::MAX, 2);
            for number in 0..100_u8 {
                sorter.add(&[0, 0, number], needle).unwrap();
            }
            sorter.spill().unwrap();
            let run = &sorter.runs[0];
            let bytes = disk.read_file(&run.path).unwrap();
            let is_found = bytes.windows(needle.len()).any(|window| window == needle);
            assert_eq!(is_found, cipher.is_none());
            let cipher = cipher.as_ref();
            assert!(RunReader::new(&*disk, run, cipher).unwrap().row().is_some());
            let file = disk.open(&run.path, OpenMode::Write).unwrap();
            for bit in (0..8 * bytes.len() as u64).step_by(13) {
                let byte = bytes[usize::try_from(bit / 8).unwrap()];
                file.write_all_at(&[byte ^ 1 << (bit % 8)], bit / 8).unwrap();
                let error = RunReader::new(&*disk, run, cipher).err().unwrap();
                assert!(matches!(error, Error::Io { .. }), "bit {bit}: {error}");
                file.write_all_at(&[byte], bit / 8).unwrap();
            }
        }
    }

    #[test]
    fn a_piece_of_another_run_does_not_pass_for_one_of_this() {
        for cipher in [None, Some(cipher())] {
            let disk = Arc::new(SimulatedDisk::new(1));
            disk.create_directory(RUN_DIRECTORY).unwrap();
            let sorter_of = |name, value: &[u8]| {
                let shared: Arc<dyn Disk> = disk.clone();
                let mut sorter = RowSorter::new(shared, cipher.clone(), name, usize::MAX, 2);
                for _ in 0..2 {
                    (0..100_u8).for_each(|number| sorter.add(&[0, 0, number], value).unwrap());
                    sorter.spill().unwrap();
                }
                sorter
            };
            let (one, other) = (sorter_of("one", b"value"), sorter_of("other", b"VALUE"));
            let run = &one.runs[0];
            let own = disk.read_file(&run.path).unwrap();
            for foreign in [&one.runs[1], &other.runs[0]] {
                disk.overwrite(&run.path, 0, &disk.read_file(&foreign.path).unwrap());
                let error = RunReader::new(&*disk, run, cipher.as_ref()).err();
                assert!(
                    matches!(error, Some(Error::Io { .. })),
                    "{} was taken for {}",
                    foreign.path,
                    run.path
                );
            }
            disk.overwrite(&run.path, 0, &own);
            assert!(RunReader::new(&*disk, run, cipher.as_ref()).unwrap().row().is_some());
        }
    }
}

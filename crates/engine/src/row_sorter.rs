//! Sorting more rows than fit into memory: sorted runs in files, merged at the end. Of rows with one key the last one
//! added stays.
//!
//! A run is rows end to end: key length u32, value length u32, key, value; integers little-endian. It is stored in pieces,
//! whose borders are anywhere:
//!
//! | offset | bytes | field    | meaning                                                                       |
//! |-------:|------:|----------|-------------------------------------------------------------------------------|
//! |      0 |     4 | length   | of what follows the envelope                                                  |
//! |      4 |     4 | checksum | CRC-32C of the offset of the piece in the file (u64) and of all of the piece,  |
//! |        |       |          | with zeros in place of the checksum                                           |
//! |      8 |    40 | envelope | of an encrypted database: nonce and tag (XAES-256-GCM), the offset of the     |
//! |        |       |          | piece in the file as associated data; else zero                               |
//! |     48 |       | rows     | encrypted in an encrypted database                                            |
//!
//! The rows of a run go into the tree, where nobody could tell any more that they are not the ones that were given.
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
    runs: Vec<Run>,
    /// All keys begin with this many bytes that are the same.
    shared_bytes: usize,
}

struct Run {
    path: String,
    file: Arc<dyn DiskFile>,
    bytes: u64,
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
            shared_bytes,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.buffer.push(self.shared_bytes, key, value);
        if self.buffer.memory() >= self.buffer_limit { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.buffer.sort();
        let path = format!("{RUN_DIRECTORY}/{RUN_PREFIX}{}-{}", self.name, self.runs.len());
        let file = self.disk.open(&path, OpenMode::Create).map_err(|error| Error::io(&error))?;
        // Entered first, so that a failure below removes the file too.
        self.runs.push(Run { path, file: Arc::clone(&file), bytes: 0 });
        let mut writer = RunWriter::new(&*file, self.cipher.as_ref());
        for (_, start) in &self.buffer.index {
            let (_, _, length) = parse_row(&self.buffer.bytes[*start..]).expect("`push` wrote a whole row");
            writer.append(&self.buffer.bytes[*start..*start + length])?;
        }
        let offset = writer.finish()?;
        self.runs.last_mut().expect("entered above").bytes = offset;
        self.buffer = Buffer::default();
        Ok(())
    }

    /// Gives all rows in order to `take`, of each key the last one added.
    pub(crate) fn drain(
        mut self,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.buffer.sort();
        if self.runs.is_empty() {
            return drain_buffer(&self.buffer, take);
        }
        self.spill()?;
        let cipher = self.cipher.as_ref();
        let readers = self.runs.iter().map(|run| RunReader::new(run, cipher));
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
            if last.as_deref() != Some(&key[..]) {
                let (key, value) = reader.row().expect("a reader in the heap stands at a row");
                take(key, value)?;
                last.get_or_insert_default().clone_from(&key.to_vec());
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
    /// Room for the header, then rows.
    piece: Vec<u8>,
    offset: u64,
}

impl<'a> RunWriter<'a> {
    fn new(file: &'a dyn DiskFile, cipher: Option<&'a Cipher>) -> RunWriter<'a> {
        RunWriter { file, cipher, piece: vec![0; PIECE_HEADER_BYTES], offset: 0 }
    }

    fn append(&mut self, row: &[u8]) -> Result<(), Error> {
        self.piece.extend_from_slice(row);
        if self.piece.len() >= PIECE_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), Error> {
        let (header, rows) = self.piece.split_at_mut(PIECE_HEADER_BYTES);
        header[..4].copy_from_slice(&length_u32(rows.len()).to_le_bytes());
        if let Some(cipher) = self.cipher {
            let envelope = cipher.encrypt(&self.offset.to_le_bytes(), rows);
            header[CHECKSUM.end..].copy_from_slice(&envelope.to_bytes());
        }
        header[CHECKSUM].fill(0);
        let checksum = checksum_of(self.offset, header, rows);
        header[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all_at(&self.piece, self.offset).map_err(|error| Error::io(&error))?;
        self.offset += length_u64(self.piece.len());
        self.piece.truncate(PIECE_HEADER_BYTES);
        Ok(())
    }

    /// Bytes of the whole run.
    fn finish(mut self) -> Result<u64, Error> {
        if self.piece.len() > PIECE_HEADER_BYTES {
            self.write_out()?;
        }
        Ok(self.offset)
    }
}

/// Of a piece at `offset`, whose header has zeros for a checksum.
fn checksum_of(offset: u64, header: &[u8], rows: &[u8]) -> u32 {
    let mut checksum = Crc32c::new();
    checksum.update(&offset.to_le_bytes());
    checksum.update(header);
    checksum.update(rows);
    checksum.finish()
}

fn length_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a buffer's length fits into 64 bits")
}

impl Drop for RowSorter {
    fn drop(&mut self) {
        for run in &self.runs {
            if let Err(error) = self.disk.remove(&run.path) {
                tracing::warn!(%error, "scratch file not removed; the next open does");
            }
        }
    }
}

/// Reads a run forwards.
struct RunReader<'a> {
    run: &'a Run,
    cipher: Option<&'a Cipher>,
    /// Rows of the pieces read so far.
    buffer: Vec<u8>,
    position: usize,
    /// Offset in the file of the next piece.
    next: u64,
}

impl<'a> RunReader<'a> {
    fn new(run: &'a Run, cipher: Option<&'a Cipher>) -> Result<RunReader<'a>, Error> {
        let mut reader = RunReader { run, cipher, buffer: Vec::new(), position: 0, next: 0 };
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
        let read = self.run.file.read_exact_at(&mut header, self.next);
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
        self.run.file.read_exact_at(rows, rows_at).map_err(|error| Error::io(&error))?;
        header[CHECKSUM].fill(0);
        if checksum_of(self.next, &header, rows) != u32::from_le_bytes([e, f, g, h]) {
            return Err(self.changed());
        }
        if let Some(cipher) = self.cipher {
            let envelope = Envelope::from_bytes(&envelope);
            let decrypted = cipher.decrypt(&envelope, &self.next.to_le_bytes(), rows);
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
            assert!(RunReader::new(run, cipher).unwrap().row().is_some());
            for bit in (0..8 * bytes.len() as u64).step_by(13) {
                let byte = bytes[usize::try_from(bit / 8).unwrap()];
                run.file.write_all_at(&[byte ^ 1 << (bit % 8)], bit / 8).unwrap();
                let error = RunReader::new(run, cipher).err().unwrap();
                assert!(matches!(error, Error::Io { .. }), "bit {bit}: {error}");
                run.file.write_all_at(&[byte], bit / 8).unwrap();
            }
        }
    }
}

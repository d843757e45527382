//! Writes a log as PostgreSQL does, for tests: pages, records that go on over pages and segments, switches.

use seawall_codec::checksum::Crc32c;

/// A log that grows at its end.
pub(crate) struct PostgreSqlLog {
    pub(crate) magic: u16,
    pub(crate) system: u64,
    pub(crate) timeline: u32,
    pub(crate) segment_bytes: usize,
    pub(crate) page_bytes: usize,
    /// LSN of the first byte of `bytes`, which begins a segment.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    previous: u64,
}

impl PostgreSqlLog {
    pub(crate) fn new(system: u64) -> PostgreSqlLog {
        PostgreSqlLog {
            magic: 0xD110,
            system,
            timeline: 1,
            segment_bytes: 1 << 20,
            page_bytes: 8192,
            start: 1 << 20,
            bytes: Vec::new(),
            previous: 0,
        }
    }

    fn lsn(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The header of a page on which `left` bytes of a record go on.
    pub(crate) fn page_header(&mut self, left: usize, flags: u16) {
        let is_first = self.bytes.len().is_multiple_of(self.segment_bytes);
        let info = flags | u16::from(left > 0) | if is_first { 2 } else { 0 };
        let address = self.lsn();
        self.bytes.extend_from_slice(&self.magic.to_le_bytes());
        self.bytes.extend_from_slice(&info.to_le_bytes());
        self.bytes.extend_from_slice(&self.timeline.to_le_bytes());
        self.bytes.extend_from_slice(&address.to_le_bytes());
        self.bytes.extend_from_slice(&u32::try_from(left).expect("short").to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        if is_first {
            self.bytes.extend_from_slice(&self.system.to_le_bytes());
            self.bytes.extend_from_slice(&u32::try_from(self.segment_bytes).expect("short").to_le_bytes());
            self.bytes.extend_from_slice(&u32::try_from(self.page_bytes).expect("short").to_le_bytes());
        }
    }

    fn put(&mut self, mut record: &[u8]) {
        while !record.is_empty() {
            let used = self.bytes.len() % self.page_bytes;
            if used == 0 {
                self.page_header(record.len(), 0);
                continue;
            }
            let (here, rest) = record.split_at(record.len().min(self.page_bytes - used));
            self.bytes.extend_from_slice(here);
            record = rest;
        }
    }

    /// Where the next record begins.
    pub(crate) fn begin(&mut self) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        if self.bytes.len().is_multiple_of(self.page_bytes) {
            self.page_header(0, 0);
        }
        self.bytes.len()
    }

    /// Appends a record; returns the offset that it begins at.
    pub(crate) fn record(&mut self, manager: u8, info: u8, body: &[u8]) -> usize {
        let begin = self.begin();
        let length = u32::try_from(24 + body.len()).expect("short");
        let mut record = Vec::new();
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&7_u32.to_le_bytes());
        record.extend_from_slice(&self.previous.to_le_bytes());
        record.extend_from_slice(&[info, manager, 0, 0]);
        let mut checksum = Crc32c::new();
        checksum.update(body);
        checksum.update(&record);
        record.extend_from_slice(&checksum.finish().to_le_bytes());
        record.extend_from_slice(body);
        self.previous = self.lsn();
        self.put(&record);
        begin
    }

    /// Ends the segment, as `pg_switch_wal` does.
    pub(crate) fn switch(&mut self) -> usize {
        let begin = self.record(0, 0x40, &[]);
        self.bytes.resize(self.bytes.len().next_multiple_of(self.segment_bytes), 0);
        begin
    }

    /// Appends records of `body_bytes` until `count` segments are full. The last record goes on behind them.
    pub(crate) fn fill(&mut self, count: usize, body_bytes: usize) {
        let mut number = 0_u64;
        while self.bytes.len() < count * self.segment_bytes {
            let mut body = format!("INSERT row {number} ").repeat(body_bytes / 16 + 1).into_bytes();
            body.truncate(body_bytes);
            self.record(10, 0, &body);
            number += 1;
        }
    }

    /// The whole segment with this index.
    pub(crate) fn segment(&self, index: usize) -> Vec<u8> {
        self.bytes[index * self.segment_bytes..(index + 1) * self.segment_bytes].to_vec()
    }

    /// Its name.
    pub(crate) fn name(&self, index: usize) -> String {
        let start = self.start + (index * self.segment_bytes) as u64;
        let (high, low) = (start >> 32, start & 0xFFFF_FFFF);
        format!("{:08X}{high:08X}{:08X}", self.timeline, low / self.segment_bytes as u64)
    }
}

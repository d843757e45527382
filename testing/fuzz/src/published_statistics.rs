//! The file `statistics` of a database, whatever is in it: a reader gets figures, or nothing.

use std::sync::{Arc, LazyLock};

use seawall_codec::checksum::crc32c;
use seawall_engine::{
    Background, Database, DatabaseDirectory, Environment, MetricSample, Options, PublishedStatistics,
};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("published_statistics", published_statistics)];

const SLOT_BYTES: usize = 128 << 10;
const HEADER_BYTES: usize = 64;
const KIND: u32 = 0x5354_3101;

fn environment(disk: &SimulatedDisk) -> Environment {
    let clock = Arc::new(SimulatedClock::new(1_700_000_000_000_000));
    Environment { disk: Arc::new(disk.clone()), clock, random: Arc::new(SimulatedRandom::new(1)) }
}

/// A database that is closed, and its id.
static CLOSED: LazyLock<(SimulatedDisk, [u8; 16])> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    let database = Database::open(environment(&disk), options).expect("an empty disk takes a database");
    let id = *database.info().expect("an open database has an identity").database.as_bytes();
    database.close().expect("nothing has failed");
    (disk, id)
});

/// A slot as a publisher writes it, changed, its checksum made right or not.
fn slot(input: &mut Input<'_>, database: [u8; 16]) -> Vec<u8> {
    let choices = Choices::of(input);
    let (number, process, opened, published) = (input.u64(), 7_u64, 1_u64, 2_u64);
    let text_bytes = usize::from(input.u16());
    let text = input.take(text_bytes);
    let mut bytes = vec![0; 4];
    bytes.extend(KIND.to_le_bytes());
    bytes.extend(database);
    for field in [number, process, opened, published, text.len() as u64] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(text);
    let changes = input.take(usize::from(choices.number(2, 32)));
    mutate(&mut bytes, &mut Input::new(changes));
    if choices.has(0) {
        seal(&mut bytes);
    }
    if choices.has(1) {
        bytes.truncate(bytes.len() / 2);
    }
    bytes
}

/// Makes the checksum right, of as many bytes as the slot says that it has.
fn seal(bytes: &mut [u8]) {
    let length = bytes[56..HEADER_BYTES].try_into().map(u64::from_le_bytes).expect("eight bytes");
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(HEADER_BYTES));
    if let Some(sealed) = end.and_then(|end| bytes.get(4..end)) {
        let checksum = crc32c(sealed);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Two slots, or one: the statistics that are read are those of one of them, and their figures read the same when written again.
pub fn published_statistics(data: &[u8]) {
    let (closed, database) = &*CLOSED;
    let mut input = Input::new(data);
    let mut file = slot(&mut input, *database);
    if !input.is_empty() {
        file.resize(SLOT_BYTES, 0);
        file.extend(slot(&mut input, *database));
    }
    let disk = closed.copy();
    disk.write_file("statistics", &file);
    let read = DatabaseDirectory::at(environment(&disk)).published_statistics();
    let Some(published) = read.expect("only a superblock or a disk can refuse") else { return };
    assert!(!published.is_open, "no process has it open");
    assert_eq!(published.database.as_bytes(), database);
    let text = published.open_metrics.as_bytes();
    let is_at = |slot: usize| file.get(slot + HEADER_BYTES..).is_some_and(|rest| rest.starts_with(text));
    assert!(is_at(0) || is_at(SLOT_BYTES), "no slot says {:?}", published.open_metrics);
    if let Ok(samples) = published.samples() {
        let again: String = samples.iter().map(line).collect();
        let again = PublishedStatistics { open_metrics: again, ..published };
        assert_eq!(again.samples().as_ref(), Ok(&samples));
    }
}

/// A figure as a line of OpenMetrics text.
fn line(sample: &MetricSample) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = sample.labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text)));
    let labels = labels.collect::<Vec<_>>().join(",");
    let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
    format!("{}{labels} {}\n", sample.name, sample.value)
}

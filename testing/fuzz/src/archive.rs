//! Objects of an archive, and the files that are put there.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use seawall_archive::{
    Compression, Expected, Header, Packer, Packing, System, UnpackError, Unpacker, identify,
};
use seawall_codec::checksum::crc32c;
use seawall_io::Disk;
use seawall_keys::RepositoryKey;
use seawall_simulation::{SimulatedDisk, SimulatedRandom};
use seawall_types::{DatabaseId, TimelineId};
use seawall_wal::{CommitBuilder, Log, LogOptions};

use crate::input::{Choices, Entries, Input, mutate};

#[path = "../../../crates/archive/repository/tests/common/postgresql_log.rs"]
mod postgresql_log;
use postgresql_log::PostgreSqlLog;

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[
    ("archive_object", archive_object),
    ("archive_segment", archive_segment),
    ("archive_text", archive_text),
];

const SYSTEM: System = System::PostgreSql(7);
const HISTORY: &[u8] = b"1\t0/3000158\tno recovery target specified\n";

fn key() -> RepositoryKey {
    RepositoryKey::draw(Arc::new(SimulatedRandom::new(1)), 1)
}

/// An object with changed bytes, checksums of header and frames made right or not: what comes out whole of an encrypted object
/// is what went in.
pub fn archive_object(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let compression =
        [Compression::None, Compression::Lz4, Compression::Zstd][usize::from(choices.number(0, 3))];
    let is_encrypted = choices.has(7);
    let content = HISTORY.repeat(1 + usize::from(choices.number(2, 8)) * 5);
    let expected = Expected { system: Some(SYSTEM), fork: None };
    let description = identify("00000002.history", HISTORY, &expected).expect("it is a history");
    let keys: Vec<RepositoryKey> = is_encrypted.then(key).into_iter().collect();
    let packing = Packing { compression, zstd_level: 1 };
    let sealed = Packer::new(packing).pack(description.header(1), &content).seal(keys.first());
    let mut object = sealed.pieces().concat();
    let before = object.clone();
    if choices.has(5) {
        let bytes = usize::from(input.u16()) % 2048;
        object.resize(bytes, 0);
    }
    let piece_bytes = usize::from(input.byte()) + 1;
    mutate(&mut object, &mut input);
    if choices.has(6) {
        reseal(&mut object);
    }
    let unpacked = unpack(&object, piece_bytes, &keys);
    match (unpacked, Header::decode(&object)) {
        (Ok(found), Ok(header)) => {
            assert_eq!(found.len() as u64, header.plain_bytes);
            assert!(found == content || !is_encrypted, "other content came out whole");
        }
        (Ok(_), Err(error)) => panic!("an object without a header came out whole: {error}"),
        (Err(error), _) => {
            assert!(!error.to_string().is_empty());
            assert!(object != before, "the object was not changed: {error}");
        }
    }
}

fn unpack(object: &[u8], piece_bytes: usize, keys: &[RepositoryKey]) -> Result<Vec<u8>, UnpackError> {
    let mut unpacker = Unpacker::new(keys);
    let mut content = Vec::new();
    for piece in object.chunks(piece_bytes) {
        unpacker.take::<UnpackError>(piece, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    unpacker.finish()?;
    Ok(content)
}

/// Makes the checksums of the header and of the first frame right.
fn reseal(object: &mut [u8]) {
    if object.len() >= 524 {
        let stored = u32::from_le_bytes([object[516], object[517], object[518], object[519]]) & 0x7FFF_FFFF;
        let end = 524_usize.saturating_add(usize::try_from(stored).unwrap_or(usize::MAX)).min(object.len());
        let covered = [&[0; 8][..], &object[512..520], &object[524..end]].concat();
        object[520..524].copy_from_slice(&crc32c(&covered).to_le_bytes());
    }
    if object.len() >= 512 {
        object[12..16].fill(0);
        let checksum = crc32c(&object[..512]);
        object[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The second segment of two kinds of PostgreSQL's log, one with a switch, and of Seawall's.
fn segments() -> &'static [(String, Vec<u8>)] {
    static SEGMENTS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    SEGMENTS.get_or_init(|| {
        let mut long = PostgreSqlLog::new(7);
        long.fill(2, 30_000);
        let mut switched = PostgreSqlLog::new(7);
        switched.fill(1, 100);
        switched.record(10, 0, b"a few more");
        switched.switch();
        let segment = |log: &PostgreSqlLog| (log.name(1), log.segment(1));
        vec![segment(&long), segment(&switched), seawall_segment()]
    })
}

fn seawall_segment() -> (String, Vec<u8>) {
    let disk = SimulatedDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let database = DatabaseId::from_bytes([9; 16]);
    let options = LogOptions {
        segment_bytes: 64 << 10,
        buffer_bytes: 256 << 10,
        ..LogOptions::new(database, TimelineId::FIRST)
    };
    let log = Log::create(shared, options).expect("an empty disk takes a log");
    for _ in 0..400 {
        let mut builder = CommitBuilder::new();
        builder.begin(0);
        builder.put(&[0, 0, 0, 0, 0, 0, 0, 9], &[7; 400]);
        let appended = log.append(builder.finish(), |_| Ok::<(), Infallible>(()));
        appended.expect("the disk is sound").expect("nobody refuses");
    }
    log.flush_until(log.appended()).expect("the disk is sound");
    let name = "000000010000000000000002".to_owned();
    let content = disk.read_file(&format!("log/{name}")).expect("the log is longer than a segment");
    (name, content)
}

/// A segment with changed bytes, at places all over it, or cut: an error, or a description that lies in the segment.
pub fn archive_segment(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let (name, content) = &segments()[usize::from(choices.number(0, 3))];
    let mut content = content.clone();
    if choices.has(5) {
        let bytes = input.below(content.len());
        content.truncate(bytes);
    }
    while !input.is_empty() && !content.is_empty() {
        let place = input.below(content.len());
        let patch = input.take(usize::from(choices.number(2, 8)) + 1);
        let end = (place + patch.len()).min(content.len());
        content[place..end].copy_from_slice(&patch[..end - place]);
    }
    for name in [name.clone(), format!("{name}.partial")] {
        match identify(&name, &content, &Expected::default()) {
            Ok(found) => {
                assert!(found.start <= found.end);
                assert!(found.end.get() - found.start.get() <= u64::from(found.segment_bytes));
                assert!(!found.ends_early || name.ends_with(".partial"));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Any name and any text: an error, or a description under that name.
pub fn archive_text(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let name_bytes = usize::from(choices.number(0, 64));
    let name = String::from_utf8_lossy(input.take(name_bytes)).into_owned();
    let known = ["00000002.history", "000000010000000000000002.00000028.backup", "000000010000000000000002"];
    let database = System::Seawall(DatabaseId::from_bytes([9; 16]));
    let content = input.rest();
    for name in known.into_iter().chain([name.as_str()]) {
        for system in [SYSTEM, database] {
            match identify(name, content, &Expected { system: Some(system), fork: None }) {
                Ok(found) => assert_eq!(found.name.to_string(), name),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    if let Ok(system) = name.parse::<System>() {
        assert_eq!(system.to_string(), name);
    }
    if let Ok(url) = name.parse::<seawall_archive::RepositoryUrl>() {
        assert_eq!(url.to_string(), name);
    }
}

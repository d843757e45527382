//! Backups: manifests, progress and runs of Seawall's own; manifests of PostgreSQL clusters.

use seawall_backup::{Manifest, PostgreSqlManifest, Progress, check_backup_run};
use seawall_codec::checksum::crc32c;

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[
    ("postgresql_manifest", postgresql_manifest),
    ("backup_manifest", backup_manifest),
    ("backup_progress", backup_progress),
    ("backup_run", backup_run),
];

const BACKUP_BASE: &str = "version 1\ndatabase 0123456789abcdef0123456789abcdef\ntimeline 1\npage_bytes 8192\nsegment_bytes 16777216\n\
    created -5\nredo_point 0/1A2B3C4\ncomplete_from 0/1A2B9F0\nin_doubt 0\nfirst_new_table 80\nloading 78,79\nparent a-1\n\
    goes_on_with b-2 4\nstarted 7\n";
const BACKUP_RUNS: &str = "run 0 12 1093 0f1e2d3c4b5a6978\nkept 1 814 60231 99aabbccddeeff00\nruns 2\n";

/// A text with changed bytes, and its checksum, made right or not.
fn changed_text(text: String, input: &mut Input<'_>) -> Vec<u8> {
    let choices = Choices::of(input);
    let mut text = text.into_bytes();
    mutate(&mut text, input);
    let checksum = if choices.has(0) { 7 } else { crc32c(&text) };
    text.extend_from_slice(format!("crc32c {checksum:08x}\n").as_bytes());
    text
}

/// A manifest with changed bytes: what is accepted reads the same when written again.
pub fn backup_manifest(data: &[u8]) {
    let own = "end 0/2B3C4D5\nnext_table 81\nended 8\nkeys 00ff\n";
    let text = format!("Seawall backup\n{BACKUP_BASE}{own}{BACKUP_RUNS}");
    if let Ok(manifest) = Manifest::decode(&changed_text(text, &mut Input::new(data))) {
        assert_eq!(Manifest::decode(manifest.encode().as_bytes()), Ok(manifest.clone()));
        assert!(manifest.rows() <= manifest.runs.iter().map(|run| run.rows).sum());
    }
}

/// A progress object with changed bytes: what is accepted reads the same when written again.
pub fn backup_progress(data: &[u8]) {
    let own = "stamp 0/2B3C4D5\nreached 00ff\n";
    let text = format!("Seawall backup progress\n{BACKUP_BASE}{own}{BACKUP_RUNS}");
    if let Ok(progress) = Progress::decode(&changed_text(text, &mut Input::new(data))) {
        assert_eq!(Progress::decode(progress.encode().as_bytes()), Ok(progress));
    }
}

/// A run with changed bytes: what is accepted has as many rows as it says, and each takes three bytes at least.
pub fn backup_run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut run = b"SWRUN\r\n\x1A\x01\0\0\0\x07\0\0\0".to_vec();
    run.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    run.extend_from_slice(b"\x00\x03\x02abc12\x02\x01\x00d\x00\x01\x01bx");
    let left = run.len().saturating_sub(usize::from(input.byte()));
    mutate(&mut run, &mut input);
    run.truncate(left);
    let bytes = run.len() as u64;
    if let Ok(rows) = check_backup_run(run, 7) {
        assert!(rows.saturating_mul(3) <= bytes, "{rows} rows in {bytes} bytes");
    }
}

const MANIFEST: &str = "Seawall backup of PostgreSQL\nversion 1\nsystem 7\nrelease 150014\ntimeline 1\nsegment_bytes 16777216\n\
    start 0/2000028\nend 0/2000138\nstarted 7\nended 8\nlabel a label\nfiles 2\nbytes 20\npart 0 16 0f1e2d3c4b5a6978\n\
    part 1 4 1122334455667788\nparts 2\n";

/// A manifest with changed bytes, checksum made right or not: what is accepted is written as the same bytes, but for zeros in
/// front of numbers and signs.
pub fn postgresql_manifest(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let mut text = MANIFEST.as_bytes().to_vec();
    mutate(&mut text, &mut input);
    let checksum = if choices.has(0) { 7 } else { crc32c(&text) };
    text.extend_from_slice(format!("crc32c {checksum:08x}\n").as_bytes());
    if let Ok(manifest) = PostgreSqlManifest::decode(&text) {
        let again = PostgreSqlManifest::decode(manifest.encode().as_bytes());
        let same = PostgreSqlManifest { label: manifest.label.replace(char::is_control, " "), ..manifest };
        assert_eq!(again, Ok(same));
    }
}

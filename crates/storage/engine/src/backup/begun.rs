//! The file `backups-begun`: the last backups that were begun of the database in this directory, and how far each has come. A text:
//!
//! ```text
//! Backups that were begun of this database
//! version 2
//! begun 0 20261122T031500.000000Z-0000000001A2B3C4 ended
//! begun 1 20261122T041500.000000Z-0000000001B2B3C4 7
//! begun 2 20261122T051500.000000Z-0000000001C2B3C4 begun
//! count 3
//! crc32c 1a2b3c4d
//! ```
//! How far is the number of its last progress object, `begun` before the first, or `ended`. A backup builds on no other than these, and on no
//! more of them than that. A directory that was put back from an older copy has the name and the timeline of the one that it replaces, and
//! another history; what was begun of that since is not in its file. A copy has what was begun before it was made, and not what the other
//! has begun since. A copy that was made while a backup was under way has it as far as it had come then: what was put up to there is as the
//! copy has it, too.
//!
//! **If the power goes** while something is noted, the file has it or not, as it is made under another name and renamed. It has it before the
//! repository has the object, and when all that is in the object was read and its log is durable: so an object that a copy has noted is of
//! the history that both share. Where the file is missing or damaged, nothing was begun here as far as anybody knows: the next backup is a full one.

use std::fmt;
use std::io::ErrorKind;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};

use crate::error::Error;

const PATH: &str = "backups-begun";
const SCRATCH_PATH: &str = "backups-begun.new";
const TITLE: &str = "Backups that were begun of this database";
const VERSION: u32 = 2;
const BEGUN: &str = "begun";
const ENDED: &str = "ended";
/// The oldest names give way: who builds on a backup builds on one of the last.
const NAMES_MAX: usize = 256;
const BYTES_MAX: u64 = 1 << 20;

/// How far a backup has come, as its directory knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackupReach {
    /// It has begun.
    Begun,
    /// It says how far it is for the time of this number.
    Progress(u32),
    /// All of it was read, and its log is durable.
    Ended,
}

/// A backup that was begun in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunBackup {
    /// Its name.
    pub name: String,
    /// How far it has come.
    pub reach: BackupReach,
}

impl BackupReach {
    fn parse(text: &str) -> Option<BackupReach> {
        match text {
            BEGUN => Some(BackupReach::Begun),
            ENDED => Some(BackupReach::Ended),
            number => {
                let parsed = BackupReach::Progress(number.parse().ok()?);
                (parsed.to_string() == number).then_some(parsed)
            }
        }
    }
}

impl fmt::Display for BackupReach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupReach::Begun => formatter.write_str(BEGUN),
            BackupReach::Progress(number) => write!(formatter, "{number}"),
            BackupReach::Ended => formatter.write_str(ENDED),
        }
    }
}

/// The backups, oldest first; none if the file is missing or cannot be read.
pub(super) fn read(disk: &dyn Disk) -> Result<Vec<BegunBackup>, Error> {
    let file = match disk.open(PATH, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(|error| Error::io(&error))?,
    };
    let bytes = file.length().map_err(|error| Error::io(&error))?.min(BYTES_MAX);
    let mut content = vec![0; usize::try_from(bytes).expect("a mebibyte")];
    file.read_exact_at(&mut content, 0).map_err(|error| Error::io(&error))?;
    Ok(decode(&content).unwrap_or_else(|problem| {
        tracing::warn!(problem, "{PATH} is damaged: the next backup builds on no other");
        Vec::new()
    }))
}

/// Notes how far a backup has come, durably.
pub(super) fn note(disk: &dyn Disk, name: &str, reach: BackupReach) -> Result<(), Error> {
    let mut backups = read(disk)?;
    match backups.iter_mut().find(|backup| backup.name == name) {
        Some(backup) => backup.reach = backup.reach.max(reach),
        None => backups.push(BegunBackup { name: name.to_owned(), reach }),
    }
    backups.drain(..backups.len().saturating_sub(NAMES_MAX));
    let write = || -> std::io::Result<()> {
        match disk.remove(SCRATCH_PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        let file = disk.open(SCRATCH_PATH, OpenMode::Create)?;
        file.write_all_at(encode(&backups).as_bytes(), 0)?;
        file.sync_data()?;
        disk.rename(SCRATCH_PATH, PATH)?;
        disk.sync_directory("")
    };
    write().map_err(|error| Error::io(&error))
}

fn encode(backups: &[BegunBackup]) -> String {
    let mut text = TextWriter::new(TITLE, VERSION);
    for (number, BegunBackup { name, reach }) in backups.iter().enumerate() {
        text.line("begun", &format_args!("{number} {name} {reach}"));
    }
    text.line("count", &backups.len());
    text.seal()
}

fn decode(bytes: &[u8]) -> Result<Vec<BegunBackup>, String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    let backup = |_, fields: &[&str]| match fields {
        [name, reach] => Some(BegunBackup { name: (*name).to_owned(), reach: BackupReach::parse(reach)? }),
        _ => None,
    };
    let backups = text.list(&["begun"], "count", backup)?;
    text.end()?;
    Ok(backups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedDisk;

    #[test]
    fn the_last_names_are_kept_and_every_changed_byte_is_noticed() {
        let disk = SimulatedDisk::new(1);
        disk.create_directory("").unwrap();
        assert!(read(&disk).unwrap().is_empty());
        for number in 0..NAMES_MAX + 2 {
            note(&disk, &format!("backup-{number}"), BackupReach::Begun).unwrap();
        }
        for reach in [BackupReach::Progress(0), BackupReach::Progress(12), BackupReach::Progress(3)] {
            note(&disk, "backup-2", reach).unwrap();
        }
        note(&disk, "backup-3", BackupReach::Ended).unwrap();
        let backups = read(&disk).unwrap();
        let reaches: Vec<BackupReach> = backups.iter().take(3).map(|backup| backup.reach).collect();
        assert_eq!((backups.len(), backups[0].name.as_str()), (NAMES_MAX, "backup-2"));
        assert_eq!(reaches, [BackupReach::Progress(12), BackupReach::Ended, BackupReach::Begun]);
        let text = encode(&backups[..3]).into_bytes();
        assert_eq!(decode(&text).unwrap(), backups[..3]);
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(decode(&other).is_err(), "byte {at}");
        }
    }
}

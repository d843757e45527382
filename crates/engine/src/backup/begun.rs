//! The file `backups-begun`: names of the last backups that were begun of the database in this directory. A text:
//!
//! ```text
//! Backups that were begun of this database
//! version 1
//! begun 0 20261122T031500.000000Z-0000000001A2B3C4
//! begun 1 20261122T041500.000000Z-0000000001B2B3C4
//! count 2
//! crc32c 1a2b3c4d
//! ```
//! A backup builds on no other than these. A directory that was put back from an older copy has the name and the timeline of the one
//! that it replaces, and another history; what was begun of that since is not in its file. A copy has what was begun before it was
//! made, and not what the other has begun since.
//!
//! **A copy that is made while a backup is under way** has the name of that, too, and what the backup reads after that moment is not its
//! history. A backup builds on such a one where the log of both is the same as far as the copy still has it (`seawall_backup`'s
//! `resume`), which the list cannot tell. So a copy of a directory gets a repository of its own, or its first backup is a full one.
//!
//! **If the power goes** while a name is added, the file has it or not, as it is made under another name and renamed. It has it before the
//! repository has anything of that backup. Where the file is missing or damaged, nothing was begun here as far as anybody knows: the next
//! backup is a full one.

use std::io::ErrorKind;

use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_io::{Disk, OpenMode};

use crate::error::Error;

const PATH: &str = "backups-begun";
const SCRATCH_PATH: &str = "backups-begun.new";
const TITLE: &str = "Backups that were begun of this database";
const VERSION: u32 = 1;
/// The oldest names give way: who builds on a backup builds on one of the last.
const NAMES_MAX: usize = 256;
const BYTES_MAX: u64 = 1 << 20;

/// The names, oldest first; none if the file is missing or cannot be read.
pub(super) fn read(disk: &dyn Disk) -> Result<Vec<String>, Error> {
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

/// Adds a name, durably.
pub(super) fn add(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    let mut names = read(disk)?;
    names.push(name.to_owned());
    names.drain(..names.len().saturating_sub(NAMES_MAX));
    let write = || -> std::io::Result<()> {
        match disk.remove(SCRATCH_PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        let file = disk.open(SCRATCH_PATH, OpenMode::Create)?;
        file.write_all_at(encode(&names).as_bytes(), 0)?;
        file.sync_data()?;
        disk.rename(SCRATCH_PATH, PATH)?;
        disk.sync_directory("")
    };
    write().map_err(|error| Error::io(&error))
}

fn encode(names: &[String]) -> String {
    let mut text = TextWriter::new(TITLE, VERSION);
    for (number, name) in names.iter().enumerate() {
        text.line("begun", &format_args!("{number} {name}"));
    }
    text.line("count", &names.len());
    text.seal()
}

fn decode(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    let name = |_, fields: &[&str]| match fields {
        [name] => Some((*name).to_owned()),
        _ => None,
    };
    let names = text.list(&["begun"], "count", name)?;
    text.end()?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedDisk;

    #[test]
    fn the_last_names_are_kept_and_every_changed_byte_is_noticed() {
        let disk = SimulatedDisk::new(1);
        disk.create_directory("").unwrap();
        assert_eq!(read(&disk).unwrap(), [""; 0]);
        for number in 0..NAMES_MAX + 2 {
            add(&disk, &format!("backup-{number}")).unwrap();
        }
        let names = read(&disk).unwrap();
        assert_eq!((names.len(), names[0].as_str()), (NAMES_MAX, "backup-2"));
        let text = encode(&names[..2]).into_bytes();
        assert_eq!(decode(&text).unwrap(), names[..2]);
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(decode(&other).is_err(), "byte {at}");
        }
    }
}

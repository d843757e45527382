//! The tar archive of a cluster's files, as `pg_basebackup` writes it, read from its beginning to its end: when a backup is taken,
//! to see that it is whole, and when it is restored.
//!
//! ```text
//!   backup_label, directories, files ..., global/pg_control, backup_manifest
//!        |                            |                            |
//!        where the log begins         length, CRC-32C   <--held against-- length, CRC-32C of each file; which log it needs
//! ```

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use seawall_codec::checksum::Crc32c;
use tar::EntryType;

use super::file_list::{FileList, FileSum};

/// PostgreSQL's own manifest.
pub(super) const FILE_LIST: &str = "backup_manifest";
/// A file list of a million files takes some 150 MiB.
const FILE_LIST_BYTES_MAX: u64 = 4 << 30;
/// Content is handed on in such pieces.
const PIECE_BYTES: usize = 1 << 20;

/// A member of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Below the data directory.
    pub(super) path: PathBuf,
    pub(super) is_directory: bool,
    /// Permissions.
    pub(super) mode: u32,
    /// Where its header begins in what is read.
    pub(super) position: u64,
}

/// Bytes of a member's header, and what a member is filled up to.
const BLOCK_BYTES: u64 = 512;

/// What a member takes in an archive.
pub(super) fn member_bytes(content_bytes: u64) -> u64 {
    content_bytes.div_ceil(BLOCK_BYTES).saturating_add(1).saturating_mul(BLOCK_BYTES)
}

/// Takes the members of an archive as they come.
pub(super) trait Receiver {
    /// A member begins.
    fn member(&mut self, member: &Member) -> io::Result<()>;
    /// More of its content, if it is a file.
    fn content(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// It is whole, and this is its content, if it is a file.
    fn member_ended(&mut self, sum: FileSum) -> io::Result<()>;
}

/// What was in an archive.
#[derive(Debug, Default)]
pub(super) struct Contents {
    files: HashMap<PathBuf, FileSum>,
    file_list: Option<Vec<u8>>,
}

impl Contents {
    /// What is known before an archive without these files is read.
    pub(super) fn knowing(files: HashMap<PathBuf, FileSum>) -> Contents {
        Contents { files, file_list: None }
    }

    /// How many files there are.
    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Holds what was read against PostgreSQL's own list, and returns that.
    pub(super) fn check(&self) -> Result<FileList, String> {
        let text = self.file_list.as_deref().ok_or_else(|| format!("it ends without a {FILE_LIST}"))?;
        let list = FileList::parse(text).map_err(|problem| format!("its {FILE_LIST} {problem}"))?;
        list.check(&self.files)?;
        Ok(list)
    }
}

/// Reads an archive to the end of `source`.
///
/// # Errors
/// Those of `source` and `receiver`, and `InvalidData` for what is no archive of a cluster.
pub(super) fn read_archive(source: impl Read, receiver: &mut dyn Receiver) -> io::Result<Contents> {
    read_rest(Contents::default(), source, receiver)
}

/// As [`read_archive`], of an archive without some of its members: `contents` has them.
///
/// # Errors
/// The same.
pub(super) fn read_rest(
    mut contents: Contents,
    source: impl Read,
    receiver: &mut dyn Receiver,
) -> io::Result<Contents> {
    let mut archive = tar::Archive::new(source);
    let mut piece = vec![0; PIECE_BYTES];
    // As they are: PostgreSQL's names are short, so headers that lengthen a name, and would be read as a whole, are of no archive of its.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let member = member_of(&entry)?;
        receiver.member(&member)?;
        let mut sum = FileSum { bytes: 0, checksum: 0 };
        if !member.is_directory {
            if contents.files.contains_key(&member.path) {
                return Err(invalid(format!("{} comes twice", member.path.display())));
            }
            let mut keep = if member.path == Path::new(FILE_LIST) { Some(Vec::new()) } else { None };
            sum = read_content(&mut entry, &mut piece, keep.as_mut(), receiver)?;
            match keep {
                Some(text) => contents.file_list = Some(text),
                None => {
                    contents.files.insert(member.path, sum);
                }
            }
        }
        receiver.member_ended(sum)?;
    }
    // What fills the last block up.
    let mut rest = archive.into_inner();
    while rest.read(&mut piece)? > 0 {}
    Ok(contents)
}

/// Reads what `pg_basebackup` writes as a tar archive to its end, and holds it against PostgreSQL's list of its files: how many files
/// there are.
///
/// # Errors
/// What is wrong with it, or why it cannot be read.
pub fn check_base_backup(source: impl Read) -> Result<u64, String> {
    let contents = read_archive(source, &mut Nobody).map_err(|error| error.to_string())?;
    contents.check()?;
    Ok(contents.files())
}

/// Needs no members.
pub(super) struct Nobody;

impl Receiver for Nobody {
    fn member(&mut self, _: &Member) -> io::Result<()> {
        Ok(())
    }
    fn content(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn member_ended(&mut self, _: FileSum) -> io::Result<()> {
        Ok(())
    }
}

fn read_content(
    entry: &mut tar::Entry<'_, impl Read>,
    piece: &mut [u8],
    mut keep: Option<&mut Vec<u8>>,
    receiver: &mut dyn Receiver,
) -> io::Result<FileSum> {
    let expected = entry.size();
    let (mut bytes, mut checksum) = (0, Crc32c::new());
    loop {
        let count = entry.read(piece)?;
        if count == 0 {
            break;
        }
        let content = &piece[..count];
        checksum.update(content);
        bytes += count as u64;
        receiver.content(content)?;
        if let Some(text) = keep.as_deref_mut() {
            if bytes > FILE_LIST_BYTES_MAX {
                return Err(invalid(format!("its {FILE_LIST} has more than {FILE_LIST_BYTES_MAX} bytes")));
            }
            text.extend_from_slice(content);
        }
    }
    if bytes != expected {
        return Err(invalid("it ends within a file".to_owned()));
    }
    Ok(FileSum { bytes, checksum: checksum.finish() })
}

fn member_of(entry: &tar::Entry<'_, impl Read>) -> io::Result<Member> {
    let header = entry.header();
    let bytes = entry.path_bytes();
    let path = Path::new(OsStr::from_bytes(&bytes));
    // PostgreSQL writes `./` before one directory, and a slash behind each.
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let below: PathBuf = names.collect();
    if below.as_os_str().is_empty() || bytes.contains(&0) || !path.components().all(is_below) {
        return Err(invalid(format!("{} does not lie in a data directory", path.display())));
    }
    let is_directory = match header.entry_type() {
        EntryType::Regular => false,
        EntryType::Directory => true,
        other => return Err(invalid(format!("{} is neither file nor directory: {other:?}", path.display()))),
    };
    Ok(Member { path: below, is_directory, mode: header.mode()?, position: entry.raw_header_position() })
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use seawall_codec::checksum::crc32c;
    use seawall_codec::hexadecimal::to_hexadecimal;

    /// An archive of files with PostgreSQL's list of them; `change` changes the list.
    pub(crate) fn archive_of(files: &[(&str, &[u8])], change: impl Fn(String) -> String) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut lines = Vec::new();
        let mut add = |path: &str, content: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            header.set_entry_type(if path.ends_with('/') {
                EntryType::Directory
            } else {
                EntryType::Regular
            });
            builder.append_data(&mut header, path, content).unwrap();
        };
        for (path, content) in files {
            add(path, content);
            if !path.ends_with('/') {
                let checksum = to_hexadecimal(&crc32c(content).to_le_bytes());
                lines.push(format!(
                    "{{ \"Path\": \"{path}\", \"Size\": {}, \"Last-Modified\": \"2026-11-22 05:38:59 GMT\", \
                     \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"{checksum}\" }}",
                    content.len()
                ));
            }
        }
        let list = format!(
            "{{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [\n{}\n],\n\"WAL-Ranges\": [\n\
             {{ \"Timeline\": 1, \"Start-LSN\": \"0/700028\", \"End-LSN\": \"0/700100\" }}\n],\n\
             \"Manifest-Checksum\": \"00\"}}\n",
            lines.join(",\n")
        );
        add(FILE_LIST, change(list).as_bytes());
        builder.into_inner().unwrap()
    }

    #[derive(Default)]
    struct Noted(Vec<(PathBuf, Vec<u8>)>);

    impl Receiver for Noted {
        fn member(&mut self, member: &Member) -> io::Result<()> {
            self.0.push((member.path.clone(), Vec::new()));
            Ok(())
        }
        fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.last_mut().unwrap().1.extend_from_slice(bytes);
            Ok(())
        }
        fn member_ended(&mut self, _: FileSum) -> io::Result<()> {
            Ok(())
        }
    }

    const FILES: &[(&str, &[u8])] = &[
        ("backup_label", b"START"),
        ("base/", b""),
        ("base/1", &[7; 9000]),
        ("global/pg_control", b"control"),
    ];

    #[test]
    fn members_come_in_order_and_are_held_against_the_list() {
        let mut noted = Noted::default();
        let contents = read_archive(&archive_of(FILES, |list| list)[..], &mut noted).unwrap();
        let list = contents.check().unwrap();
        assert_eq!((contents.files(), list.end_timeline().get()), (3, 1));
        assert_eq!((list.start().get(), list.end().get()), (0x70_0028, 0x70_0100));
        assert_eq!(noted.0.len(), 5);
        assert_eq!(noted.0[2], (PathBuf::from("base/1"), vec![7; 9000]));
    }

    #[test]
    fn whatever_is_not_as_listed_is_named() {
        for (change, expected) in [
            (("base/1\"", "base/2\""), "base/2"),
            (("\"Size\": 9000", "\"Size\": 9001"), "base/1"),
            (
                ("\"Path\": \"base/1\", \"Size\": 9000", "\"Path\": \"backup_label\", \"Size\": 5"),
                "backup_label",
            ),
            (("\"WAL-Ranges\"", "\"WAL\""), "WAL-Ranges"),
        ] {
            let archive = archive_of(FILES, |list| list.replace(change.0, change.1));
            let contents = read_archive(&archive[..], &mut Noted::default()).unwrap();
            let problem = contents.check().unwrap_err();
            assert!(problem.contains(expected), "{change:?}: {problem}");
        }
        // One bit of a file.
        let mut archive = archive_of(FILES, |list| list);
        let at = archive.iter().position(|byte| *byte == 7).unwrap();
        archive[at] ^= 1;
        let contents = read_archive(&archive[..], &mut Noted::default()).unwrap();
        assert!(contents.check().unwrap_err().contains("base/1"));
    }

    #[test]
    fn an_archive_that_ends_early_is_noticed() {
        let archive = archive_of(FILES, |list| list);
        for bytes in (0..archive.len() - 1024).step_by(97) {
            let read = read_archive(&archive[..bytes], &mut Noted::default());
            assert!(read.is_err() || read.unwrap().check().is_err(), "{bytes} bytes");
        }
    }

    #[test]
    fn names_that_take_a_header_of_their_own_are_refused_unread() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o600);
        builder.append_data(&mut header, "base/".to_owned() + &"1".repeat(500), &b"x"[..]).unwrap();
        let archive = builder.into_inner().unwrap();
        let refused = read_archive(&archive[..], &mut Nobody).unwrap_err().to_string();
        assert!(refused.contains("neither file nor directory"), "{refused}");
    }

    #[test]
    fn members_outside_of_the_directory_are_refused() {
        for (path, kind) in [
            ("../base/1", EntryType::Regular),
            ("/etc/passwd", EntryType::Regular),
            ("base/../../x", EntryType::Regular),
            ("pg_tblspc/1", EntryType::Symlink),
            ("./", EntryType::Directory),
            ("fifo", EntryType::Fifo),
        ] {
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(0);
            header.set_mode(0o600);
            header.set_entry_type(kind);
            header.set_cksum();
            let mut archive = header.as_bytes().to_vec();
            archive.extend_from_slice(&[0; 1024]);
            let error = read_archive(&archive[..], &mut Noted::default()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{path}: {error}");
        }
    }
}

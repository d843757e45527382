//! The object `removed` of a backup that is being removed, put before anything of the backup goes. It goes last. A text:
//!
//! ```text
//! Seawall backup being removed
//! version 1
//! timeline 1
//! first 0/1A2B3C4
//! end 0/2B3C4D5
//! crc32c 1a2b3c4d
//! ```
//! `first` to `end` is the log that the backup needed; of one that never ended, `end` is `none`. The last line has the CRC-32C of all
//! bytes before it.
//!
//! **If an expiry is cut short** between the manifest and the rest, what is left looks like a backup under way. The mark tells the two
//! apart: the next expiry goes on removing, nobody resumes what is left, and its log is not kept for it.
//!
//! **A backup that ends while it is taken for given up** meets its removal here. An expiry puts the mark, then looks for a manifest, and
//! leaves alone what has one; its objects go after that. Then it looks for a manifest once more, which goes, too, and the mark goes
//! last: it stays if the store does not let the manifest go. A backup looks for a mark, or an object that is missing, before it puts its
//! manifest, and again after that, and takes the manifest back if so. So at least one of them sees the other, and no manifest stays
//! whose objects go, unless the backup dies before it looks and the expiry before it has ended: `verify` finds that then. Both ask for
//! manifest and mark by name, and not a listing, which may be old. A mark beside a manifest that stays, since the store did not let that go,
//! says nothing.

use std::collections::BTreeSet;

use seawall_archive::{
    ArchiveError, ObjectKind, ObjectName, ObjectPlace, Packer, Packing, Repository, System,
};
use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_types::{Lsn, TimelineId};

use crate::error::BackupError;
use crate::object_names;

const TITLE: &str = "Seawall backup being removed";
const VERSION: u32 = 1;
const NONE: &str = "none";

/// What is said of a backup that is being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovalMark {
    /// The timeline that it was taken on.
    pub(crate) timeline: TimelineId,
    /// It needed the log from here on.
    pub(crate) first: Lsn,
    /// Up to here; `None`: it had not ended.
    pub(crate) end: Option<Lsn>,
}

impl RemovalMark {
    pub(crate) fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, VERSION);
        text.line("timeline", &self.timeline);
        text.line("first", &self.first);
        text.line("end", &self.end.map_or_else(|| NONE.to_owned(), |end| end.to_string()));
        text.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RemovalMark, String> {
        let mut text = TextReader::open(bytes, TITLE, VERSION)?;
        let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
        let first = text.parsed("first")?;
        let end = match text.field("end")? {
            NONE => None,
            end => Some(end.parse().map_err(|_| "its end is not a position".to_owned())?),
        };
        text.end()?;
        Ok(RemovalMark { timeline, first, end })
    }

    /// Puts it for the backup `id`, durably. One that is there already is fine.
    pub(crate) fn put(
        &self,
        repository: &Repository,
        system: System,
        id: &str,
        now_micros: i64,
    ) -> Result<(), BackupError> {
        let end = self.end.unwrap_or(self.first);
        let place = ObjectPlace {
            timeline: self.timeline,
            segment_bytes: 0,
            start: self.first,
            end,
            created_micros: now_micros,
        };
        let header = object_names::removal_mark(id).header(ObjectKind::BackupProgress, system, place);
        let packed = Packer::new(Packing::default()).pack(header, self.encode().as_bytes());
        match repository.push_object(&packed) {
            // An earlier attempt has put it, before or after the backup ended.
            Err(ArchiveError::OtherContent { .. }) => Ok(()),
            pushed => Ok(pushed.map(drop)?),
        }
    }
}

/// Looks whether an expiry has taken a backup with these objects for given up: then it has a mark, or an expiry that has ended has removed
/// the first objects. What counts is asked for by name, since listings may be old.
///
/// # Errors
/// `GivenUp`; what the repository says.
fn check_not_given_up(
    repository: &Repository,
    system: System,
    id: &str,
    objects: &[ObjectName],
) -> Result<(), BackupError> {
    let is_there = |name: &ObjectName| repository.is_there(&format!("{system}/{name}"));
    let listed = repository.list_objects(system, &object_names::directory(id))?;
    let listed: BTreeSet<ObjectName> = listed.into_iter().map(|(name, _)| name).collect();
    let doubtful = objects.iter().enumerate().filter(|(index, name)| *index == 0 || !listed.contains(name));
    let mut is_given_up = is_there(&object_names::removal_mark(id))?;
    for (_, name) in doubtful {
        is_given_up |= !is_there(name)?;
    }
    if is_given_up { Err(BackupError::GivenUp { id: id.to_owned() }) } else { Ok(()) }
}

/// Puts the manifest of a backup with these objects with `put`, unless an expiry has taken the backup for given up. If that happens
/// meanwhile, the manifest goes again.
///
/// # Errors
/// `GivenUp`; what `put` and the repository say.
pub fn put_unless_given_up(
    repository: &Repository,
    system: System,
    id: &str,
    objects: &[ObjectName],
    put: impl FnOnce() -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    check_not_given_up(repository, system, id, objects)?;
    put()?;
    match check_not_given_up(repository, system, id, objects) {
        Err(error @ BackupError::GivenUp { .. }) => {
            let manifest = object_names::manifest(id).expect("a backup's name has the form of names");
            repository.remove_object(system, &manifest)?;
            Err(error)
        }
        looked => looked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_from_its_text_and_every_changed_byte_is_noticed() {
        for end in [None, Some(Lsn::new(1 << 33))] {
            let mark = RemovalMark { timeline: TimelineId::FIRST, first: Lsn::new(7), end };
            let text = mark.encode().into_bytes();
            assert_eq!(RemovalMark::decode(&text), Ok(mark));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(RemovalMark::decode(&other).is_err(), "byte {at}");
                assert!(RemovalMark::decode(&text[..at]).is_err(), "{at} bytes");
            }
        }
    }
}

//! The object `reserved/NUMBER`: a restore begins the timeline with this number, so no other restore takes it. A text:
//!
//! ```text
//! Seawall timeline reserved
//! version 1
//! timeline 2
//! token 0123456789abcdef0123456789abcdef
//! crc32c 1a2b3c4d
//! ```
//! `token` is what the restore drew, and the last line has the CRC-32C of all bytes before it. It is never removed: numbers are plenty. It
//! is no timeline: which one a restore follows is told from histories, log and backups alone.
//!
//! Of two restores at one moment, one puts the object, and the other takes the next number. **If the power goes**: the marker of the restore
//! has the number and the token before the repository does, so the same restore that goes on finds the number free, or its own.

use std::sync::Arc;

use seawall_archive::{
    ArchiveError, LogFileName, ObjectKind, ObjectPlace, Packer, Packing, Repository, StoreCause, System,
};
use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_engine::{Error, NewNumber, Restore};
use seawall_io::Random;
use seawall_types::{Lsn, TimelineId};

use crate::error::BackupError;
use crate::object_names;

const TITLE: &str = "Seawall timeline reserved";
const VERSION: u32 = 1;

/// The number that a restore has got.
pub(crate) struct Reserved {
    pub(crate) number: TimelineId,
    /// Why the repository does not know of it.
    pub(crate) problem: Option<String>,
}

/// Where numbers are reserved, and how.
pub(crate) struct Reservations<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) system: System,
    pub(crate) random: &'a Arc<dyn Random>,
    pub(crate) now_micros: i64,
    /// The highest number that the repository has anything of.
    pub(crate) last: TimelineId,
    /// The number that was asked for.
    pub(crate) wanted: Option<TimelineId>,
}

impl Reservations<'_> {
    /// Gives `restore` a number that no other has: the one that it had before, the one that is wanted, or the next one.
    ///
    /// # Errors
    /// What the repository says, but that it takes nothing; those of the directory.
    pub(crate) fn reserve(&self, restore: &mut Restore) -> Result<Reserved, BackupError> {
        let mut new = match restore.new_timeline().filter(|new| self.is_of_use(new.number)) {
            Some(new) => new,
            None => self.draw()?,
        };
        loop {
            restore.choose_new_timeline(new)?;
            let number = new.number;
            match self.put(new) {
                Ok(()) if self.wanted.is_some() || !self.has_history(number)? => {
                    return Ok(Reserved { number, problem: None });
                }
                Err(ArchiveError::OtherContent { .. }) if self.wanted.is_some() => {
                    let problem = "another restore has reserved it".to_owned();
                    return Ok(Reserved { number, problem: Some(problem) });
                }
                // Somebody was faster.
                Ok(()) | Err(ArchiveError::OtherContent { .. }) => new.number = above(number)?,
                Err(ArchiveError::Store(error)) if takes_nothing(error.cause) => {
                    return Ok(Reserved { number, problem: Some(error.to_string()) });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_of_use(&self, number: TimelineId) -> bool {
        self.wanted.map_or(number > self.last, |wanted| wanted == number)
    }

    fn draw(&self) -> Result<NewNumber, BackupError> {
        let mut token = [0; 16];
        self.random.fill(&mut token);
        Ok(NewNumber { number: self.free()?, token: u128::from_be_bytes(token) })
    }

    /// The number that is wanted, or one that nobody has.
    ///
    /// # Errors
    /// What the repository says.
    pub(crate) fn free(&self) -> Result<TimelineId, BackupError> {
        if let Some(wanted) = self.wanted {
            return Ok(wanted);
        }
        let listed = self.repository.list_objects(self.system, object_names::RESERVED)?;
        let reserved = listed.iter().filter_map(|(name, _)| object_names::parse_reserved(name));
        above(reserved.fold(self.last, TimelineId::max))
    }

    fn put(&self, new: NewNumber) -> Result<(), ArchiveError> {
        let place = ObjectPlace {
            timeline: new.number,
            segment_bytes: 0,
            start: Lsn::ZERO,
            end: Lsn::ZERO,
            created_micros: self.now_micros,
        };
        let header =
            object_names::reserved(new.number).header(ObjectKind::TimelineReservation, self.system, place);
        let packed = Packer::new(Packing::default()).pack(header, encode(new).as_bytes());
        self.repository.push_object(&packed).map(drop)
    }

    /// A database that was promoted in its place asks nobody for its number.
    fn has_history(&self, number: TimelineId) -> Result<bool, ArchiveError> {
        Ok(self.repository.stat(self.system, LogFileName::History(number))?.is_some())
    }
}

fn above(number: TimelineId) -> Result<TimelineId, BackupError> {
    let next = number.get().checked_add(1).and_then(TimelineId::new);
    Ok(next.ok_or_else(|| Error::Log { message: format!("there is no timeline after {number}") })?)
}

/// Whether it is a repository that may be read only.
fn takes_nothing(cause: StoreCause) -> bool {
    matches!(cause, StoreCause::Denied | StoreCause::Unauthenticated)
}

fn encode(new: NewNumber) -> String {
    let mut text = TextWriter::new(TITLE, VERSION);
    text.line("timeline", &new.number);
    text.line("token", &format_args!("{:032x}", new.token));
    text.seal()
}

/// Whether a text is one of these.
pub(crate) fn check_reservation(bytes: &[u8]) -> Result<(), String> {
    let mut text = TextReader::open(bytes, TITLE, VERSION)?;
    TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
    let token = text.field("token")?;
    u128::from_str_radix(token, 16).map_err(|_| "its token is not a number".to_owned())?;
    Ok(text.end()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_read_and_every_changed_byte_is_noticed() {
        let text = encode(NewNumber { number: TimelineId::FIRST, token: 7 }).into_bytes();
        assert_eq!(check_reservation(&text), Ok(()));
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(check_reservation(&other).is_err(), "byte {at}");
            assert!(check_reservation(&text[..at]).is_err(), "{at} bytes");
        }
    }
}

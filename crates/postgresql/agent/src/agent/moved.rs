//! What an agent of the same cluster has left in another spool: a spool goes by the full name of the data directory, which was moved
//! since.
//!
//! What is where if the machine stops: a note is durable here before it is removed there. A note that is in both is taken over once
//! more, and what it asks for is done already.

use std::io;
use std::path::Path;

use seawall_archive::{SegmentPlace, System};

use super::Shared;
use super::push::gaps::Gaps;
use super::repositories::RepositoryHandle;
use crate::log_line::log_line;
use crate::spool::{GapNote, Lock, Spool, at};

/// Takes over what the spools beside this one remember of this cluster, where they have noted it for these repositories.
/// An agent that lives keeps them until it has ended.
pub(super) fn take_over(shared: &Shared) {
    // Without it nothing is archived, nor fetched.
    let Ok(system) = shared.data.system() else { return };
    take_over_all(&shared.spool, system, &shared.repositories, &shared.gaps);
}

fn take_over_all(spool: &Spool, system: System, repositories: &[RepositoryHandle], gaps: &Gaps) {
    let others = beside(spool).unwrap_or_else(|error| {
        log_line!("the spools beside this one cannot be listed: {error}");
        Vec::new()
    });
    for other in others {
        let directory = other.directory().display();
        match take_over_from(&other, spool, system, repositories, gaps) {
            Ok(true) => log_line!("what {directory} remembered of {system} is remembered here now"),
            Ok(false) => {}
            Err(error) => log_line!("what {directory} remembers cannot be taken over: {error}"),
        }
    }
}

/// Whether a spool beside this one remembers the segment as left out of these repositories. The agent of that spool may live: it
/// ends some time after its data directory was moved, and only then is what it remembers taken over.
///
/// # Errors
/// What the system says, with the spool: what cannot be read may remember it.
pub(super) fn is_left_out(
    spool: &Spool,
    system: System,
    place: SegmentPlace,
    repositories: &[RepositoryHandle],
) -> io::Result<bool> {
    for other in beside(spool)? {
        // Another user's is not believed.
        if other.check().is_err() {
            continue;
        }
        let notes = other.gap_notes().map_err(at(other.directory()))?;
        let is_noted = notes.iter().any(|note| note.system == system && note.place == place);
        if is_noted && is_for(&other, repositories).map_err(at(other.directory()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn beside(spool: &Spool) -> io::Result<Vec<Spool>> {
    let own = spool.directory();
    let mut others = Vec::new();
    let entries = match std::fs::read_dir(own.parent().unwrap_or(Path::new("/"))) {
        // No spool was ever there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(others),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path != own && path.is_dir() {
            others.push(Spool::new(path, 0));
        }
    }
    Ok(others)
}

/// Whether there was something.
fn take_over_from(
    other: &Spool,
    spool: &Spool,
    system: System,
    repositories: &[RepositoryHandle],
    gaps: &Gaps,
) -> io::Result<bool> {
    // Another user's is not believed.
    if other.check().is_err() || !remembers(other, system, repositories)? {
        return Ok(false);
    }
    // An agent that lives sees to its notes itself.
    let Some(_lock) = other.try_lock(Lock::Agent)? else { return Ok(false) };
    if !is_for(other, repositories)? {
        log_line!("{} remembers something of {system} for other repositories", other.directory().display());
        return Ok(false);
    }
    let notes: (Vec<GapNote>, Vec<GapNote>) =
        other.gap_notes()?.into_iter().partition(|note| note.system == system);
    let (of_this, of_others) = notes;
    if !of_this.is_empty() {
        gaps.take_on(spool, of_this, repositories)?;
        other.write_gap_notes(&of_others)?;
    }
    for key in repositories.iter().map(RepositoryHandle::key) {
        for name in other.pending_copies(system, &key)? {
            spool.note_pending_copy(system, &key, &name)?;
            other.note_copied(system, &key, &name)?;
        }
    }
    Ok(true)
}

fn remembers(other: &Spool, system: System, repositories: &[RepositoryHandle]) -> io::Result<bool> {
    let mut remembers = other.gap_notes()?.iter().any(|note| note.system == system);
    for handle in repositories {
        remembers |= !other.pending_copies(system, &handle.key())?.is_empty();
    }
    Ok(remembers)
}

/// Whether its agent archived to these repositories, and required no other.
fn is_for(other: &Spool, repositories: &[RepositoryHandle]) -> io::Result<bool> {
    let required = other.repositories()?;
    let is_one = |key: &String| repositories.iter().any(|handle| handle.key() == *key);
    Ok(!required.is_empty() && required.keys().all(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    use seawall_archive::LogFileName;

    use crate::agent::repositories::open_repositories;
    use crate::settings::ArchiveSettings;

    const SYSTEM: System = System::PostgreSql(7);
    const NAME: &str = "000000010000000000000007";

    fn note(system: System) -> GapNote {
        let Some(LogFileName::Segment(place)) = LogFileName::parse(NAME) else { panic!() };
        let (recorded, reason) = (BTreeSet::new(), "down".to_owned());
        GapNote { system, place, segment_bytes: 16 << 20, noticed_micros: 1, recorded, reason }
    }

    /// A repository that an earlier agent has opened.
    fn repositories() -> Vec<RepositoryHandle> {
        let settings = ArchiveSettings::parse("repository = '/nowhere/a'\n", "test").unwrap();
        let first = "/nowhere/a".parse::<seawall_archive::RepositoryUrl>().unwrap().address();
        let key = format!("{:08x}", seawall_codec::checksum::crc32c(first.as_bytes()));
        open_repositories(&settings, &BTreeMap::from([(key, "id".to_owned())])).unwrap()
    }

    /// A spool with something to remember, of a repository with this key; and a new one beside it.
    fn spools(root: &Path, key: &str) -> (Spool, Spool) {
        let [before, now] = ["before", "now"].map(|name| Spool::new(root.join(name), 7));
        before.prepare().unwrap();
        now.prepare().unwrap();
        before.note_repositories(&BTreeMap::from([(key.to_owned(), "id".to_owned())])).unwrap();
        before.write_gap_notes(&[note(SYSTEM), note(System::PostgreSql(8))]).unwrap();
        before.note_pending_copy(SYSTEM, key, NAME).unwrap();
        (before, now)
    }

    #[test]
    fn what_is_remembered_of_a_cluster_goes_with_its_data_directory() {
        let (directory, repositories) = (tempfile::tempdir().unwrap(), repositories());
        let key = repositories[0].key();
        let (before, now) = spools(directory.path(), &key);
        let gaps = Gaps::read(&now, &repositories).unwrap();
        // As long as its own agent lives, it is that one's.
        let lock = before.try_lock(Lock::Agent).unwrap();
        take_over_all(&now, SYSTEM, &repositories, &gaps);
        assert_eq!((gaps.count(), before.gap_notes().unwrap().len()), (0, 2));
        assert!(is_left_out(&now, SYSTEM, note(SYSTEM).place, &repositories).unwrap());
        drop(lock);
        for _ in 0..2 {
            take_over_all(&now, SYSTEM, &repositories, &gaps);
            assert!(gaps.has(SYSTEM, note(SYSTEM).place));
            assert_eq!(now.gap_notes().unwrap(), [note(SYSTEM)]);
            assert_eq!(now.pending_copies(SYSTEM, &key).unwrap(), [NAME]);
            assert_eq!(before.gap_notes().unwrap(), [note(System::PostgreSql(8))], "another cluster's");
            assert!(before.pending_copies(SYSTEM, &key).unwrap().is_empty());
        }
    }

    /// Such as those of a standby on the same machine, which archives elsewhere.
    #[test]
    fn what_is_remembered_for_other_repositories_stays_where_it_is() {
        let (directory, repositories) = (tempfile::tempdir().unwrap(), repositories());
        let (before, now) = spools(directory.path(), "01234567");
        let gaps = Gaps::read(&now, &repositories).unwrap();
        take_over_all(&now, SYSTEM, &repositories, &gaps);
        assert_eq!((gaps.count(), now.gap_notes().unwrap().len()), (0, 0));
        assert_eq!(before.gap_notes().unwrap().len(), 2);
        assert!(!is_left_out(&now, SYSTEM, note(SYSTEM).place, &repositories).unwrap());
    }
}

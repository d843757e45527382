//! The inventory of one system in a repository, from one listing and a few small objects. Retention decides upon it.
//!
//! ```text
//!   listing --> log files by timeline and segment, directories of backups, gaps
//!   manifests, histories --> what needs what
//!   headers --> when the last of a timeline was archived, what a backup under way needs
//! ```
//! Names of all objects are in memory at once, some 200 bytes each.

use std::collections::BTreeMap;

use seawall_archive::{
    ArchiveError, Gap, Header, LogFileName, Repository, SegmentNumbers, StoredName, StoredObject, System,
};
use seawall_types::{Lsn, TimelineId};

use crate::chain_member::{ChainMember, cut_short_below, read_progress};
use crate::dependencies::{BackupDependencies, read_dependencies};
use crate::error::BackupError;
use crate::history::read_histories;
use crate::lineage::TimelineLineage;
use crate::manifest::CutShort;
use crate::object_names;

/// The inventory of a system in a repository.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// Whose it is.
    pub system: System,
    /// The size of its segments; 0 if nothing tells.
    pub segment_bytes: u64,
    /// The backups that have a manifest.
    pub backups: Vec<BackupDependencies>,
    /// Directories of backups that have none: under way, or given up.
    pub unfinished: Vec<UnfinishedBackup>,
    /// Paths of the objects of all backups, by name of the backup, manifests not among them.
    pub backup_objects: BTreeMap<String, Vec<String>>,
    /// Files of the log, by timeline.
    pub log: BTreeMap<TimelineId, TimelineLog>,
    /// Which timeline descends from which.
    pub lineage: TimelineLineage,
    /// Gaps that are on record.
    pub gaps: Vec<Gap>,
}

/// A backup without a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedBackup {
    /// Its name.
    pub id: String,
    /// The timeline that it is taken on.
    pub timeline: TimelineId,
    /// The log that it will need, from here on.
    pub first: Lsn,
    /// When it began, in microseconds since 1970.
    pub began_micros: i64,
    /// The backup that it is an increment of, as far as it has said so.
    pub parent: Option<String>,
    /// Names of those that were cut short and that it goes on with.
    pub cut_short: Vec<String>,
    /// What it has said of that is damaged: it may go on with anything.
    pub is_unreadable: bool,
    /// An expiry has begun to remove it, and was cut short.
    pub is_being_removed: bool,
}

/// What there is of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineLog {
    /// Its files, by segment: whole ones, partial ones, tails, labels.
    pub files: Vec<StoredLogFile>,
    /// When the newest of them was archived, or its history, in microseconds since 1970.
    pub newest_micros: Option<i64>,
    /// When its history was archived: about when it began.
    pub begun_micros: Option<i64>,
}

/// A file of the log that is in the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLogFile {
    /// The segment that it is, or belongs to.
    pub number: u64,
    /// Where it lies.
    pub path: String,
    /// It is a whole segment.
    pub is_whole: bool,
}

impl Inventory {
    /// Reads what the repository holds of `system`.
    ///
    /// # Errors
    /// What the repository says; `Damaged` for a manifest, a history or a header that is none: nothing can be decided then.
    pub fn read(repository: &Repository, system: System) -> Result<Inventory, BackupError> {
        let objects = repository.stored(Some(system))?;
        let sorted = Sorted::of(&objects);
        let (mut backups, mut unfinished) = (Vec::new(), Vec::new());
        for (id, directory) in &sorted.backups {
            let needs =
                if directory.has_manifest { read_dependencies(repository, system, id)? } else { None };
            match needs {
                Some(needs) => backups.push(needs),
                None => unfinished.extend(read_unfinished(repository, system, id, directory)?),
            }
        }
        let histories = read_histories(repository, system, &objects)?;
        let newest = sorted.read_newest(repository)?;
        let sizes = backups.iter().map(|backup| backup.segment_bytes);
        let sizes = sizes.chain(newest.values().map(|newest| newest.segment_bytes));
        let segment_bytes = one_size(system, sizes)?;
        let log = sorted.log(system, segment_bytes, &newest);
        let backup_objects = sorted.backups.iter().map(|(id, directory)| {
            (id.clone(), directory.objects.iter().map(|object| object.path.clone()).collect())
        });
        Ok(Inventory {
            system,
            segment_bytes,
            lineage: TimelineLineage::new(segment_bytes, log.keys().copied(), histories),
            backup_objects: backup_objects.collect(),
            gaps: sorted.gaps,
            backups,
            unfinished,
            log,
        })
    }

    /// Numbers of segments, and their digits in names.
    pub fn numbers(&self) -> SegmentNumbers {
        SegmentNumbers::new(self.system, u32::try_from(self.segment_bytes).unwrap_or(0))
    }
}

/// The directory of a backup.
#[derive(Default)]
struct BackupDirectory<'a> {
    has_manifest: bool,
    has_removal_mark: bool,
    objects: Vec<&'a StoredObject>,
}

/// A listing, by what objects are.
#[derive(Default)]
struct Sorted<'a> {
    backups: BTreeMap<String, BackupDirectory<'a>>,
    log: Vec<&'a StoredObject>,
    histories: BTreeMap<TimelineId, &'a StoredObject>,
    gaps: Vec<Gap>,
}

/// Of the newest object of a timeline, or of its history.
#[derive(Clone, Copy, Default)]
struct Newest {
    created_micros: Option<i64>,
    begun_micros: Option<i64>,
    segment_bytes: u64,
}

impl<'a> Sorted<'a> {
    fn of(objects: &'a [StoredObject]) -> Sorted<'a> {
        let mut sorted = Sorted::default();
        for object in objects {
            match &object.name {
                Some(StoredName::LogFile(_, LogFileName::History(timeline))) => {
                    sorted.histories.insert(*timeline, object);
                }
                Some(StoredName::LogFile(..)) => sorted.log.push(object),
                Some(StoredName::Gap(_, gap)) => sorted.gaps.push(*gap),
                Some(StoredName::Object(_, name)) => {
                    if let Some(id) = object_names::backup_of(name) {
                        let directory = sorted.backups.entry(id.to_owned()).or_default();
                        if object_names::manifest(id).as_ref() == Some(name) {
                            directory.has_manifest = true;
                        } else {
                            directory.has_removal_mark |= object_names::is_removal_mark(name);
                            directory.objects.push(object);
                        }
                    } else if object_names::parse_tail(name).is_some() {
                        sorted.log.push(object);
                    }
                }
                Some(StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch) | None => {}
            }
        }
        sorted
    }

    /// By timeline, from the headers of the last object and of the history.
    fn read_newest(&self, repository: &Repository) -> Result<BTreeMap<TimelineId, Newest>, BackupError> {
        let mut last: BTreeMap<TimelineId, (u64, u64, &StoredObject)> = BTreeMap::new();
        for object in &self.log {
            let Some((timeline, digits, reach, _)) = place_of(object) else { continue };
            let entry = last.entry(timeline).or_insert((digits, reach, object));
            if (entry.0, entry.1) <= (digits, reach) {
                *entry = (digits, reach, object);
            }
        }
        let mut newest: BTreeMap<TimelineId, Newest> = BTreeMap::new();
        let objects = last.iter().map(|(timeline, (.., object))| (timeline, *object, false));
        let histories = self.histories.iter().map(|(timeline, object)| (timeline, *object, true));
        for (timeline, object, is_history) in objects.chain(histories) {
            let Some(header) = header_if_there(repository, object)? else { continue };
            let entry = newest.entry(*timeline).or_default();
            if is_history {
                entry.begun_micros = Some(header.created_micros);
            }
            entry.created_micros = entry.created_micros.max(Some(header.created_micros));
            entry.segment_bytes = entry.segment_bytes.max(u64::from(header.segment_bytes));
        }
        Ok(newest)
    }

    fn log(
        &self,
        system: System,
        segment_bytes: u64,
        newest: &BTreeMap<TimelineId, Newest>,
    ) -> BTreeMap<TimelineId, TimelineLog> {
        let numbers = SegmentNumbers::new(system, u32::try_from(segment_bytes).unwrap_or(0));
        let mut log: BTreeMap<TimelineId, TimelineLog> = BTreeMap::new();
        for object in &self.log {
            let Some((timeline, digits, _, is_whole)) = place_of(object) else { continue };
            let file = StoredLogFile { number: numbers.of(digits), path: object.path.clone(), is_whole };
            log.entry(timeline).or_default().files.push(file);
        }
        for (timeline, newest) in newest {
            let entry = log.entry(*timeline).or_default();
            (entry.newest_micros, entry.begun_micros) = (newest.created_micros, newest.begun_micros);
        }
        log.values_mut().for_each(|timeline| timeline.files.sort_by_key(|file| file.number));
        log
    }
}

/// Timeline, digits of the segment, how much of it the object reaches, and whether it is the whole segment.
fn place_of(object: &StoredObject) -> Option<(TimelineId, u64, u64, bool)> {
    match object.name.as_ref()? {
        StoredName::LogFile(_, name) => match name {
            LogFileName::Segment(place) => Some((place.timeline, place.digits, u64::MAX, true)),
            LogFileName::Partial(place) => Some((place.timeline, place.digits, u64::MAX - 1, false)),
            LogFileName::BackupLabel(place, _) => Some((place.timeline, place.digits, 0, false)),
            LogFileName::History(_) => None,
        },
        StoredName::Object(_, name) => {
            let (segment, _, to) = object_names::parse_tail(name)?;
            Some((segment.timeline, segment.number, to, false))
        }
        StoredName::RepositoryHeader | StoredName::Key(_) | StoredName::Scratch | StoredName::Gap(..) => None,
    }
}

/// `None`: it was removed meanwhile.
fn header_if_there(repository: &Repository, object: &StoredObject) -> Result<Option<Header>, BackupError> {
    match repository.header_of(object) {
        Err(ArchiveError::NotFound { .. }) => Ok(None),
        header => Ok(header?),
    }
}

/// Every object of a backup says where the backup began, and when; those that say how far it is also say what it builds on.
fn read_unfinished(
    repository: &Repository,
    system: System,
    id: &str,
    directory: &BackupDirectory<'_>,
) -> Result<Option<UnfinishedBackup>, BackupError> {
    let objects = &directory.objects;
    for object in objects {
        let Some(header) = header_if_there(repository, object)? else { continue };
        let below = members_of_unfinished(repository, system, id, objects);
        let is_unreadable = below.as_ref().is_err_and(BackupError::is_damage);
        let below = if is_unreadable { Vec::new() } else { below? };
        return Ok(Some(UnfinishedBackup {
            is_unreadable,
            is_being_removed: directory.has_removal_mark,
            id: id.to_owned(),
            timeline: header.timeline.unwrap_or(TimelineId::FIRST),
            first: header.start,
            began_micros: header.created_micros,
            parent: below.first().and_then(|member| member.parent.clone()),
            cut_short: below.into_iter().skip(1).map(|member| member.id).collect(),
        }));
    }
    Ok(None)
}

/// What a backup under way has said last of itself, and what it goes on with. Nothing, if something of that is gone: then it comes to
/// no end.
fn members_of_unfinished(
    repository: &Repository,
    system: System,
    id: &str,
    objects: &[&StoredObject],
) -> Result<Vec<ChainMember>, BackupError> {
    let number = |object: &&StoredObject| match &object.name {
        Some(StoredName::Object(_, name)) => object_names::parse_progress(name),
        _ => None,
    };
    let Some(progress) = objects.iter().filter_map(number).max() else { return Ok(Vec::new()) };
    let read = || {
        let (top, _) = read_progress(repository, system, &CutShort { id: id.to_owned(), progress })?;
        let mut members = cut_short_below(repository, &top)?;
        members.insert(0, top);
        Ok(members)
    };
    match read() {
        Err(BackupError::Archive(ArchiveError::NotFound { .. })) => Ok(Vec::new()),
        members => members,
    }
}

/// Segments of several sizes have no common numbers.
fn one_size(system: System, sizes: impl Iterator<Item = u64>) -> Result<u64, BackupError> {
    let mut found = 0;
    for size in sizes.filter(|size| *size != 0) {
        if found != 0 && size != found {
            let problem = format!("it has log in segments of {found} bytes and of {size} bytes");
            return Err(BackupError::damaged(system, problem));
        }
        found = size;
    }
    Ok(found)
}

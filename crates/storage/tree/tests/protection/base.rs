//! A tree whose images are kept in one of two places.

use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::{
    ImageCompression, MergeSource, OpenedTree, PageProtection, Superblock, Tree, TreeAccess, TreeError,
    TreeOptions,
};
use seawall_types::Lsn;

use crate::common;
use crate::common::image_log::{FileLog, FileSource, IMAGE_LOG_PATH};
use crate::common::{Changes, Model, STAMP, Source, Workload, apply_to, check, rows};

pub(super) const PLACES: [PageProtection; 2] = [PageProtection::RecoveryFile, PageProtection::LogImages];

/// How the images of a tree are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protection {
    pub(super) place: PageProtection,
    pub(super) compression: ImageCompression,
    pub(super) threads: usize,
}

impl Protection {
    pub(super) fn new(place: PageProtection, compression: ImageCompression) -> Protection {
        Protection { place, compression, threads: 1 }
    }

    /// The other place.
    pub(super) fn other(self) -> Protection {
        let place = match self.place {
            PageProtection::RecoveryFile => PageProtection::LogImages,
            PageProtection::LogImages => PageProtection::RecoveryFile,
        };
        Protection { place, ..self }
    }

    pub(super) fn options(self) -> TreeOptions {
        TreeOptions {
            compression: self.compression,
            threads: self.threads,
            recovery_file_bytes: 64 << 10,
            ..common::options()
        }
    }

    pub(super) fn open_as(self, disk: &SimulatedDisk, access: TreeAccess) -> Result<OpenedTree, TreeError> {
        let opened = Tree::open_with_log(disk, access, self.options(), &FileSource(disk))?;
        if self.place == PageProtection::LogImages && access == TreeAccess::Write {
            let log = FileLog::open(disk).map_err(|source| TreeError::Io {
                operation: "opening",
                path: IMAGE_LOG_PATH.to_owned(),
                offset: 0,
                source,
            })?;
            opened.tree.protect_in_log(log)?;
        }
        Ok(opened)
    }

    pub(super) fn open(self, disk: &SimulatedDisk) -> Result<OpenedTree, TreeError> {
        self.open_as(disk, TreeAccess::Write)
    }

    /// Merges in chunks of `budget_bytes`; the last one ends a checkpoint if there is a redo point.
    pub(super) fn merge(
        self,
        disk: &SimulatedDisk,
        changes: &Changes,
        budget_bytes: u64,
        redo_point: Option<Lsn>,
    ) -> Result<(), TreeError> {
        let opened = self.open(disk)?;
        merge_into(&opened, changes, budget_bytes, redo_point)
    }
}

pub(super) fn merge_into(
    opened: &OpenedTree,
    changes: &Changes,
    budget_bytes: u64,
    redo_point: Option<Lsn>,
) -> Result<(), TreeError> {
    merge_counted(opened, changes, budget_bytes, redo_point).map(drop)
}

/// As `merge_into`; the bytes that were given back to the file system.
pub(super) fn merge_counted(
    opened: &OpenedTree,
    changes: &Changes,
    budget_bytes: u64,
    redo_point: Option<Lsn>,
) -> Result<u64, TreeError> {
    let mut source = Source::new(changes);
    let mut punched_bytes = 0;
    while source.peek().is_some() {
        let plan = opened.tree.merge_chunk(&mut source, budget_bytes, STAMP)?;
        let finish = redo_point.filter(|_| source.peek().is_none());
        let values = finish.map(|redo_point| Superblock { redo_point, ..opened.superblock.clone() });
        punched_bytes += opened.tree.apply_chunk(plan, values.as_ref())?.punched_bytes;
    }
    Ok(punched_bytes)
}

pub(super) fn workload(seed: u64) -> Workload {
    Workload { random: SeededRandom::new(seed), key_space: 900, long_keys: false, max_key_bytes: 100 }
}

/// A tree of some chunks, and what it holds.
pub(super) fn start(protection: Protection, seed: u64) -> (SimulatedDisk, Workload, Model) {
    let disk = SimulatedDisk::new(seed);
    let mut work = workload(seed);
    drop(common::create(&disk, 4096));
    let mut model = Model::new();
    for _ in 0..2 {
        let changes = work.changes(500, 2);
        protection.merge(&disk, &changes, 50_000, Some(Lsn::new(2))).unwrap();
        apply_to(&mut model, &changes);
    }
    (disk, work, model)
}

/// Opens and reads; panics unless every page is right.
pub(super) fn content(protection: Protection, disk: &SimulatedDisk, context: &str) -> Model {
    let opened = protection.open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    check(&opened.tree);
    rows(&opened.tree)
}

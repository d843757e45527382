//! The tree of a restore: made, found as one that was cut short has left it, cleared away.

use std::io::ErrorKind;

use seawall_io::Disk;
use seawall_keys::{DatabaseKeys, KEYS_PATH};
use seawall_tree::{Direction, SUPERBLOCK_PATH, Superblock, Tree, TreeAccess, TreeError};
use seawall_wal::TimelineHistory;

use super::{RowsThere, superblock_of};
use crate::backup::BackupBase;
use crate::bulk_load::row_sorter::RUN_DIRECTORY;
use crate::catalog::first_local_key;
use crate::checkpoint::page_protection::LogSource;
use crate::directory::{LOCK_PATH, LOG_DIRECTORY, RESTORING_PATH, io, write_synced};
use crate::encryption::open_keys;
use crate::environment::Environment;
use crate::error::{Error, refusal_of};
use crate::log::setup::tree_options;
use crate::options::Options;

/// What a restore that goes on begins with.
pub(super) struct TreeLeft {
    pub(super) tree: Tree,
    pub(super) superblock: Superblock,
    pub(super) keys: Option<DatabaseKeys>,
    pub(super) rows: RowsThere,
}

/// The tree that a restore has left, if this one can go on with it.
pub(super) fn tree_left(
    environment: &Environment,
    options: &Options,
    base: &BackupBase,
    history: &TimelineHistory,
) -> Result<Option<TreeLeft>, Error> {
    let disk = &*environment.disk;
    // It is written last when a tree is made.
    if !disk.list_names("").map_err(io)?.iter().any(|name| name == SUPERBLOCK_PATH) {
        return Ok(None);
    }
    let keys = open_keys(environment, &superblock_of(base, history, base.first_new_table), options)?;
    let source = LogSource::new(&environment.disk, keys.as_ref());
    let tree_options = tree_options(environment, options, keys.clone());
    let opened = match Tree::open_with_log(disk, TreeAccess::Write, tree_options, &source) {
        Err(error) if matches!(error, TreeError::Io { .. }) || refusal_of(&error).is_some() => {
            return Err(Error::tree(&error));
        }
        Err(error) => {
            tracing::warn!(%error, "the tree that a restore has left is made anew");
            return Ok(None);
        }
        Ok(opened) => opened,
    };
    let (tree, superblock) = (opened.tree, opened.superblock);
    let is_on_line = superblock.timeline_mark == history.timeline(superblock.timeline).mark
        && (superblock.timeline == history.timeline
            || history.forks.iter().any(|fork| fork.parent == superblock.timeline));
    if superblock.database != base.database || !is_on_line || superblock.redo_point < base.redo_point {
        tree.close();
        return Ok(None);
    }
    let rows = if superblock.redo_point > base.redo_point {
        RowsThere::All
    } else {
        last_key(&tree)?.map_or(RowsThere::None, RowsThere::UpTo)
    };
    // Where the log leads decides on which timeline it is in the end.
    let timeline = history.timeline(history.timeline);
    let superblock = Superblock { timeline: timeline.id, timeline_mark: timeline.mark, ..superblock };
    Ok(Some(TreeLeft { tree, superblock, keys, rows }))
}

fn last_key(tree: &Tree) -> Result<Option<Vec<u8>>, Error> {
    let failed = |error| Error::tree(&error);
    let end = first_local_key();
    let mut position = tree.leaf_for(&end, Direction::Reverse).map_err(failed)?;
    loop {
        let leaf = position.leaf();
        let count = leaf.search(&end).unwrap_or_else(|above| above);
        if let Some(last) = count.checked_sub(1) {
            return Ok(Some([leaf.prefix(), leaf.row(last).key.suffix()].concat()));
        }
        if !tree.move_on(&mut position, Direction::Reverse).map_err(failed)? {
            return Ok(None);
        }
    }
}

pub(super) fn create_tree(
    environment: &Environment,
    options: &Options,
    base: &BackupBase,
    superblock: &Superblock,
) -> Result<(Tree, Option<DatabaseKeys>), Error> {
    let disk = &*environment.disk;
    if let Some(content) = &base.keys {
        write_synced(disk, KEYS_PATH, content)?;
    }
    let keys = open_keys(environment, superblock, options)?;
    disk.create_directory(LOG_DIRECTORY).map_err(io)?;
    let tree = Tree::create(disk, superblock, tree_options(environment, options, keys.clone()));
    Ok((tree.map_err(|error| Error::tree(&error))?, keys))
}

/// Removes what a restore has left, but for its marker and segments of the log. The superblock goes first: without it there is no
/// tree that the next restore could take for one.
pub(super) fn clear_tree(disk: &dyn Disk) -> Result<(), Error> {
    match disk.remove(SUPERBLOCK_PATH) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed.map_err(io)?,
    }
    disk.sync_directory("").map_err(io)?;
    for directory in [RUN_DIRECTORY, ""] {
        let names = match disk.list_names(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            names => names.map_err(io)?,
        };
        for name in names.iter().filter(|name| *name != LOCK_PATH && *name != RESTORING_PATH) {
            let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            disk.remove(&path).map_err(io)?;
        }
        disk.sync_directory(directory).map_err(io)?;
    }
    Ok(())
}

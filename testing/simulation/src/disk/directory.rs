//! One simulated directory: the names programs see, the durable ones, and the changes between the two.

use std::collections::BTreeMap;

use super::inode::Durability;
use super::power_loss::Fates;

/// Number of a file, never used again.
pub(super) type InodeId = u64;

pub(super) type Names = BTreeMap<String, InodeId>;

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    /// The file has this name from now on, and no other; whatever had the name before has none.
    Set { name: String, inode: InodeId },
    /// The file has no name any more.
    Remove { inode: InodeId },
}

impl NameChange {
    /// Told by file and not by name, so that a change makes sense whichever of those before it were lost.
    fn apply(&self, names: &mut Names) {
        let (NameChange::Set { inode: moved, .. } | NameChange::Remove { inode: moved }) = self;
        names.retain(|_, inode| inode != moved);
        if let NameChange::Set { name, inode } = self {
            names.insert(name.clone(), *inode);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) names: Names,
    durable: Names,
    pending: Vec<(NameChange, Durability)>,
    /// Its own name in its parent is durable.
    pub(super) is_durable: bool,
}

impl Directory {
    /// A directory whose names, its own included, are durable.
    pub(super) fn with_names(names: Names) -> Directory {
        let durable = names.clone();
        Directory { names, durable, pending: Vec::new(), is_durable: true }
    }

    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push((change, Durability::Pending));
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.names.clone();
        self.pending.clear();
    }

    /// Some of the changes are durable, and the others wait for a sync that succeeds, if one does.
    pub(super) fn sync_failed(&mut self, fates: &mut Fates) {
        self.durable = self.surviving(fates);
        self.pending.clear();
    }

    /// The names after a power loss.
    pub(super) fn surviving(&self, fates: &mut Fates) -> Names {
        let mut names = self.durable.clone();
        for (change, durability) in &self.pending {
            if *durability == Durability::Durable || fates.keeps_name() {
                change.apply(&mut names);
            }
        }
        names
    }

    /// How many changes of names wait for a sync.
    pub(super) fn pending_changes(&self) -> usize {
        self.pending.iter().filter(|(_, durability)| *durability == Durability::Pending).count()
    }

    /// The files that may have a name here after a power loss.
    pub(super) fn possible_files(&self) -> impl Iterator<Item = InodeId> {
        let set = self.pending.iter().filter_map(|(change, _)| match change {
            NameChange::Set { inode, .. } => Some(*inode),
            NameChange::Remove { .. } => None,
        });
        self.durable.values().copied().chain(set)
    }

    /// Whether a power loss may bring the file back, or keep it.
    pub(super) fn may_hold(&self, inode: InodeId) -> bool {
        !self.pending.is_empty()
            || self.durable.values().any(|&id| id == inode)
            || self.names.values().any(|&id| id == inode)
    }

    /// Gives or takes a name, durably.
    pub(super) fn change_durably(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        if self.pending.is_empty() {
            change.apply(&mut self.durable);
        } else {
            // Waits for its turn, so that no older change lands on top of it.
            self.pending.push((change, Durability::Durable));
        }
    }
}

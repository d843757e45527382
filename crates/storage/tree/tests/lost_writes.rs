//! A device that loses a write leaves what was there before: whole, with the right checksum and number. Such a page is
//! refused wherever it is read, and nothing is built of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::image_log::{FileLog, FileSource};
use common::{Changes, Model, STAMP, Source, Workload, apply_to, merge, options, superblock};
use seawall_keys::{DatabaseKeys, SecretKey};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SeededRandom, SimulatedDisk,
    SimulatedRandom, seeds,
};
use seawall_tree::page::PageDamage;
use seawall_tree::{
    Damage, Encryption, OpenedTree, PAGE_FILE_PATH, PageProtection, Superblock, Tree, TreeAccess, TreeError,
    TreeOptions,
};

const PAGE_BYTES: usize = 4096;

/// A tree on a disk, and the rows that it holds.
struct Scene {
    disk: SimulatedDisk,
    options: TreeOptions,
    /// Where images of pages go.
    protection: PageProtection,
    model: Model,
    workload: Workload,
}

impl Scene {
    fn new(seed: u64, threads: usize, is_encrypted: bool) -> Scene {
        Scene::protected(PageProtection::RecoveryFile, seed, threads, is_encrypted)
    }

    fn protected(protection: PageProtection, seed: u64, threads: usize, is_encrypted: bool) -> Scene {
        let disk = SimulatedDisk::new(seed);
        let mut values = superblock(u32::try_from(PAGE_BYTES).unwrap());
        let mut options = TreeOptions { threads, ..options() };
        if is_encrypted {
            let random = Arc::new(SimulatedRandom::new(seed));
            let key = SecretKey::from_bytes([7; 32]);
            options.keys = Some(DatabaseKeys::create(&disk, values.database, &key, random).unwrap());
            values.encryption = Encryption::Xaes256Gcm;
        }
        Tree::create(&disk, &values, options.clone()).unwrap();
        let random = SeededRandom::new(seed);
        let workload = Workload { random, key_space: 300, long_keys: true, max_key_bytes: 2560 };
        let mut scene = Scene { disk, options, protection, model: Model::new(), workload };
        scene.checkpoint(300);
        scene.checkpoint(100);
        scene
    }

    fn open(&self, disk: &SimulatedDisk) -> Result<Tree, TreeError> {
        self.open_and_say(disk).map(|opened| opened.tree)
    }

    fn open_and_say(&self, disk: &SimulatedDisk) -> Result<OpenedTree, TreeError> {
        let options = self.options.clone();
        let opened = Tree::open_with_log(disk, TreeAccess::Write, options, &FileSource(disk))?;
        if self.protection == PageProtection::LogImages {
            opened.tree.protect_in_log(FileLog::open(disk).unwrap())?;
        }
        Ok(opened)
    }

    /// Merges changes in several chunks, drops a range of rows, loads others in their place, and stores the superblock.
    fn checkpoint(&mut self, count: u64) {
        let changes = self.workload.changes(count, 2);
        let tree = Arc::new(self.open(&self.disk).unwrap());
        merge(&tree, &changes, 48 << 10).unwrap();
        apply_to(&mut self.model, &changes);
        let [from, to] = [1_u64.to_be_bytes(), 2_u64.to_be_bytes()];
        common::cut(&tree, &from, &to, 20).unwrap();
        common::cut_model(&mut self.model, &from, &to);
        let mut loader = tree.bulk_loader(&from, &to, STAMP);
        for number in 0..30_u32 {
            let key = [&from[..], &number.to_be_bytes()].concat();
            let value = self.workload.value();
            loader.push(&key, &value).unwrap();
            self.model.insert(key, value);
        }
        tree.apply_chunk(loader.graft(STAMP).unwrap(), Some(&self.superblock())).unwrap();
    }

    fn superblock(&self) -> Superblock {
        let encryption = if self.options.keys.is_some() { Encryption::Xaes256Gcm } else { Encryption::None };
        Superblock { encryption, ..superblock(u32::try_from(PAGE_BYTES).unwrap()) }
    }

    /// The pages that the last checkpoint has changed in the file, each with what was there before.
    fn changed_pages(&self, before: &SimulatedDisk) -> Vec<(u64, Vec<u8>)> {
        let (old, new) =
            (before.read_file(PAGE_FILE_PATH).unwrap(), self.disk.read_file(PAGE_FILE_PATH).unwrap());
        let old_page = |page: usize| old.get(page * PAGE_BYTES..(page + 1) * PAGE_BYTES);
        let pages = new.chunks(PAGE_BYTES).enumerate().map(|(page, new)| (page, old_page(page), new));
        let changed = pages.filter(|(_, old, new)| old.is_none_or(|old| old != *new));
        changed.map(|(page, old, _)| (page as u64, old.map_or(vec![0; PAGE_BYTES], <[u8]>::to_vec))).collect()
    }
}

impl Scene {
    /// Whether a page is in use: then a flipped bit in it is found.
    fn is_used(&self, page: u64) -> bool {
        let disk = self.disk.copy();
        disk.flip_bit(PAGE_FILE_PATH, page * PAGE_BYTES as u64, 0);
        self.open(&disk).is_ok_and(|tree| !damages_of(&tree).is_empty())
    }
}

/// The page that an error calls damaged.
fn page_of(error: &TreeError) -> u64 {
    let TreeError::Page { page, .. } = error else { panic!("not a damaged page: {error}") };
    page.get()
}

fn damages_of(tree: &Tree) -> Vec<Damage> {
    let mut damages = Vec::new();
    tree.check(&mut |damage| damages.push(damage), &mut |_, _| ());
    damages
}

/// Each row is as it should be, or its page is refused; the pages that were.
fn refused_pages(tree: &Tree, model: &Model, context: &str) -> Vec<u64> {
    let mut refused = Vec::new();
    for (key, value) in model {
        match tree.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{context}: an old row is served"),
            Err(error) => refused.push(page_of(&error)),
        }
    }
    refused
}

#[test]
fn each_page_put_back_as_it_was_before_a_checkpoint_is_refused_and_reported() {
    for seed in seeds(4) {
        for (threads, is_encrypted) in [(1, false), (3, false), (1, true)] {
            let mut scene = Scene::new(seed, threads, is_encrypted);
            let before = scene.disk.copy();
            scene.checkpoint(60);
            let changed = scene.changed_pages(&before);
            let (mut used, mut read) = (0, 0);
            for (page, old) in changed {
                let context =
                    format!("seed {seed}, {threads} threads, encrypted {is_encrypted}, page {page}");
                let disk = scene.disk.copy();
                disk.overwrite(PAGE_FILE_PATH, page * PAGE_BYTES as u64, &old);
                let tree = match scene.open(&disk) {
                    Ok(tree) => tree,
                    Err(error) => {
                        assert_eq!((page_of(&error), page), (1, 1), "{context}: {error}");
                        continue;
                    }
                };
                let refused = refused_pages(&tree, &scene.model, &context);
                let damages = damages_of(&tree);
                if !scene.is_used(page) {
                    assert_eq!((refused.len(), damages.len()), (0, 0), "{context}: a free page is missed");
                    continue;
                }
                used += 1;
                // A page in the middle of an extent is reported by the extent's first page.
                let nearest =
                    damages.iter().map(|damage| damage.page.get()).filter(|found| *found <= page).max();
                assert!(nearest.is_some_and(|found| page - found < 128), "{context}: {damages:?}");
                assert!(refused.iter().all(|found| Some(*found) == nearest), "{context}: {refused:?}");
                read += refused.len();
            }
            assert!(
                used > 10 && read > 20,
                "seed {seed}: {read} reads met one of {used} pages that were put back"
            );
        }
    }
}

#[test]
fn an_older_page_file_is_refused_when_the_tree_is_opened() {
    for is_encrypted in [false, true] {
        let mut scene = Scene::new(5, 1, is_encrypted);
        let before = scene.disk.copy();
        scene.checkpoint(1);
        scene.disk.write_file(PAGE_FILE_PATH, &before.read_file(PAGE_FILE_PATH).unwrap());
        for access in [TreeAccess::Read, TreeAccess::Write] {
            let error = Tree::open(&scene.disk, access, scene.options.clone()).unwrap_err();
            let TreeError::Page { page, damage: PageDamage::LostWrite { .. }, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(page.get(), 1);
        }
    }
}

/// Any write of a checkpoint into the page file is lost, and the disk says that it was made: rows are right or refused,
/// at once and after a restart, and a merge of other changes writes nothing that it took from an old page.
#[test]
fn a_lost_write_is_noticed_by_readers_and_by_the_next_merge() {
    for protection in [PageProtection::RecoveryFile, PageProtection::LogImages] {
        lose_each_write_of_a_checkpoint(Scene::protected(protection, 3, 1, false));
    }
}

fn lose_each_write_of_a_checkpoint(mut scene: Scene) {
    let changes = scene.workload.changes(150, 2);
    let mut model = scene.model.clone();
    apply_to(&mut model, &changes);
    let others = other_values(&model);
    let (mut skip, mut noticed) = (0, 0);
    loop {
        let disk = scene.disk.copy();
        let tree = scene.open(&disk).unwrap();
        lose_write(&disk, skip);
        // A merge may itself come upon the page that was lost before.
        let merged = merge(&tree, &changes, 64 << 10).and_then(|_| {
            let plan = tree.merge_chunk(&mut Source::new(&Changes::new()), 1, STAMP)?;
            tree.apply_chunk(plan, Some(&scene.superblock()))
        });
        let context = format!("write {skip} lost, {:?}", scene.protection);
        if disk.take_faults_struck().is_empty() {
            assert!(merged.is_ok());
            break;
        }
        match merged {
            Err(error) => {
                page_of(&error);
                noticed += 1;
            }
            Ok(_) => {
                refused_pages(&tree, &model, &context);
                drop(tree);
                noticed += u64::from(is_noticed_after_restart(&scene, &disk, &model, &others, &context));
            }
        }
        skip += 1;
    }
    assert!(skip > 20 && noticed > skip / 2, "{noticed} of {skip} lost writes noticed");
}

fn other_values(model: &Model) -> Changes {
    model.iter().map(|(key, value)| (key.clone(), Some([&value[..], b"+"].concat()))).collect()
}

/// The disk loses one write into the page file, after `skip` others, and says that it was made.
fn lose_write(disk: &SimulatedDisk, skip: u64) {
    let operations = Operations::Only(Operation::Write);
    let target = FaultTarget::Path { prefix: PAGE_FILE_PATH.to_owned(), operations };
    disk.inject(Fault { target, error: FaultError::Dropped, skip, count: 1 });
}

/// A chunk is committed, the power goes before any of its pages is in place, and of the open that writes them again one write
/// is lost.
#[test]
fn a_write_that_is_lost_while_a_chunk_is_applied_again_is_noticed() {
    for protection in [PageProtection::RecoveryFile, PageProtection::LogImages] {
        let mut scene = Scene::protected(protection, 7, 1, false);
        let changes = scene.workload.changes(100, 2);
        apply_to(&mut scene.model, &changes);
        let committed = committed_and_not_in_place(&scene, &changes);
        let others = other_values(&scene.model);
        let (mut skip, mut noticed) = (0, 0);
        loop {
            let disk = committed.copy();
            lose_write(&disk, skip);
            let opened = scene.open_and_say(&disk);
            if disk.take_faults_struck().is_empty() {
                break;
            }
            let context = format!("write {skip} of the open lost, {protection:?}");
            match opened {
                Ok(opened) => {
                    assert!(opened.reapplied_chunk.is_some(), "{context}");
                    refused_pages(&opened.tree, &scene.model, &context);
                }
                Err(error) => assert_eq!(page_of(&error), 1, "{context}: {error}"),
            }
            noticed += u64::from(is_noticed_after_restart(&scene, &disk, &scene.model, &others, &context));
            skip += 1;
        }
        assert!(skip > 10 && noticed == skip, "{protection:?}: {noticed} of {skip} lost writes noticed");
    }
}

/// What a power loss leaves of a chunk of `changes` that was committed, and no more.
fn committed_and_not_in_place(scene: &Scene, changes: &Changes) -> SimulatedDisk {
    for call in 0.. {
        let disk = scene.disk.copy();
        let tree = scene.open(&disk).unwrap();
        disk.crash_at(disk.calls() + call);
        let plan = tree.merge_chunk(&mut Source::new(changes), u64::MAX, STAMP).unwrap();
        tree.apply_chunk(plan, None).expect_err("the power goes before its pages are in place");
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        if scene.open_and_say(&disk.copy()).unwrap().reapplied_chunk.is_some() {
            return disk;
        }
    }
    unreachable!("the chunk is never committed")
}

fn is_noticed_after_restart(
    scene: &Scene,
    disk: &SimulatedDisk,
    model: &Model,
    others: &Changes,
    context: &str,
) -> bool {
    let tree = match scene.open(disk) {
        Ok(tree) => tree,
        Err(error) => return page_of(&error) == 1,
    };
    let refused = refused_pages(&tree, model, context);
    let damages = damages_of(&tree);
    assert!(refused.iter().all(|page| damages.iter().any(|damage| damage.page.get() == *page)), "{context}");
    if damages.is_empty() {
        // What was lost was written again, or belongs to no page in use.
        assert!(refused.is_empty(), "{context}");
        return false;
    }
    let error = merge(&tree, others, 64 << 10).expect_err("a merge of every row meets the page");
    assert!(damages.iter().any(|damage| damage.page.get() == page_of(&error)), "{context}: {error}");
    true
}

/// A kernel drops the changed pages of a file whose sync has failed, and shows what the device has. A tree that has stopped
/// is still read: each row is what it was before, or refused.
#[test]
fn old_pages_shown_after_a_failed_sync_are_refused() {
    let mut scene = Scene::new(4, 1, false);
    let before = scene.disk.copy();
    let changes = scene.workload.changes(300, 2);
    let tree = scene.open(&scene.disk).unwrap();
    let target = FaultTarget::Path { prefix: PAGE_FILE_PATH.to_owned(), operations: Operations::Syncs };
    scene.disk.inject(Fault { target, error: FaultError::Number(5), skip: 2, count: 1 });
    merge(&tree, &changes, 32 << 10).unwrap_err();
    assert!(tree.failure().is_some());
    let keys = scene.model.keys().chain(changes.keys());
    let shown: Vec<_> = keys.map(|key| (key.clone(), tree.get(key).unwrap())).collect();
    for (page, old) in scene.changed_pages(&before) {
        scene.disk.overwrite(PAGE_FILE_PATH, page * PAGE_BYTES as u64, &old);
    }
    let mut refused = 0;
    for (key, value) in shown {
        match tree.get(&key) {
            Ok(found) => assert_eq!(found, value, "an old row of {key:?} is served"),
            Err(error) => {
                page_of(&error);
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "only {refused} reads met an old page");
}

/// A chunk is in place, the next one overwrites its images in the recovery file, and the power goes before the header. Then the
/// first page of the space map rots: that page is damaged, and nothing else.
#[test]
fn a_rotten_page_of_the_map_is_not_taken_for_an_older_root_after_a_chunk_that_was_cut_short() {
    let mut scene = Scene::new(6, 1, false);
    let (first, second) = (scene.workload.changes(60, 2), scene.workload.changes(120, 2));
    let one_chunk = |tree: &Tree, changes: &Changes| {
        let plan = tree.merge_chunk(&mut Source::new(changes), u64::MAX, STAMP)?;
        tree.apply_chunk(plan, None)
    };
    let mut found = 0;
    for call in 0.. {
        let disk = scene.disk.copy();
        let tree = scene.open(&disk).unwrap();
        one_chunk(&tree, &first).unwrap();
        disk.crash_at(disk.calls() + call);
        if one_chunk(&tree, &second).is_ok() {
            break;
        }
        let disk = disk.after_power_loss(PowerLoss::KeepAll);
        disk.flip_bit(PAGE_FILE_PATH, 100, 0);
        let opened = match Tree::open(&disk, TreeAccess::Read, scene.options.clone()) {
            // Of the first chunk's images enough are left to show that not all of them are in place.
            Err(TreeError::File { .. }) => continue,
            opened => opened.unwrap_or_else(|error| panic!("call {call}: {error}")),
        };
        if opened.reapplied_chunk.is_none() {
            let damages = damages_of(&opened.tree);
            assert!(damages.iter().any(|damage| damage.page.get() == 0), "call {call}: {damages:?}");
            let rotten = |damage: &Damage| damage.page.get() == 0 || !damage.what.contains("lost a write");
            assert!(damages.iter().all(rotten), "call {call}: {damages:?}");
            found += 1;
        }
    }
    assert!(found > 0, "no power loss left a chunk without its images");
}

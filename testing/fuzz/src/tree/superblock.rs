//! The superblock.

use seawall_io::OpenMode;
use seawall_tree::{SUPERBLOCK_PATH, Superblock, SuperblockFile};

use super::exercise::exercise;
use super::sample::{SAMPLE, seal_block};
use crate::input::{Choices, Input, mutate};

/// The superblock, on its own and as that of a tree.
pub fn superblock(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let mut file = SAMPLE.superblock.clone();
    mutate(&mut file, &mut input);
    for (index, block) in file.chunks_mut(4096).enumerate() {
        if choices.has(if index == 0 { 0 } else { 6 }) {
            seal_block(block);
        }
    }
    let disk = SAMPLE.disk.copy();
    disk.write_file(SUPERBLOCK_PATH, &file);
    if choices.has(7) {
        disk.truncate(SUPERBLOCK_PATH, u64::try_from(file.len() - data.len().min(file.len())).unwrap_or(0));
    }
    let mut stored = None;
    match SuperblockFile::open(&disk, OpenMode::Write) {
        Ok((mut open, values, _)) => {
            open.store(&values).expect("the simulated disk takes everything");
            let (_, again, damaged) =
                SuperblockFile::open(&disk, OpenMode::Read).expect("it was stored just now");
            assert_eq!(again, Superblock { sequence: again.sequence, ..values.clone() });
            assert!(again.sequence > values.sequence, "the newer copy counts");
            assert!(damaged.is_none() || choices.has(7), "the older copy was overwritten: {damaged:?}");
            stored = Some(values);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if stored.is_some_and(|values| values.page_bytes == 4096) {
        exercise(&disk, choices);
    }
}

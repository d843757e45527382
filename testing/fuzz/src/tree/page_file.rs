//! A page file with changed pages.

use std::collections::BTreeSet;

use seawall_tree::{PAGE_FILE_PATH, SUPERBLOCK_PATH};

use super::exercise::exercise;
use super::sample::{PAGE_BYTES, SAMPLE, seal, seal_block};
use crate::input::{Choices, Input, patch_at};

/// A page file with changed pages, and checksums that say that they are right.
pub fn page_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let mut pages = SAMPLE.pages.clone();
    let mut changed = BTreeSet::new();
    while !input.is_empty() && changed.len() < 16 {
        let page = usize::from(input.byte()) * PAGE_BYTES % pages.len();
        changed.insert(page);
        let change = Choices::of(&mut input);
        match change.number(3, 8) {
            // Another page in its place.
            0 => {
                let other = usize::from(input.byte()) * PAGE_BYTES % pages.len();
                pages.copy_within(other..other + PAGE_BYTES, page);
                let number = (page / PAGE_BYTES) as u64;
                pages[page + 8..page + 16].copy_from_slice(&number.to_le_bytes());
            }
            _ => {
                let place = usize::from(input.u16());
                let patch = input.take(usize::from(change.number(0, 8)) + 1);
                patch_at(&mut pages[page..page + PAGE_BYTES], place % PAGE_BYTES, patch, change.has(7));
            }
        }
    }
    for page in changed.into_iter().filter(|_| !choices.has(0)) {
        reseal(&mut pages, page);
    }
    if choices.has(6) {
        pages.truncate(pages.len() - PAGE_BYTES - 5);
    }
    let disk = SAMPLE.disk.copy();
    if !choices.has(0) {
        let mut superblock = SAMPLE.superblock.clone();
        refer_to_images(&mut pages, &mut superblock);
        disk.write_file(SUPERBLOCK_PATH, &superblock);
    }
    disk.write_file(PAGE_FILE_PATH, &pages);
    let is_fine = exercise(&disk, choices);
    assert!(is_fine || choices.has(1) || pages != SAMPLE.pages, "nothing was changed");
}

/// Gives parents the marks of their children, from the leaves up, and the superblock those of root and space map: an image
/// that nothing refers to would be refused before anything in it is looked at.
fn refer_to_images(pages: &mut [u8], superblock: &mut [u8]) {
    let mark_of = |pages: &[u8], page: usize| -> Option<[u8; 4]> {
        pages.get(page.checked_mul(PAGE_BYTES)?..)?.first_chunk().copied()
    };
    for level in 1..4 {
        for page in (0..pages.len() / PAGE_BYTES).map(|page| page * PAGE_BYTES) {
            if pages[page + 17..page + 19] != [2, level] {
                continue;
            }
            let count = usize::from(u16::from_le_bytes([pages[page + 20], pages[page + 21]]));
            let prefix = usize::from(u16::from_le_bytes([pages[page + 22], pages[page + 23]]));
            let children_at = 80 + prefix + 6 * count.saturating_sub(1);
            for at in (0..count).map(|index| children_at + 12 * index).filter(|at| at + 12 <= PAGE_BYTES) {
                let number = &pages[page + at..page + at + 7];
                let child = number.iter().rev().fold(0, |child: u64, byte| child << 8 | u64::from(*byte));
                let mark = usize::try_from(child).ok().and_then(|child| mark_of(pages, child));
                if let Some(mark) = mark {
                    pages[page + at + 8..page + at + 12].copy_from_slice(&mark);
                }
            }
            seal(&mut pages[page..page + PAGE_BYTES]);
        }
    }
    for block in superblock.chunks_exact_mut(4096) {
        block[144..148].copy_from_slice(&pages[PAGE_BYTES..PAGE_BYTES + 4]);
        block[148..152].copy_from_slice(&pages[..4]);
        seal_block(block);
    }
}

/// Gives the page at `place` its checksum; an extent's covers all its pages.
fn reseal(pages: &mut [u8], place: usize) {
    let is_extent = pages[place + 17] == 3;
    let count = u32::from_le_bytes(pages[place + 80..place + 84].try_into().expect("four bytes"));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let count = if is_extent && (1..=128).contains(&count) { count } else { 1 };
    let end = (place + count * PAGE_BYTES).min(pages.len());
    seal(&mut pages[place..end]);
}

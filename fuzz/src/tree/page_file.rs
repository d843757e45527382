//! A page file with changed pages.

use std::collections::BTreeSet;

use seawall_tree::PAGE_FILE_PATH;

use super::exercise::exercise;
use super::sample::{PAGE_BYTES, SAMPLE, seal};
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
    disk.write_file(PAGE_FILE_PATH, &pages);
    let is_fine = exercise(&disk, choices);
    assert!(is_fine || choices.has(1) || pages != SAMPLE.pages, "nothing was changed");
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

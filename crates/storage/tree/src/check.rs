//! A check of the whole tree: every page that can be reached, and every page that can not.
//!
//! Reads each page past the cache, so that it sees what a crash would leave. Damage is reported and the check goes on
//! with the rest; what lies below an unreadable page is not seen, so leaked pages are reported only if all was readable.
//!
//! A check of a large tree takes long, and keeps the writer out. So it can be made in parts: between two, the tree may change.
//! Each part sees one tree and goes on at the key where the one before ended; what is known of pages in use begins anew, and
//! leaked pages are not looked for any more.

use seawall_types::PageId;

use crate::error::TreeError;
use crate::page::{
    CHILD_HAS_OVERFLOW, Child, DELETED_OUTSIDE_OF_RUNS, InteriorView, LeafValue, LeafView, OverflowReference,
    RowKey,
};
use crate::published::{PublishedPages, ROOT, ROOT_PAGE};
use crate::run_keys::is_run_key;
use crate::space_map::{MapReferences, SpaceMapView, pages_per_map};
use crate::tree::Tree;

/// Whether something is wrong on disk, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// What is on disk is not as it must be.
    Damaged,
    /// The disk did not let it be read: nothing is known about what is on it.
    Unreadable,
}

/// Something that is not as it must be, or that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which of the two.
    pub kind: DamageKind,
    /// The file.
    pub path: String,
    /// Where in the file.
    pub offset: u64,
    /// The page there.
    pub page: PageId,
    /// The keys it stands for: from this one on, or all smaller ones. Not known for a page of the space map.
    pub lower: Option<Vec<u8>>,
    /// Up to this key, exclusive, or all greater ones.
    pub upper: Option<Vec<u8>>,
    /// What is wrong.
    pub what: String,
}

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Pages read, those of overflow extents and of the space map included.
    pub pages: u64,
    /// Leaves.
    pub leaves: u64,
    /// Interior pages.
    pub interiors: u64,
    /// Pages of overflow extents.
    pub overflow_pages: u64,
    /// Pages of the space map.
    pub space_map_pages: u64,
    /// Rows, those that are deleted in sorted runs included.
    pub rows: u64,
    /// Bytes of their keys.
    pub key_bytes: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Bytes in use on leaves, for their fill.
    pub leaf_bytes: u64,
    /// Pages from root to leaf.
    pub depth: u8,
    /// Damages reported.
    pub damages: u64,
    /// Parts that the check was made in.
    pub parts: u64,
}

/// How far a check is.
#[derive(Debug)]
pub struct CheckWalk {
    /// Pages that something refers to, as far as this part has come.
    used: PageSet,
    summary: CheckSummary,
    all_readable: bool,
    /// Rows below this key are checked.
    resume: Option<Vec<u8>>,
}

impl Default for CheckWalk {
    fn default() -> CheckWalk {
        CheckWalk {
            used: PageSet::default(),
            summary: CheckSummary::default(),
            all_readable: true,
            resume: None,
        }
    }
}

impl CheckWalk {
    /// Whether no part was made yet.
    pub fn is_new(&self) -> bool {
        self.summary.parts == 0
    }
}

impl Tree {
    /// Checks every page of the tree and of the space map, and reports what is wrong. `progress` is told how many pages
    /// were checked so far, of how many at most. Keeps the writer out until it is done; readers go on.
    pub fn check(&self, report: &mut dyn FnMut(Damage), progress: &mut dyn FnMut(u64, u64)) -> CheckSummary {
        let mut walk = CheckWalk::default();
        let summary = self.check_part(&mut walk, report, progress, &mut || false);
        summary.expect("a check that is never asked to pause comes to its end")
    }

    /// A part of a check, as `check`: until it is done, or `pause` says, between two leaves, that the writer should have its
    /// turn. `None` if there is more to check, by another call with the same `walk`.
    pub fn check_part(
        &self,
        walk: &mut CheckWalk,
        report: &mut dyn FnMut(Damage),
        progress: &mut dyn FnMut(u64, u64),
        pause: &mut dyn FnMut() -> bool,
    ) -> Option<CheckSummary> {
        // A tree that may not be written, or whose writer has failed, has no writer to be kept out.
        let mut writer = self.lock_writer().ok();
        // What is checked is what the file has. A write that fails here is the writer's to tell.
        if writer.as_mut().is_some_and(|writer| writer.wait_in_place().is_ok()) {
            self.pages.drop_overlay();
        }
        check_pages(&self.pages, walk, report, progress, pause)
    }
}

fn check_pages(
    pages: &PublishedPages,
    walk: &mut CheckWalk,
    report: &mut dyn FnMut(Damage),
    progress: &mut dyn FnMut(u64, u64),
    pause: &mut dyn FnMut() -> bool,
) -> Option<CheckSummary> {
    walk.summary.parts += 1;
    if walk.resume.is_some() {
        walk.used = PageSet::default();
        walk.all_readable = false;
    }
    let mut check = Check { pages, report, progress, pause, walk, leaves: 0, next: None };
    check.tree();
    if let Some(next) = check.next.take() {
        walk.resume = Some(next);
        return None;
    }
    check.space_map();
    Some(walk.summary)
}

/// The keys that a page stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Range<'a> {
    lower: Option<RowKey<'a>>,
    upper: Option<RowKey<'a>>,
}

struct Check<'a> {
    pages: &'a PublishedPages,
    report: &'a mut dyn FnMut(Damage),
    progress: &'a mut dyn FnMut(u64, u64),
    pause: &'a mut dyn FnMut() -> bool,
    walk: &'a mut CheckWalk,
    /// Checked in this part.
    leaves: u64,
    /// Where the next part begins, once this one has been asked to end.
    next: Option<Vec<u8>>,
}

impl Check<'_> {
    fn tree(&mut self) {
        let level = match self.pages.stored_page(ROOT) {
            Ok(root) => root.view().level(),
            Err(error) => {
                self.walk.used.insert(ROOT_PAGE);
                return self.unreadable(ROOT_PAGE, Range::default(), &error);
            }
        };
        self.walk.summary.depth = level.saturating_add(1);
        self.subtree(Child::new(ROOT), level, Range::default());
    }

    /// Ends: each step down is one level lower, and a page is entered once.
    fn subtree(&mut self, child: Child, level: u8, range: Range<'_>) {
        if self.is_passed_over(level, range) || !self.enter(child.page, range) {
            return;
        }
        let page = match self.pages.stored_page(child.reference()) {
            Ok(page) => page,
            Err(error) => return self.unreadable(child.page, range, &error),
        };
        self.count_page();
        let view = page.view();
        if view.level() != level {
            self.walk.all_readable = false;
            return self.wrong(
                child.page,
                range,
                format!("level {} where {level} is expected", view.level()),
            );
        }
        if let Ok(leaf) = view.leaf() {
            self.leaf(child, leaf, range);
        } else if let Ok(interior) = view.interior() {
            self.interior(child.page, interior, range);
        } else {
            self.walk.all_readable = false;
            self.wrong(child.page, range, format!("{:?} where a page of the tree is expected", view.kind()));
        }
    }

    /// Whether the subtree was checked by an earlier part, or is for the next one.
    fn is_passed_over(&mut self, level: u8, range: Range<'_>) -> bool {
        if self.next.is_some() {
            return true;
        }
        if let (Some(resume), Some(upper)) = (&self.walk.resume, range.upper)
            && upper.compare(resume).is_le()
        {
            return true;
        }
        if let (0, Some(lower)) = (level, range.lower) {
            self.leaves += 1;
            // At least one leaf, whoever waits.
            if self.leaves > 1 && (self.pause)() {
                self.next = Some(lower.to_vec());
            }
        }
        self.next.is_some()
    }

    fn interior(&mut self, page: PageId, interior: InteriorView<'_>, range: Range<'_>) {
        self.walk.summary.interiors += 1;
        let last = interior.len() - 1;
        if let (Some(first), Some(final_fence)) = (interior.upper_fence(0), interior.lower_fence(last)) {
            let inside = range.lower.is_none_or(|lower| first > lower)
                && range.upper.is_none_or(|upper| final_fence < upper);
            if !inside {
                self.wrong(page, range, "separators outside of the page's range".to_owned());
            }
        }
        for index in 0..interior.len() {
            let below = Range {
                lower: interior.lower_fence(index).or(range.lower),
                upper: interior.upper_fence(index).or(range.upper),
            };
            self.subtree(interior.child(index), interior.level() - 1, below);
        }
    }

    fn leaf(&mut self, child: Child, leaf: LeafView<'_>, range: Range<'_>) {
        self.walk.summary.leaves += 1;
        self.walk.summary.leaf_bytes += leaf.used_bytes() as u64;
        if leaf.is_empty() && child.page != ROOT_PAGE {
            self.wrong(child.page, range, "a leaf without rows".to_owned());
        }
        if !leaf.is_empty() {
            let inside = range.lower.is_none_or(|lower| leaf.key(0) >= lower)
                && range.upper.is_none_or(|upper| leaf.key(leaf.len() - 1) < upper);
            if !inside {
                self.wrong(child.page, range, "rows outside of the leaf's range".to_owned());
            }
        }
        if child.page != ROOT_PAGE && leaf.has_overflow() != (child.flags & CHILD_HAS_OVERFLOW != 0) {
            self.wrong(child.page, range, "its parent's flag for overflow values is wrong".to_owned());
        }
        for row in leaf.rows() {
            // Leaves were joined since: these rows are counted.
            if self.walk.resume.as_ref().is_some_and(|resume| row.key.compare(resume).is_lt()) {
                continue;
            }
            self.walk.summary.rows += 1;
            self.walk.summary.key_bytes += row.key.len() as u64;
            let place = Range { lower: Some(row.key), upper: Some(row.key) };
            match row.value {
                LeafValue::Inline(value) => self.walk.summary.value_bytes += value.len() as u64,
                LeafValue::Overflow(reference) => {
                    self.walk.summary.value_bytes += reference.total_bytes;
                    self.overflow(reference, place);
                }
                LeafValue::Deleted if is_run_key(row.key) => {}
                LeafValue::Deleted => self.wrong(child.page, place, DELETED_OUTSIDE_OF_RUNS.to_string()),
            }
        }
    }

    fn overflow(&mut self, reference: OverflowReference, row: Range<'_>) {
        let (mut next, mut position) = (Some(reference.first), 0);
        let mut buffer = Vec::new();
        while let Some(at) = next {
            let (first, left) = (at.page, reference.total_bytes - position);
            let header = match self.pages.file().read_extent(at, left, &mut buffer, |extent| extent.header) {
                Ok(header) => header,
                Err(error) => return self.unreadable(first, row, &error),
            };
            if header.total_bytes != reference.total_bytes || header.position != position {
                self.walk.all_readable = false;
                return self.wrong(first, row, "an extent does not continue its value".to_owned());
            }
            for page in first.get()..first.get() + header.pages as u64 {
                self.enter(PageId::new(page), row);
                self.walk.summary.overflow_pages += 1;
                self.count_page();
            }
            position += header.data_bytes as u64;
            next = header.next;
        }
    }

    fn space_map(&mut self) {
        let per_map = pages_per_map(self.pages.format());
        let mut marks = MapReferences::default();
        for index in 0.. {
            let id = PageId::new(index * per_map);
            let page = match self.pages.stored_page(marks.next(id)) {
                Ok(page) => page,
                Err(error) => return self.unreadable(id, Range::default(), &error),
            };
            self.count_page();
            self.walk.summary.space_map_pages += 1;
            if !self.walk.used.insert(id) {
                self.wrong(id, Range::default(), "the tree refers to a page of the space map".to_owned());
            }
            let map = match SpaceMapView::new(page.view()) {
                Ok(map) => map,
                Err(damage) => return self.wrong(id, Range::default(), damage.to_string()),
            };
            marks.add(&map);
            self.allocations(id.get(), per_map, &map);
            if !map.has_next() {
                let end = id.get() + per_map;
                if let Some(page) = self.walk.used.first_from(end) {
                    self.wrong(page, Range::default(), "in use but past the end of the space map".to_owned());
                }
                return;
            }
        }
    }

    /// Compares one map page with what was reached; one report for pages side by side.
    fn allocations(&mut self, first: u64, count: u64, map: &SpaceMapView<'_>) {
        let verdict = |check: &Self, page: u64| {
            let index = usize::try_from(page - first).expect("a map page has fewer than 2^32 bits");
            match (map.is_allocated(index), check.walk.used.contains(PageId::new(page))) {
                (true, false) if check.walk.all_readable => Some("allocated, but nothing refers to them"),
                (false, true) => Some("in use, but marked as free"),
                _ => None,
            }
        };
        let mut page = first;
        while page < first + count {
            let Some(what) = verdict(self, page) else {
                page += 1;
                continue;
            };
            let start = page;
            while page < first + count && verdict(self, page) == Some(what) {
                page += 1;
            }
            self.wrong(
                PageId::new(start),
                Range::default(),
                format!("{} pages from here on: {what}", page - start),
            );
        }
    }

    /// Notes that something refers to the page; `false` if something else does too.
    fn enter(&mut self, page: PageId, range: Range<'_>) -> bool {
        // A page past the end of the file is not noted: the set stays as small as the file. Reading it fails.
        if page.get() >= self.pages.file().page_count() {
            return true;
        }
        let is_first = self.walk.used.insert(page);
        if !is_first {
            self.wrong(page, range, "more than one reference to the page".to_owned());
        }
        is_first
    }

    fn count_page(&mut self) {
        self.walk.summary.pages += 1;
        (self.progress)(self.walk.summary.pages, self.pages.file().page_count());
    }

    fn unreadable(&mut self, page: PageId, range: Range<'_>, error: &TreeError) {
        self.walk.all_readable = false;
        let kind = if error.is_damage() { DamageKind::Damaged } else { DamageKind::Unreadable };
        let what = match error {
            TreeError::Page { damage, .. } => damage.to_string(),
            TreeError::Truncated { .. } => "the file ends before the page does".to_owned(),
            other => other.to_string(),
        };
        self.report(kind, page, range, what);
    }

    fn wrong(&mut self, page: PageId, range: Range<'_>, what: String) {
        self.report(DamageKind::Damaged, page, range, what);
    }

    fn report(&mut self, kind: DamageKind, page: PageId, range: Range<'_>, what: String) {
        self.walk.summary.damages += u64::from(kind == DamageKind::Damaged);
        (self.report)(Damage {
            kind,
            path: self.pages.file().path().to_owned(),
            offset: self.pages.format().offset_of(page),
            page,
            lower: range.lower.map(|key| key.to_vec()),
            upper: range.upper.map(|key| key.to_vec()),
            what,
        });
    }
}

/// A set of pages; one bit for each page of the file.
#[derive(Debug, Default)]
struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// Adds a page; `false` if it was there.
    fn insert(&mut self, page: PageId) -> bool {
        let (word, bit) = PageSet::place(page.get());
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    fn contains(&self, page: PageId) -> bool {
        let (word, bit) = PageSet::place(page.get());
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    fn first_from(&self, start: u64) -> Option<PageId> {
        (start..self.words.len() as u64 * 64).map(PageId::new).find(|page| self.contains(*page))
    }

    fn place(page: u64) -> (usize, u64) {
        (usize::try_from(page / 64).expect("fewer pages than memory"), 1 << (page % 64))
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SimulatedDisk;
    use seawall_types::Lsn;

    use super::*;
    use crate::page::PAGE_FILE_PATH;
    use crate::page::tests::format_of;
    use crate::page::{InteriorBuilder, Page, Row, encode_leaf};
    use crate::page_file::{PageFile, PageImage};
    use crate::run_keys::RUN_NUMBERS;
    use crate::space_map::SpaceMap;

    fn leaf(page: u64, keys: &[&[u8]]) -> Page {
        let row = |key: &&'static [u8]| Row { key: RowKey::from(*key), value: LeafValue::Inline(b"value") };
        let keys: Vec<&'static [u8]> = keys.iter().map(|key| &*key.to_vec().leak()).collect();
        let rows: Vec<Row<'_>> = keys.iter().map(row).collect();
        encode_leaf(&format_of(4096), &rows, PageId::new(page), Lsn::ZERO)
    }

    fn root(level: u8, children: &[(&[u8], &Page)]) -> Page {
        let mut builder = InteriorBuilder::new(format_of(4096));
        builder.push_first(Child::of(children[0].1));
        for (separator, child) in &children[1..] {
            builder.push(RowKey::from(*separator), Child::of(child));
        }
        builder.finish(level, ROOT_PAGE, Lsn::ZERO)
    }

    /// A map page that says that pages 0 and 1 and `count` more are allocated.
    fn map(count: u32) -> Page {
        let format = format_of(4096);
        let first = SpaceMap::first_image(&format, Lsn::ZERO);
        if count == 0 {
            return first;
        }
        let mut space = SpaceMap::new(format, Box::new(move |_| Ok(first.clone())));
        space.allocate(count).unwrap();
        space.seal(Lsn::ZERO).unwrap().remove(0)
    }

    fn disk_with(pages: &[Page]) -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        let file = PageFile::create(&disk, format_of(4096)).unwrap();
        file.write(&pages.iter().map(PageImage::from).collect::<Vec<_>>()).unwrap();
        file.sync().unwrap();
        seawall_io::Disk::sync_directory(&disk, "").unwrap();
        disk
    }

    fn check_of(disk: &SimulatedDisk) -> (CheckSummary, Vec<(u64, String)>) {
        let file = PageFile::open(disk, format_of(4096), seawall_io::OpenMode::Read).unwrap();
        let mut found = Vec::new();
        let mut report = |damage: Damage| {
            assert_eq!(damage.offset, damage.page.get() * 4096);
            found.push((damage.page.get(), damage.what));
        };
        let pages = PublishedPages::new(file, 0);
        let mut walk = CheckWalk::default();
        let summary = check_pages(&pages, &mut walk, &mut report, &mut |_, _| (), &mut || false);
        let summary = summary.unwrap();
        assert_eq!(summary.damages, found.len() as u64);
        (summary, found)
    }

    fn leaves() -> [Page; 3] {
        [leaf(2, &[b"a", b"b"]), leaf(3, &[b"k", b"m"]), leaf(4, &[b"r", b"z"])]
    }

    /// A tree of a root and these leaves.
    fn tree_of([first, second, third]: [Page; 3]) -> Vec<Page> {
        let children: [(&[u8], &Page); 3] = [(b"", &first), (b"k", &second), (b"r", &third)];
        vec![map(3), root(1, &children), first, second, third]
    }

    fn sound() -> Vec<Page> {
        tree_of(leaves())
    }

    #[test]
    fn sound_tree_passes() {
        let (summary, found) = check_of(&disk_with(&sound()));
        assert_eq!(found, []);
        assert_eq!((summary.pages, summary.leaves, summary.rows, summary.depth), (5, 3, 6, 2));
    }

    #[test]
    fn each_fault_is_reported_with_its_page() {
        let [first, second, third] = leaves();
        let with = |index: usize, page: Page| {
            let mut pages = sound();
            pages[index] = page;
            pages
        };
        let twice = root(1, &[(b"", &first), (b"k", &second), (b"r", &first)]);
        let faults: [(Vec<Page>, u64, &str); 7] = [
            (with(0, map(2)), 4, "marked as free"),
            (with(0, map(7)), 5, "nothing refers"),
            (with(1, twice), 2, "more than one reference"),
            (with(1, root(2, &[(b"", &first)])), 2, "level 0 where 1"),
            (tree_of([first.clone(), leaf(3, &[b"k", b"r"]), third]), 3, "outside"),
            (tree_of([first, second, leaf(4, &[])]), 4, "without rows"),
            (with(3, leaf(3, &[b"k"])), 3, "lost a write"),
        ];
        for (pages, damaged, what) in faults {
            let (_, found) = check_of(&disk_with(&pages));
            assert!(
                found.iter().any(|(page, text)| *page == damaged && text.contains(what)),
                "{what}: {found:?}"
            );
        }
    }

    #[test]
    fn deleted_rows_stand_in_runs_only() {
        let numbers = RUN_NUMBERS;
        for (number, is_right) in
            [(numbers.start - 1, false), (numbers.start, true), (numbers.end - 1, true), (numbers.end, false)]
        {
            let [first, second, _] = leaves();
            let key = [number.to_be_bytes(), [7; 8]].concat();
            let value =
                |key: &'static [u8]| Row { key: RowKey::from(key), value: LeafValue::Inline(b"value") };
            let deleted = Row { key: RowKey::from(&key[..]), value: LeafValue::Deleted };
            let third = encode_leaf(&format_of(4096), &[value(b"r"), deleted], PageId::new(4), Lsn::ZERO);
            let (summary, found) = check_of(&disk_with(&tree_of([first, second, third])));
            assert_eq!(found.is_empty(), is_right, "{number:x}: {found:?}");
            assert!(found.iter().all(|(page, what)| *page == 4 && what.contains("deleted")), "{found:?}");
            assert_eq!(summary.rows, 6);
        }
    }

    #[test]
    fn flipped_bit_is_found_and_the_rest_checked() {
        let disk = disk_with(&sound());
        for page in 0..5 {
            for offset in (0..4096).step_by(61) {
                let damaged = disk.copy();
                damaged.flip_bit(PAGE_FILE_PATH, page * 4096 + offset, 5);
                let (summary, found) = check_of(&damaged);
                assert_eq!(found.len(), 1, "page {page} offset {offset}: {found:?}");
                assert_eq!(found[0].0, page);
                assert!(page < 2 || summary.leaves == 2);
            }
        }
        let cut = disk.copy();
        cut.truncate(PAGE_FILE_PATH, 4 * 4096 + 100);
        assert_eq!(check_of(&cut).1, [(4, "the file ends before the page does".to_owned())]);
    }
}

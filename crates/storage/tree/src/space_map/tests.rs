//! Against sets of pages, over maps of several pages.

use super::*;
use seawall_simulation::SeededRandom;
use seawall_types::DatabaseId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

type Images = Arc<Mutex<BTreeMap<u64, Page>>>;

fn map_over(images: &Images) -> SpaceMap {
    let images = Arc::clone(images);
    let read = move |at: PageReference| {
        let page = images.lock().unwrap()[&at.page.get()].clone();
        assert!(at.page == FIRST_MAP.page || page.reference() == at, "{at:?} is referred to");
        Ok(page)
    };
    SpaceMap::new(format(), Box::new(read))
}

fn format() -> PageFormat {
    PageFormat::new(4096, &DatabaseId::from_bytes([1; 16])).unwrap()
}

fn store(map: &mut SpaceMap, images: &Images) -> Vec<PageRun> {
    for page in map.seal(Lsn::new(5)).unwrap() {
        let id = page.view().id();
        let page = Page::decode(&format(), id, page.bytes()).unwrap();
        SpaceMapView::new(page.view()).unwrap();
        images.lock().unwrap().insert(id.get(), page);
    }
    let runs = map.freed_runs();
    map.commit().unwrap();
    runs.iter().for_each(|run| map.release(*run).unwrap());
    runs
}

#[test]
fn random_allocations_agree_with_a_set_of_pages() {
    let images: Images = Arc::default();
    images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
    let per_map = pages_per_map(&format());
    let (mut durable, mut freed) = (BTreeSet::from([0, 1]), Vec::new());
    let mut map = map_over(&images);
    let mut random = seawall_simulation::SeededRandom::new(7);
    for round in 0..400 {
        let mut busy = durable.clone();
        for _ in 0..random.below(30) {
            let count = if random.below(4) == 0 { 1 + random.below(1500) } else { 1 };
            let first = map.allocate(u32::try_from(count).unwrap()).unwrap().get();
            for page in first..first + count {
                assert!(busy.insert(page), "page {page} was handed out twice, round {round}");
                assert_ne!(page % per_map, 0, "a map page was handed out");
            }
        }
        if random.below(5) == 0 {
            map.roll_back().unwrap();
            continue;
        }
        let candidates: Vec<u64> = durable.iter().copied().filter(|page| page % per_map > 1).collect();
        for page in candidates {
            if random.below(3) == 0 {
                map.free(PageRun { first: PageId::new(page), count: 1 });
                freed.push(page);
            }
        }
        let runs = store(&mut map, &images);
        assert_eq!(runs.iter().map(|run| u64::from(run.count)).sum::<u64>(), freed.len() as u64);
        freed.drain(..).for_each(|page| assert!(busy.remove(&page)));
        durable = busy;
        if random.below(3) == 0 {
            map = map_over(&images);
        }
        let counted: u32 = images
            .lock()
            .unwrap()
            .values()
            .map(|page| SpaceMapView::new(page.view()).unwrap().allocated_count())
            .sum();
        let maps = images.lock().unwrap().len() as u64;
        // Page 0 is in the set from the start.
        assert_eq!(u64::from(counted), durable.len() as u64 + maps - 1, "round {round}");
    }
    assert!(images.lock().unwrap().len() > 1, "the test never needed a second map page");
}

/// Against a list of all pages: the lowest stretch that is long enough, and as much of it as was asked for.
#[test]
fn reserve_up_to_takes_what_there_is() {
    let images: Images = Arc::default();
    images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
    let per_map = usize::try_from(pages_per_map(&format())).unwrap();
    let mut map = map_over(&images);
    let mut random = seawall_simulation::SeededRandom::new(11);
    let mut below = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
    let mut is_busy: Vec<bool> = (0..3 * per_map).map(|page| page % per_map == 0).collect();
    // Nearly the whole first map page, so that some runs come to lie under the second.
    map.reserve(u32::try_from(per_map - 1_000).unwrap()).unwrap();
    is_busy[..per_map - 998].fill(true);
    let (mut short_runs, mut last_end) = (0, per_map - 998);
    for round in 0..600 {
        let at_least = 1 + below(60);
        let count = at_least + below(200);
        let narrow = |count: usize| u32::try_from(count).unwrap();
        let run = map.reserve_up_to(narrow(count), narrow(at_least)).unwrap();
        let (first, taken) = (usize::try_from(run.first.get()).unwrap(), run.count as usize);
        let end = first + taken;
        assert!(at_least <= taken && taken <= count, "round {round}");
        assert!(!is_busy[first..end].contains(&true), "{run:?} is taken, round {round}");
        assert!(taken == count || is_busy[end], "more was free behind {run:?}, round {round}");
        let longest = is_busy[..first].split(|busy| *busy).map(<[bool]>::len).max().unwrap();
        assert!(longest < at_least, "{longest} pages are free before {run:?}, round {round}");
        short_runs += u32::from(taken < count);
        is_busy[first..end].fill(true);
        last_end = last_end.max(end);
        // A hole, of any length.
        let from = 2 + below(last_end - 2);
        for page in (from..from + below(120)).filter(|page| page % per_map > 0) {
            if std::mem::take(&mut is_busy[page]) {
                map.release(PageRun { first: PageId::new(page as u64), count: 1 }).unwrap();
            }
        }
    }
    assert!(short_runs > 50, "{short_runs} runs were shorter than asked for");
    assert!(last_end > per_map, "the test never needed a second map page");
}

#[test]
fn a_page_freed_twice_is_refused() {
    let images: Images = Arc::default();
    images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
    let mut map = map_over(&images);
    map.free(PageRun { first: PageId::new(9), count: 1 });
    assert!(map.seal(Lsn::ZERO).is_err());
}

#[test]
fn what_a_bulk_load_took_is_not_written_as_allocated() {
    let images: Images = Arc::default();
    images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
    let mut map = map_over(&images);
    let first = map.reserve(10).unwrap();
    let other = map.allocate(1).unwrap();
    assert_eq!(other.get(), first.get() + 10);
    store(&mut map, &images);
    let page = images.lock().unwrap()[&0].clone();
    assert_eq!(SpaceMapView::new(page.view()).unwrap().allocated_count(), 3);
    map.adopt(PageRun { first, count: 10 });
    assert!(map.unallocate(PageId::new(first.get() + 3)).unwrap());
    assert!(!map.unallocate(PageId::new(first.get() + 3)).unwrap());
    store(&mut map, &images);
    let page = images.lock().unwrap()[&0].clone();
    assert_eq!(SpaceMapView::new(page.view()).unwrap().allocated_count(), 12);
}

/// Beyond the first ten, a page of the map is referred to by one that another one refers to.
#[test]
fn pages_of_the_map_at_every_level_are_found_again_by_their_marks() {
    const MAPS: u64 = 125;
    let images: Images = Arc::default();
    images.lock().unwrap().insert(0, SpaceMap::first_image(&format(), Lsn::ZERO));
    let per_map = pages_per_map(&format());
    let mut map = map_over(&images);
    map.allocate(u32::try_from(per_map - 2).unwrap()).unwrap();
    for _ in 1..MAPS {
        map.allocate(u32::try_from(per_map - 1).unwrap()).unwrap();
    }
    store(&mut map, &images);
    // Each opens the map anew, and changes one page of it only.
    for index in [124, 111, 110, 101, 100, 12, 11, 10, 1] {
        let mut map = map_over(&images);
        let page = PageId::new(index * per_map + 9);
        map.free(PageRun { first: page, count: 1 });
        assert_eq!(store(&mut map, &images), [PageRun { first: page, count: 1 }]);
        assert_eq!(map_over(&images).allocate(1).unwrap(), page, "page {index} of the map");
    }
    let images = images.lock().unwrap();
    assert_eq!(images.len() as u64, MAPS);
    let mut references = MapReferences::default();
    for (id, page) in images.iter() {
        let at = references.next(PageId::new(*id));
        assert!(at == FIRST_MAP || at == page.reference(), "{at:?} is referred to, not {page:?}");
        references.add(&SpaceMapView::new(page.view()).unwrap());
    }
}

/// Whatever is taken and given back: the blocks that come back are those that became free as a whole, and nobody is handed a page of
/// them before they are released.
#[test]
fn blocks_that_are_free_as_a_whole_are_taken_once() {
    const BLOCK: u64 = 16;
    let images = Images::default();
    let first = SpaceMap::first_image(&format(), Lsn::new(1));
    images.lock().unwrap().insert(0, first);
    let mut map = map_over(&images);
    let mut random = SeededRandom::new(5);
    let mut held: BTreeSet<u64> = BTreeSet::new();
    let mut blocks_seen = 0;
    for _ in 0..2_000 {
        let taken = map.reserve_up_to(u32::try_from(random.range(1..40)).unwrap(), 1).unwrap();
        held.extend((0..u64::from(taken.count)).map(|page| taken.first.get() + page));
        let gone: Vec<u64> = held.iter().copied().filter(|_| random.chance(1, 6)).collect();
        let mut runs: Vec<PageRun> = Vec::new();
        gone.iter().for_each(|page| push_run(&mut runs, PageRun { first: PageId::new(*page), count: 1 }));
        gone.iter().for_each(|page| assert!(held.remove(page)));
        let blocks = map.release_but_blocks(&runs, 16).unwrap();
        let of_blocks: BTreeSet<u64> =
            blocks.iter().flat_map(|run| run.first.get()..run.first.get() + u64::from(run.count)).collect();
        let is_free = |block: u64| (block * BLOCK..(block + 1) * BLOCK).all(|page| !held.contains(&page));
        // Page 0 is that of the map, page 1 the root.
        let touched: BTreeSet<u64> = gone.iter().map(|page| page / BLOCK).collect();
        let expected: BTreeSet<u64> = touched
            .into_iter()
            .filter(|block| *block > 0 && is_free(*block))
            .flat_map(|block| block * BLOCK..(block + 1) * BLOCK)
            .collect();
        assert_eq!(of_blocks, expected);
        let other = map.reserve(1).unwrap().get();
        assert!(!of_blocks.contains(&other) && !held.contains(&other));
        map.release(PageRun { first: PageId::new(other), count: 1 }).unwrap();
        blocks_seen += blocks.len();
        blocks.into_iter().try_for_each(|run| map.release(run)).unwrap();
    }
    assert!(blocks_seen > 20, "{blocks_seen}");
}

use std::collections::BTreeMap;
use std::sync::Mutex;

use seawall_engine::BackupBase;
use seawall_simulation::{SeededRandom, seeds};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId};

use super::*;
use crate::manifest::RunInfo;
use crate::run::RunBuilder;

type Row = (Vec<u8>, Vec<u8>);
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A backup of a chain, as plain as it can be said.
#[derive(Clone, Debug, Default)]
struct Plain {
    rows: Rows,
    /// First and last key of each, in order.
    kept: Vec<(Vec<u8>, Vec<u8>)>,
    reached: Option<Vec<u8>>,
}

impl Plain {
    fn keeps(&self, key: &[u8]) -> bool {
        let is_behind = self.reached.as_ref().is_some_and(|reached| key >= &reached[..]);
        is_behind || self.kept.iter().any(|(first, last)| &first[..] <= key && key <= &last[..])
    }
}

/// What the chain stands for.
fn together(chain: &[Plain]) -> Rows {
    let mut rows = Rows::new();
    for backup in chain {
        rows.retain(|key, _| backup.keeps(key));
        rows.extend(backup.rows.clone());
    }
    rows
}

fn base() -> BackupBase {
    BackupBase {
        database: DatabaseId::from_bytes([1; 16]),
        timeline: TimelineId::FIRST,
        page_bytes: 8192,
        segment_bytes: 16 << 20,
        created_micros: 0,
        keys: None,
        redo_point: Lsn::new(1),
        complete_from: Lsn::new(1),
        in_doubt: 0,
        first_new_table: TableId::new(64),
        loading: Vec::new(),
    }
}

/// A backup in runs of as many rows as `run_rows` says, one after another; kinds take turns.
fn stored(id: usize, backup: &Plain, run_rows: &mut dyn FnMut() -> usize) -> (ChainMember, Vec<Vec<u8>>) {
    let mut rows: VecDeque<_> = backup.rows.iter().collect();
    let mut kept: VecDeque<_> = backup.kept.iter().map(|(first, last)| (first, last)).collect();
    let (mut runs, mut contents) = (Vec::new(), Vec::new());
    let mut is_rows = true;
    while !rows.is_empty() || !kept.is_empty() {
        let (kind, left) = if is_rows { (RunKind::Rows, &mut rows) } else { (RunKind::Kept, &mut kept) };
        is_rows = !is_rows;
        let taken: Vec<_> = left.drain(..run_rows().min(left.len())).collect();
        if taken.is_empty() {
            continue;
        }
        let mut run = RunBuilder::new();
        taken.into_iter().for_each(|(key, value)| run.push(key, value));
        let (number, rows) = (u32::try_from(contents.len()).unwrap(), run.rows());
        let content = run.finish(number, Lsn::new(1));
        runs.push(RunInfo { kind, rows, bytes: content.len() as u64, checksum: 0 });
        contents.push(content);
    }
    let reached = backup.reached.clone();
    let member = ChainMember {
        id: id.to_string(),
        base: base(),
        parent: None,
        goes_on_with: None,
        runs,
        reached,
        progress: None,
    };
    (member, contents)
}

/// What is read of a chain, and how often each run was fetched.
fn read(chain: &[Plain], threads: usize, run_rows: &mut dyn FnMut() -> usize) -> (Vec<Row>, Vec<Vec<u32>>) {
    read_behind(chain, threads, None, run_rows)
}

/// As `read`, of the rows behind a key.
fn read_behind(
    chain: &[Plain],
    threads: usize,
    after: Option<&[u8]>,
    run_rows: &mut dyn FnMut() -> usize,
) -> (Vec<Row>, Vec<Vec<u32>>) {
    let stored: Vec<_> = chain.iter().enumerate().map(|(id, backup)| stored(id, backup, run_rows)).collect();
    let counts = Mutex::new(stored.iter().map(|(_, contents)| vec![0; contents.len()]).collect::<Vec<_>>());
    let fetch = |member: &ChainMember, number: u32| {
        let (id, index) = (member.id.parse::<usize>().unwrap(), usize::try_from(number).unwrap());
        counts.lock().unwrap()[id][index] += 1;
        Ok(RunReader::open(stored[id].1[index].clone(), number).unwrap())
    };
    let members: Vec<ChainMember> = stored.iter().map(|(member, _)| member.clone()).collect();
    let mut found = Vec::new();
    let take = &mut |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    ChainReader { chain: &members, fetch: &fetch, threads, after }.read(&|_| {}, take).unwrap();
    (found, counts.into_inner().unwrap())
}

fn plain(rows: &str, kept: &[(&str, &str)]) -> Plain {
    let row = |key: char| (key.to_string().into_bytes(), rows.as_bytes().to_vec());
    let range = |(first, last): &(&str, &str)| (first.as_bytes().to_vec(), last.as_bytes().to_vec());
    Plain { rows: rows.chars().map(row).collect(), kept: kept.iter().map(range).collect(), reached: None }
}

fn keys(found: &[Row]) -> String {
    found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
}

/// The picture of the module.
#[test]
fn an_increment_has_its_rows_and_what_it_keeps_of_its_parent() {
    let parent = plain("abcdefghijklmnpqrstuvxz", &[]);
    let increment = plain("fst", &[("a", "d"), ("k", "p"), ("x", "z")]);
    let (found, _) = read(&[parent, increment], 1, &mut || 2);
    assert_eq!(keys(&found), "abcdfklmnpstxz");
    assert!(
        found.iter().all(|(key, value)| (value == b"fst") == b"fst".contains(&key[0])),
        "the newer one's"
    );
}

#[test]
fn the_ends_of_a_range_are_kept_and_a_range_of_one_key_too() {
    let parent = plain("abcde", &[]);
    for (kept, expected) in [
        (&[("b", "d")][..], "bcd"),
        (&[("c", "c")], "c"),
        (&[("a", "a"), ("e", "e")], "ae"),
        (&[("aa", "bz"), ("c0", "e")], "bde"),
        (&[], ""),
    ] {
        assert_eq!(keys(&read(&[parent.clone(), plain("", kept)], 3, &mut || 1).0), expected, "{kept:?}");
    }
}

#[test]
fn one_that_was_cut_short_keeps_all_that_it_has_not_reached() {
    let cut_short = Plain { reached: Some(b"c".to_vec()), ..plain("b", &[]) };
    let (found, _) = read(&[plain("abcde", &[]), cut_short.clone()], 1, &mut || 1);
    assert_eq!(keys(&found), "bcde");
    // What goes on with it keeps its rows below, and has the rest.
    let (found, _) = read(&[plain("abcde", &[]), cut_short, plain("df", &[("a", "b")])], 1, &mut || 1);
    assert_eq!(keys(&found), "bdf");
}

fn random_key(random: &mut SeededRandom) -> Vec<u8> {
    // Some are the beginning of others.
    let length = 1 + random.index(3);
    (0..length).map(|_| u8::try_from(random.below(5)).unwrap()).collect()
}

/// Random rows outside of random ranges, some cut short.
fn random_increment(random: &mut SeededRandom) -> Plain {
    let mut borders: Vec<Vec<u8>> = (0..random.below(12)).map(|_| random_key(random)).collect();
    borders.sort();
    borders.dedup();
    let ranges = borders.chunks_exact(2).filter(|_| random.chance(2, 3));
    let mut kept: Vec<_> = ranges.map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let reached = random.chance(1, 3).then(|| random_key(random));
    if let Some(reached) = &reached {
        kept.retain(|(_, last)| last < reached);
    }
    let mut backup = Plain { rows: random_rows(random), kept, reached };
    let (ranges, rows) = (backup.clone(), std::mem::take(&mut backup.rows));
    backup.rows = rows.into_iter().filter(|(key, _)| !ranges.keeps(key)).collect();
    backup
}

fn random_rows(random: &mut SeededRandom) -> Rows {
    (0..random.below(60)).map(|_| (random_key(random), random.next_u64().to_le_bytes().to_vec())).collect()
}

#[test]
fn random_chains_are_what_a_plain_map_says_in_order_and_each_run_is_fetched_once() {
    let mut rows = 0;
    for seed in seeds(400) {
        let mut random = SeededRandom::new(seed);
        let mut chain = vec![Plain { rows: random_rows(&mut random), ..Plain::default() }];
        for _ in 0..random.below(5) {
            chain.push(random_increment(&mut random));
        }
        let threads = random.index(6);
        let (found, counts) = read(&chain, threads, &mut || 1 + random.index(8));
        let expected: Vec<_> = together(&chain).into_iter().collect();
        assert!(found == expected, "seed {seed}, {} backups: {found:?} and not {expected:?}", chain.len());
        assert!(counts.iter().flatten().all(|count| *count <= 1), "seed {seed}: {counts:?}");
        rows += found.len();
        // A restore that was cut short goes on behind a key, which may be there or not.
        let after = random_key(&mut random);
        let (found, _) = read_behind(&chain, threads, Some(&after), &mut || 1 + random.index(8));
        let expected: Vec<_> = expected.into_iter().filter(|(key, _)| *key > after).collect();
        assert!(found == expected, "seed {seed}, behind {after:?}: {found:?} and not {expected:?}");
    }
    assert!(rows > 5_000, "{rows} rows");
}

/// Somewhere in the middle, whatever thread it is fetched by.
#[test]
fn an_error_of_a_run_ends_it_with_that_error() {
    let (member, contents) = stored(0, &plain("abcdefgh", &[]), &mut || 1);
    for broken in 0..8 {
        let fetch = |_: &ChainMember, number: u32| match number {
            number if number == broken => Err(BackupError::damaged("run", "rot")),
            number => {
                Ok(RunReader::open(contents[usize::try_from(number).unwrap()].clone(), number).unwrap())
            }
        };
        let mut taken = 0;
        let reader =
            ChainReader { chain: std::slice::from_ref(&member), fetch: &fetch, threads: 3, after: None };
        let refused = reader.read(&|_| {}, &mut |_, _| {
            taken += 1;
            Ok(())
        });
        assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{refused:?}");
        assert_eq!(taken, broken, "rows before it");
    }
}

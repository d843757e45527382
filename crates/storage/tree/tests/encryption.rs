//! An encrypted tree: the same tree to whoever has the keys, and bytes without meaning to all others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{Changes, Model, Workload, apply_to, assert_holds, merge, options, superblock};
use seawall_keys::{DatabaseKeys, SecretKey};
use seawall_simulation::{SeededRandom, SimulatedDisk, SimulatedRandom, seeds};
use seawall_tree::{
    Encryption, PAGE_FILE_PATH, RECOVERY_FILE_PATH, Superblock, Tree, TreeAccess, TreeError, TreeOptions,
};

fn keys(disk: &SimulatedDisk, byte: u8) -> DatabaseKeys {
    let database = superblock(4096).database;
    let random = Arc::new(SimulatedRandom::new(u64::from(byte)));
    DatabaseKeys::create(disk, database, &SecretKey::from_bytes([byte; 32]), random).unwrap()
}

fn encrypted(keys: &DatabaseKeys) -> TreeOptions {
    TreeOptions { keys: Some(keys.clone()), ..options() }
}

fn create(disk: &SimulatedDisk, options: TreeOptions) -> Tree {
    let encryption = if options.keys.is_some() { Encryption::Xaes256Gcm } else { Encryption::None };
    Tree::create(disk, &Superblock { encryption, ..superblock(4096) }, options).unwrap()
}

fn reopen(disk: &SimulatedDisk, options: TreeOptions) -> Tree {
    Tree::open(disk, TreeAccess::Write, options).unwrap().tree
}

fn random_changes(seed: u64) -> Changes {
    let random = SeededRandom::new(seed);
    Workload { random, key_space: 400, long_keys: true, max_key_bytes: 2560 }.changes(300, 2)
}

#[test]
fn an_encrypted_tree_holds_the_same_rows() {
    for seed in seeds(4) {
        let disk = SimulatedDisk::new(seed);
        let keys = keys(&disk, 1);
        let mut tree = create(&disk, encrypted(&keys));
        let mut model = Model::new();
        for round in 0..4 {
            let changes = random_changes(seed * 10 + round);
            merge(&tree, &changes, 64 << 10).unwrap();
            apply_to(&mut model, &changes);
            assert_holds(&tree, &model, &format!("seed {seed}, round {round}"));
            drop(tree);
            tree = reopen(&disk, encrypted(&keys));
            assert_holds(&tree, &model, &format!("seed {seed}, round {round}, opened again"));
        }
    }
}

/// Leaves that are read many at a time are decrypted each for itself.
#[test]
fn a_window_of_an_encrypted_tree_holds_the_same_rows() {
    let disk = SimulatedDisk::new(1);
    let keys = keys(&disk, 1);
    let tree = Arc::new(create(&disk, encrypted(&keys)));
    let mut model = Model::new();
    for seed in 0..4 {
        let changes = random_changes(seed);
        merge(&tree, &changes, u64::MAX).unwrap();
        apply_to(&mut model, &changes);
    }
    let changes = random_changes(5);
    let mut source = common::Source::new(&changes);
    let merged =
        tree.merge_window(vec![]..vec![9], &[], Some(&mut source), &|_| false, common::STAMP).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    apply_to(&mut model, &changes);
    assert_holds(&tree, &model, "after a window");
    drop(tree);
    assert_holds(&reopen(&disk, encrypted(&keys)), &model, "after opening");
}

/// The needles stand in keys, values and long values, and at every border of compression.
#[test]
fn no_file_holds_a_key_or_a_value() {
    let needles: [&[u8]; 3] =
        [b"key that nobody may read", b"value that nobody may read", b"long value that"];
    let changes: Changes = (0..500_u32)
        .map(|number| {
            let key = [b"\0\0\0\0\0\0\0\x07", needles[0], &number.to_be_bytes()].concat();
            let value = if number % 50 == 0 { needles[2].repeat(3000) } else { needles[1].to_vec() };
            (key, Some(value))
        })
        .collect();
    for is_encrypted in [true, false] {
        let disk = SimulatedDisk::new(1);
        let options = if is_encrypted { encrypted(&keys(&disk, 1)) } else { options() };
        let tree = create(&disk, options);
        merge(&tree, &changes, 32 << 10).unwrap();
        let is_found = |path: &str, needle: &[u8]| {
            disk.read_file(path).unwrap().windows(needle.len()).any(|window| window == needle)
        };
        for needle in needles {
            assert_eq!(is_found(PAGE_FILE_PATH, needle), !is_encrypted, "{}", needle.escape_ascii());
        }
        // Compressed images hold a needle once at least, where it first stands.
        let anywhere = needles.iter().any(|needle| is_found(RECOVERY_FILE_PATH, needle));
        assert_eq!(anywhere, !is_encrypted);
    }
}

#[test]
fn pages_of_other_keys_or_of_none_are_told_from_damage() {
    let disk = SimulatedDisk::new(1);
    let right = keys(&disk, 1);
    let tree = create(&disk, encrypted(&right));
    let changes = random_changes(1);
    merge(&tree, &changes, 1 << 20).unwrap();
    drop(tree);
    let key = changes.iter().find(|(_, value)| value.is_some()).unwrap().0;

    // The chunk in the recovery file is not marked as done: it would be applied again.
    let wrong_keys = encrypted(&keys(&SimulatedDisk::new(2), 2));
    let error = Tree::open(&disk, TreeAccess::Write, wrong_keys.clone()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("another key"), "{error}");
    drop(reopen(&disk, encrypted(&right)));
    let wrong = reopen(&disk, wrong_keys);
    let error = wrong.get(key).unwrap_err();
    assert!(error.to_string().contains("does not authenticate"), "{error}");
    drop(wrong);

    for options in [options(), encrypted(&right)] {
        let plain = SimulatedDisk::new(3);
        drop(create(&plain, if options.keys.is_some() { common::options() } else { encrypted(&right) }));
        let error = Tree::open(&plain, TreeAccess::Write, options).unwrap_err();
        assert!(matches!(error, TreeError::Encryption { .. }), "{error}");
    }

    // A plain page among encrypted ones: somebody without the key has put it there.
    let plain = SimulatedDisk::new(4);
    drop(create(&plain, options()));
    disk.write_file(PAGE_FILE_PATH, &plain.read_file(PAGE_FILE_PATH).unwrap());
    let error = reopen(&disk, encrypted(&right)).get(key).unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
}

/// Any flipped bit of the page file, of a page or of an extent, is a typed error that says checksum, and nothing else.
#[test]
fn a_flipped_bit_is_damage() {
    let disk = SimulatedDisk::new(1);
    let keys = keys(&disk, 1);
    let tree = create(&disk, encrypted(&keys));
    let long = vec![7; 9000];
    let changes: Changes = (0..40_u8).map(|key| (vec![0, key], Some(vec![key; 100]))).collect();
    merge(&tree, &changes, 1 << 20).unwrap();
    merge(&tree, &Changes::from([(vec![1], Some(long.clone()))]), 1 << 20).unwrap();
    drop(tree);
    let mut random = SeededRandom::new(1);
    let mut found = 0;
    for page in 1..6 {
        for _ in 0..40 {
            let damaged = disk.copy();
            let offset =
                page * 4096 + if random.chance(1, 2) { random.below(112) } else { random.below(4096) };
            damaged.flip_bit(PAGE_FILE_PATH, offset, u8::try_from(random.below(8)).unwrap());
            let tree = reopen(&damaged, encrypted(&keys));
            let all = changes.keys().map(|key| tree.get(key)).chain([tree.get(&[1])]);
            for error in all.filter_map(Result::err) {
                assert!(
                    matches!(error, TreeError::Page { .. }) && error.is_damage(),
                    "offset {offset}: {error}"
                );
                assert!(!error.to_string().contains("authenticate"), "offset {offset}: {error}");
                found += 1;
            }
        }
    }
    assert!(found > 100, "{found} errors");
}

//! A check in parts, while the tree changes between two of them.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::{Changes, Model, apply_to, check, create, merge};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::{CheckSummary, CheckWalk, Damage, Tree};

/// A part that ends after `leaves`.
fn part(tree: &Tree, walk: &mut CheckWalk, leaves: u64, damages: &mut Vec<Damage>) -> Option<CheckSummary> {
    let mut left = leaves;
    tree.check_part(walk, &mut |damage| damages.push(damage), &mut |_, _| {}, &mut || {
        left = left.saturating_sub(1);
        left == 0
    })
}

/// Some rows change or go, and some are new.
fn changes(random: &mut SeededRandom) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..200 {
        let key = random.below(100_000).to_be_bytes().to_vec();
        let length = usize::try_from(random.below(300)).unwrap();
        let length = if random.below(50) == 0 { 20_000 } else { length };
        changes.insert(key, (random.below(3) > 0).then(|| vec![7; length]));
    }
    // A whole range goes, so that leaves are joined and pages used again.
    let from = random.below(100_000);
    (from..from + 300).for_each(|key| drop(changes.insert(key.to_be_bytes().to_vec(), None)));
    changes
}

#[test]
fn what_changes_between_two_parts_is_no_damage() {
    for seed in 0..10 {
        let disk = SimulatedDisk::new(seed);
        let (tree, mut model, mut random) = (create(&disk, 4096), Model::new(), SeededRandom::new(seed));
        for _ in 0..30 {
            let first = changes(&mut random);
            merge(&tree, &first, 64 << 10).unwrap();
            apply_to(&mut model, &first);
        }
        let (mut walk, mut damages) = (CheckWalk::default(), Vec::new());
        let summary = loop {
            let leaves = 1 + random.below(30);
            match part(&tree, &mut walk, leaves, &mut damages) {
                Some(summary) => break summary,
                None => {
                    let next = changes(&mut random);
                    merge(&tree, &next, 64 << 10).unwrap();
                    apply_to(&mut model, &next);
                }
            }
        };
        assert!(damages.is_empty(), "seed {seed}: {damages:#?}");
        assert!(summary.parts > 5, "seed {seed}: {summary:?}");
        assert_eq!(check(&tree).rows, u64::try_from(model.len()).unwrap(), "seed {seed}");
    }
}

#[test]
fn parts_of_a_tree_that_does_not_change_see_each_row_once_and_each_damage() {
    let disk = SimulatedDisk::new(1);
    let (tree, mut random) = (create(&disk, 4096), SeededRandom::new(1));
    let mut model = Model::new();
    for _ in 0..10 {
        let next = changes(&mut random);
        merge(&tree, &next, 1 << 20).unwrap();
        apply_to(&mut model, &next);
    }
    let run = || {
        let (mut walk, mut damages) = (CheckWalk::default(), Vec::new());
        loop {
            if let Some(summary) = part(&tree, &mut walk, 1, &mut damages) {
                return (summary, damages);
            }
        }
    };
    let whole = check(&tree);
    let (summary, damages) = run();
    assert!(damages.is_empty(), "{damages:#?}");
    assert_eq!((summary.rows, summary.leaves, whole.parts), (whole.rows, whole.leaves, 1));
    assert_eq!(
        summary.parts,
        whole.leaves - 1,
        "the first part has two leaves, as one alone would be no progress"
    );
    disk.flip_bit("pages", 4096 * 5 + 100, 1);
    let (_, damages) = run();
    assert_eq!(damages.len(), 1, "{damages:#?}");
}

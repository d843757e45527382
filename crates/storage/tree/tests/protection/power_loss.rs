//! Power lost at every disk call.

use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_tree::{ImageCompression, PageProtection, TreeAccess};
use seawall_types::Lsn;

use super::base::{PLACES, Protection, content, merge_into, start};
use crate::common::{Changes, apply_to, check, lose_power_everywhere, rows};

fn crash_everywhere(protection: Protection, seed: u64) {
    let (disk, mut work, before) = start(protection, seed);
    let changes = work.changes(100, 4);
    let mut after = before.clone();
    apply_to(&mut after, &changes);
    let redo_point = Lsn::new(1_000);
    let merge = |disk: &SimulatedDisk, protection: Protection| {
        protection.merge(disk, &changes, u64::MAX, Some(redo_point))
    };
    lose_power_everywhere(
        &disk,
        |disk| assert!(merge(disk, protection).is_ok() || disk.crashed()),
        |disk, is_whole, context| {
            let context = format!("{protection:?}, {context}");
            let calls = disk.calls();
            let seen = protection.open_as(&disk, TreeAccess::Read).unwrap();
            let shown = rows(&seen.tree);
            assert_eq!(disk.calls(), calls, "{context}: opened for reading and wrote");
            // With the other place, and the power goes once more in every seventh call of that.
            let other = protection.other();
            for call in (0..).step_by(7) {
                let again = disk.copy();
                again.crash_at(again.calls() + call);
                let done = other.open(&again).map(|_| ());
                let crashed = again.crashed();
                assert!(crashed || done.is_ok(), "{context}: {done:?}");
                if !crashed {
                    break;
                }
                let again = again.after_power_loss(PowerLoss::Random(call));
                assert!(
                    content(protection, &again, &context) == shown,
                    "{context}, and in call {call} of the next"
                );
            }
            let opened = other.open(&disk).unwrap();
            check(&opened.tree);
            let found = rows(&opened.tree);
            assert!(shown == found, "{context}: a reader saw another tree");
            let is_new = opened.superblock.redo_point == redo_point;
            assert!(found == if is_new { after.clone() } else { before.clone() }, "{context}: new {is_new}");
            assert!(is_new || !is_whole, "{context}: what was acknowledged is lost");
            drop(opened);
            merge(&disk, other).unwrap();
            assert!(content(protection, &disk, &context) == after, "{context}: after trying again");
        },
    );
}

#[test]
fn power_lost_at_every_call_with_images_in_the_recovery_file() {
    for (seed, compression) in (0..).zip(ImageCompression::ALL) {
        crash_everywhere(Protection::new(PageProtection::RecoveryFile, compression), seed);
    }
}

#[test]
fn power_lost_at_every_call_with_images_in_the_log() {
    for (seed, compression) in (10..).zip(ImageCompression::ALL) {
        crash_everywhere(Protection::new(PageProtection::LogImages, compression), seed);
    }
}

/// The chunk is in place when the next one is being written: neither is lost, in either place, in any mixture.
#[test]
fn power_lost_in_chunk_after_chunk_finds_the_tree_of_one_of_them() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, model) = start(protection, 77);
        let steps: Vec<Changes> = (0..3).map(|_| work.changes(120, 3)).collect();
        let mut models = vec![model];
        for changes in &steps {
            let mut next = models.last().unwrap().clone();
            apply_to(&mut next, changes);
            models.push(next);
        }
        lose_power_everywhere(
            &disk,
            |disk| {
                let Ok(opened) = protection.open(disk) else { return };
                let done = steps.iter().try_for_each(|step| merge_into(&opened, step, u64::MAX, None));
                assert!(done.is_ok() || disk.crashed());
            },
            |disk, is_whole, context| {
                let found = content(protection.other(), &disk, context);
                assert!(models.contains(&found), "{place:?}, {context}: the tree of no chunk");
                assert!(!is_whole || found == models[3], "{place:?}, {context}: a chunk is lost");
            },
        );
    }
}

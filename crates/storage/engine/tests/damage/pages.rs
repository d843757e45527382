//! The superblock and the pages.

use seawall_engine::Error;
use seawall_simulation::SeededRandom;

use super::base::{PAGE, Verdict, base, flip, forge, judge};

#[test]
fn a_lost_copy_of_the_superblock_is_survived_and_two_are_not() {
    let base = base();
    let offsets = [0, 8, 12, 16, 24, 40, 44, 48, 56, 64, 72, 80, 88, 96, 104, 108, 2000, 4095];
    for copy in 0..2 {
        for offset in offsets {
            let what = format!("copy {copy}, offset {offset}");
            let (verdict, damages) = judge(&base, &flip(&base, "superblock", copy * 4096 + offset, 3), &what);
            // The other copy may be that of the checkpoint before: the log is there, unless it was recycled.
            assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{what}: {verdict:?}");
            let reported = damages
                .iter()
                .any(|damage| damage.path.contains("superblock") && damage.offset == Some(copy * 4096));
            assert!(reported, "{what}: {damages:?}");
            let disk = flip(&base, "superblock", copy * 4096 + offset, 3);
            disk.flip_bit("superblock", (1 - copy) * 4096 + 50, 0);
            let (verdict, damages) = judge(&base, &disk, &what);
            assert!(
                matches!(&verdict, Verdict::Refused(Error::Tree { message }) if message.contains("offset 4096")),
                "{what}: {verdict:?}"
            );
            assert!(!damages.is_empty());
        }
    }
}

#[test]
fn a_flipped_bit_in_a_page_is_found_with_the_keys_it_affects() {
    let base = base();
    let pages = base.disk.read_file("pages").unwrap().len() as u64 / PAGE;
    let mut random = SeededRandom::new(1);
    let (mut found, mut unused, mut with_keys) = (0, 0, 0);
    for page in 0..pages {
        let mut offsets = vec![0, 4, 8, 16, 17, 18, 19, 20, 22, 24, 32, 36, 40, 48];
        offsets.extend((0..3).map(|_| random.range(64..PAGE)));
        let mut used = None;
        for offset in offsets {
            let what = format!("page {page}, offset {offset}");
            let bit = u8::try_from(random.below(8)).unwrap();
            let (verdict, damages) = judge(&base, &flip(&base, "pages", page * PAGE + offset, bit), &what);
            if damages.is_empty() {
                assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{what}: {verdict:?}");
                unused += 1;
            } else {
                // An extent of several pages is reported where it starts.
                let near = damages.iter().any(|damage| {
                    damage.path.contains("pages")
                        && damage.offset.is_some_and(|at| (at..at + 4 * PAGE).contains(&(page * PAGE)))
                });
                assert!(near, "{what}: {damages:?}");
                with_keys += usize::from(damages.iter().any(|damage| damage.keys.is_some()));
                found += 1;
            }
            // Whether a page matters does not depend on the bit.
            assert_eq!(*used.get_or_insert(damages.is_empty()), damages.is_empty(), "{what}");
        }
    }
    println!(
        "{pages} pages: {found} flips found, {with_keys} of them with keys, {unused} in pages not in use"
    );
    assert!(found > 500 && with_keys * 10 > found * 8, "{found} {with_keys}");
}

#[test]
fn a_page_header_that_lies_with_a_right_checksum_is_found() {
    let base = base();
    let pages = base.disk.read_file("pages").unwrap().len() as u64 / PAGE;
    let fields: [(usize, usize); 12] = [
        (4, 4),
        (8, 8),
        (16, 1),
        (17, 1),
        (18, 1),
        (19, 1),
        (20, 2),
        (22, 2),
        (32, 4),
        (36, 4),
        (40, 8),
        (48, 16),
    ];
    let (mut found, mut harmless) = (0, 0);
    for page in 0..pages {
        let kind = base.disk.read_file("pages").unwrap()[usize::try_from(page * PAGE).unwrap() + 17];
        if !(1..=4).contains(&kind) || kind == 3 {
            continue;
        }
        for (offset, length) in fields {
            for byte in [0, 1, 0x7F, 0xFF] {
                let what = format!("page {page} of kind {kind}, bytes {offset}.. set to {byte:#x}");
                let (verdict, damages) =
                    judge(&base, &forge(&base, page, offset, &vec![byte; length]), &what);
                match (verdict, damages.is_empty()) {
                    (Verdict::Whole { lost: 0 }, true) => harmless += 1,
                    (Verdict::Whole { lost: 0 } | Verdict::Unreadable(_) | Verdict::Refused(_), false) => {
                        found += 1
                    }
                    (verdict, _) => panic!("{what}: {verdict:?}, {damages:?}"),
                }
            }
        }
    }
    println!("{found} forged headers found, {harmless} changed nothing or were not in use");
    assert!(found > 300);
}

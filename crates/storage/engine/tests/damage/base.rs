//! The database that is damaged, and what may become of it.

use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_engine::{Damage, Database, DatabaseDirectory, Error, Options};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use crate::harness::plan::long_key;
use crate::harness::state::{Rows, State};
use crate::harness::{environment, forget_pending, open, small_options, template_with_id, try_open};

pub(super) const PAGE: u64 = 4096;
pub(super) const SEGMENT: u64 = 64 << 10;

/// A database that was not closed: a tree three pages high, long values, a log of some segments behind the redo point.
pub(super) struct Base {
    pub(super) disk: SimulatedDisk,
    pub(super) options: Options,
    /// After each commit behind the redo point, oldest first.
    pub(super) states: Vec<State>,
    /// Where recovery starts.
    pub(super) redo_segment: u64,
}

pub(super) fn base() -> Base {
    base_with_seed(5)
}

pub(super) fn base_with_seed(seed: u64) -> Base {
    let options = small_options();
    let disk = template_with_id(&options, seed);
    let database = open(&disk, &options);
    let mut random = SeededRandom::new(seed);
    let mut rows = Rows::new();
    let table = database.create_table("t").unwrap();
    let mut put = |key: Vec<u8>, length: usize| {
        let value: Arc<[u8]> = random.bytes(length).into();
        database.put(&table, &key, &value).unwrap();
        rows.insert(key, value);
        State { tables: [("t".to_owned(), Arc::new(rows.clone()))].into(), ..State::default() }
    };
    for number in 0..100 {
        put(long_key(number), 80);
        put(number.to_be_bytes().to_vec(), if number % 25 == 3 { 10_000 } else { 60 });
    }
    database.checkpoint().unwrap();
    let redo = database.info().unwrap().redo_point.get();
    let lengths = [300, 40_000, 20, 45_000, 30_000, 50_000, 700];
    let states =
        (0_u32..).zip(lengths).map(|(number, length)| put(number.to_be_bytes().to_vec(), length)).collect();
    let crashed = disk.after_power_loss(PowerLoss::KeepAll);
    forget_pending(&crashed);
    Base { disk: crashed, options, states, redo_segment: redo / SEGMENT }
}

pub(super) fn segment(number: u64) -> String {
    format!("log/00000001{number:016X}")
}

/// Everything that can be read.
pub(super) fn read_all(database: &Database) -> Result<State, Error> {
    let mut state = State::default();
    for info in database.tables().list()? {
        let table = database.table(&info.name)?;
        let mut rows = Rows::new();
        for row in database.snapshot().range::<&[u8]>(&table, ..) {
            let (key, value) = row?;
            rows.insert(key, value.into());
        }
        state.tables.insert(info.name, Arc::new(rows));
    }
    Ok(state)
}

/// What became of a damaged database.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Everything is there; how many of the last commits are not.
    Whole { lost: usize },
    /// It opens, and reading says what is wrong.
    Unreadable(Error),
    /// It does not open.
    Refused(Error),
}

/// Opens, reads and checks; wrong rows are a failure of the test.
pub(super) fn judge(base: &Base, disk: &SimulatedDisk, what: &str) -> (Verdict, Vec<Damage>) {
    let mut damages = Vec::new();
    let checked = DatabaseDirectory::at(environment(Arc::new(disk.copy()))).check(
        base.options.clone(),
        &mut |damage| {
            damages.push(damage);
        },
    );
    if let Err(error) = checked {
        assert!(
            matches!(error, Error::NoDatabase { .. } | Error::NotEmpty { .. }),
            "{what}: check ends with {error}"
        );
    }
    let database = match try_open(disk, &base.options) {
        Ok(database) => database,
        Err(error) => {
            names_a_file(&error, what);
            return (Verdict::Refused(error), damages);
        }
    };
    let verdict = match read_all(&database) {
        Ok(state) => {
            let found = base.states.iter().rev().position(|candidate| *candidate == state);
            Verdict::Whole { lost: found.unwrap_or_else(|| panic!("{what}: wrong rows")) }
        }
        Err(error) => {
            names_a_file(&error, what);
            Verdict::Unreadable(error)
        }
    };
    // Working on may fail, but not in any other way.
    if let Err(error) = database.create_table("x").and_then(|_| database.checkpoint()) {
        names_a_file(&error, what);
    }
    disk.crash();
    (verdict, damages)
}

pub(super) fn names_a_file(error: &Error, what: &str) {
    let message = error.to_string();
    let known = matches!(
        error,
        Error::Log { .. }
            | Error::Tree { .. }
            | Error::Io { .. }
            | Error::Catalog { .. }
            | Error::Stopped { .. }
    );
    let named = ["superblock", "pages", "log", "recovery"].iter().any(|name| message.contains(name));
    assert!(known && named, "{what}: {error:?}");
}

pub(super) fn flip(base: &Base, path: &str, offset: u64, bit: u8) -> SimulatedDisk {
    let disk = base.disk.copy();
    disk.flip_bit(path, offset, bit);
    disk
}

/// Changes bytes of a page and makes its checksum right again.
pub(super) fn forge(base: &Base, page: u64, offset: usize, bytes: &[u8]) -> SimulatedDisk {
    let disk = base.disk.copy();
    let file = disk.read_file("pages").unwrap();
    let start = usize::try_from(page * PAGE).unwrap();
    let mut image = file[start..start + 4096].to_vec();
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    let checksum = crc32c(&image[4..]);
    image[..4].copy_from_slice(&checksum.to_le_bytes());
    disk.overwrite("pages", page * PAGE, &image);
    disk
}

#[test]
pub(super) fn the_base_is_what_it_should_be() {
    let base = base();
    let (verdict, damages) = judge(&base, &base.disk.copy(), "no damage");
    assert!(matches!(verdict, Verdict::Whole { lost: 0 }), "{verdict:?}");
    assert!(damages.is_empty(), "{damages:?}");
    let database = open(&base.disk, &base.options);
    let summary = database.check(&mut |_| ()).unwrap();
    assert!(summary.depth >= 3, "{summary:?}");
    let segments = database.info().unwrap().segments.len();
    assert!(segments >= 4, "{segments}");
}

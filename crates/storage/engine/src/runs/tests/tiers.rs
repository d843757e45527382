//! Runs become one, slice by slice, among all else that happens to them.

use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};

use seawall_simulation::{
    Fault, FaultError, FaultTarget, ObservedDisk, Operations, PowerLoss, SeededRandom, SimulatedDisk,
    Verdict, seeds,
};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::thread::{self, JoinHandle};
use seawall_testing::wait_until;

use super::{Model, Seen, check_is_clean, key_of, leave, loaded};
use crate::catalog::Table;
use crate::checkpoint::statistics::Totals;
use crate::database::Database;
use crate::error::Error;
use crate::options::{Background, Options, PublishStatistics};
use crate::row_key;
use crate::runs::filter_memory::within_memory;
use crate::runs::run::{Run, RunNumber};
use crate::runs::slice::{Aim, Slice};
use crate::runs::testing::{add_filler, checkpoint_into_run, open_on};
use crate::runs::window_table::WindowTable;

/// Changes for runs of which none is larger than the younger ones together.
const OF_A_SIZE: [u64; 4] = [200, 250, 310, 380];

/// So many runs of a size become one, in slices of a few leaves.
fn of_fan_in(fan_in: u32) -> impl Fn(&mut Options) {
    move |options| {
        options.checkpoint.runs.fan_in = fan_in;
        options.checkpoint.chunk_bytes = 16 << 10;
        options.checkpoint.threads = 1;
    }
}

fn open_tiered(disk: &SimulatedDisk, fan_in: u32) -> Database {
    open_on(Arc::new(disk.clone()), of_fan_in(fan_in)).unwrap()
}

/// Merges a slice of runs, if some are due.
fn merge_slice(database: &Database) -> Result<Slice, Error> {
    let engine = database.engine();
    engine.merge_tier_slice(&mut engine.checkpoint_turn.take(), &mut Totals::default())
}

fn runs(database: &Database) -> Vec<Arc<Run>> {
    database.engine().view().runs.to_vec()
}

fn numbers(database: &Database) -> Vec<RunNumber> {
    runs(database).iter().map(|run| run.number).collect()
}

/// Whether some slices of a merge were applied, and others not yet.
fn is_under_way(database: &Database) -> bool {
    let all = runs(database);
    all.iter().any(|target| all.iter().any(|source| target.is_made_of(source)))
}

/// The power goes, and the database is opened again.
fn lose_power(disk: SimulatedDisk, database: Database, fan_in: u32) -> (SimulatedDisk, Database, [Table; 2]) {
    disk.crash();
    drop(database);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = open_tiered(&disk, fan_in);
    let tables = ["t", "u"].map(|name| database.table(name).unwrap());
    (disk, database, tables)
}

#[test]
fn slices_among_windows_checkpoints_snapshots_and_opens_change_no_row() {
    let (mut slices, mut resumed) = (0, 0);
    for seed in seeds(30) {
        let mut disk = SimulatedDisk::new(seed);
        let mut fan_in = 2;
        let mut database = open_tiered(&disk, fan_in);
        let mut model = Model::new(seed);
        model.keys += 400;
        let mut tables = loaded(&database, &mut model);
        let mut older: Vec<Seen> = Vec::new();
        for round in 0..60 {
            let what = format!("seed {seed}, round {round}");
            match model.below(16) {
                0..5 => {
                    let count = 1 + model.random.below(300);
                    model.change_some(&database, &tables, count);
                    let filter_bits = [0, 4, 10][model.below(3)];
                    checkpoint_into_run(database.engine(), filter_bits);
                }
                5..10 => {
                    for _ in 0..=model.below(3) {
                        slices += u32::from(merge_slice(&database).unwrap() == Slice::Tier);
                    }
                }
                10 => {
                    let table = tables[model.below(2)].object.newest_storage().unwrap();
                    let mut ends = [model.key(), model.key()].map(|key| row_key::encode(table, &key));
                    ends.sort();
                    let [from, to] = ends;
                    if from < to {
                        let engine = database.engine();
                        let _turn = engine.checkpoint_turn.take();
                        engine.merge_window(from..to, &mut Totals::default()).unwrap();
                    }
                }
                11 => older.push(Seen::now(&database, &model)),
                12 => {
                    let count = model.random.below(60);
                    model.change_some(&database, &tables, count);
                    database.checkpoint().unwrap();
                }
                13 if model.below(3) == 0 => {
                    let place = model.below(2);
                    database.tables().truncate(["t", "u"][place]).unwrap();
                    model.rows[place].clear();
                    // Which leaves no row of the catalog to a run: each of these is merged.
                    older.clear();
                    (0..3).for_each(|_| assert!(database.checkpoint().is_ok()));
                    tables = ["t", "u"].map(|name| database.table(name).unwrap());
                }
                14 | 15 => {
                    older.clear();
                    fan_in = [2, 3, 4][model.below(3)];
                    resumed += u32::from(is_under_way(&database));
                    (disk, database, tables) = lose_power(disk, database, fan_in);
                }
                _ => {}
            }
            if older.len() > 2 {
                let ended = model.below(3);
                older.remove(ended).check_all(&tables, &format!("{what}, older"));
            }
            Seen::now(&database, &model).check(&tables, &mut model, &what);
            older.iter().for_each(|seen| seen.check(&tables, &mut model, &format!("{what}, older")));
            if round % 8 == 0 {
                Seen::now(&database, &model).check_all(&tables, &what);
                check_is_clean(&database);
            }
        }
        older.iter().for_each(|seen| seen.check_all(&tables, &format!("seed {seed}, older")));
        drop(older);
        let engine = database.engine();
        let mut state = engine.checkpoint_turn.take();
        while engine.merge_slice(&mut state, Aim::NoRuns, &mut Totals::default()).unwrap() != Slice::Nothing {
        }
        drop(state);
        assert_eq!(runs(&database).len(), 0, "seed {seed}");
        Seen::now(&database, &model).check_all(&tables, &format!("seed {seed}, without runs"));
        check_is_clean(&database);
        leave(&disk, database);
    }
    assert!(slices > 100 && resumed > 3, "{slices} slices, {resumed} opens among them");
}

/// Four runs, and one slice of them in a fifth.
fn begun(disk: &SimulatedDisk) -> (Database, Model, [Table; 2]) {
    let database = open_tiered(disk, 4);
    add_filler(&database);
    let (model, tables) = with_runs_of_a_size(&database, 7);
    assert_eq!(merge_slice(&database).unwrap(), Slice::Tier);
    assert_eq!(runs(&database).len(), 5);
    (database, model, tables)
}

/// A merge of others would give an interval that crosses that of the run under way: a list that no open takes.
#[test]
fn a_merge_that_was_cut_short_resumes_before_another_one_begins() {
    let disk = SimulatedDisk::new(1);
    let (database, mut model, tables) = begun(&disk);
    let target = *numbers(&database).iter().max().unwrap();
    model.change_some(&database, &tables, 300);
    checkpoint_into_run(database.engine(), 10);
    let (mut disk, mut database, _) = lose_power(disk, database, 2);
    let mut slices = 0;
    while numbers(&database).iter().any(|number| *number < target) {
        assert_eq!(merge_slice(&database).unwrap(), Slice::Tier);
        assert_eq!(
            runs(&database).iter().map(|run| run.number).max().map(|newest| newest > target),
            Some(true)
        );
        slices += 1;
        let tables;
        (disk, database, tables) = lose_power(disk, database, 2);
        Seen::now(&database, &model).check_all(&tables, &format!("after {slices} slices"));
        check_is_clean(&database);
    }
    assert!(slices > 2, "{slices} slices");
    assert_eq!(numbers(&database).len(), 2, "the youngest one, and the one that is made of the others");
    assert_eq!(runs(&database)[1].descriptor.level, 1);
    assert_eq!(database.engine().redo.superblock().run_count, 2);
    leave(&disk, database);
}

/// However long the merge of large runs takes, there are few younger ones; and two merges under way survive a power loss.
#[test]
fn younger_runs_become_one_before_an_older_merge_goes_on() {
    for lost_after in [None, Some(0), Some(1), Some(2)] {
        let what = format!("the power goes after {lost_after:?} slices");
        let (mut disk, fan_in) = (SimulatedDisk::new(3), 4);
        let (mut database, mut model, mut tables) = begun(&disk);
        let old_target = *numbers(&database).iter().max().unwrap();
        for count in OF_A_SIZE {
            model.change_some(&database, &tables, count);
            checkpoint_into_run(database.engine(), 10);
        }
        let mut slices = 0;
        let count_younger = |database: &Database| {
            let all = runs(database);
            let target = all.iter().find(|run| run.number == old_target).unwrap().clone();
            all.iter().filter(|run| run.descriptor.start >= target.end()).count()
        };
        let older = numbers(&database).len() - 4;
        while count_younger(&database) > 1 {
            if lost_after == Some(slices) {
                (disk, database, tables) = lose_power(disk, database, fan_in);
            }
            assert_eq!(merge_slice(&database).unwrap(), Slice::Tier, "{what}");
            slices += 1;
            assert_eq!(numbers(&database).len() - count_younger(&database), older, "{what}: the older wait");
            Seen::now(&database, &model).check(&tables, &mut model, &what);
        }
        assert!(slices > 2, "{slices} slices");
        while merge_slice(&database).unwrap() == Slice::Tier {}
        assert_eq!(numbers(&database).len(), 2, "{what}");
        Seen::now(&database, &model).check_all(&tables, &what);
        check_is_clean(&database);
        leave(&disk, database);
    }
}

/// A merge that fails at its first slice is tried again and again: that takes one number, and writes nothing else.
#[test]
fn a_merge_that_fails_at_its_first_slice_draws_one_number() {
    let disk = SimulatedDisk::new(6);
    let database = open_tiered(&disk, 4);
    let (model, tables) = with_runs_of_a_size(&database, 7);
    let next_run = || database.engine().redo.superblock().next_run;
    let before = next_run();
    let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Writes };
    disk.inject(Fault { target, error: FaultError::Kind(ErrorKind::StorageFull), skip: 0, count: u64::MAX });
    for _ in 0..3 {
        merge_slice(&database).unwrap_err();
    }
    assert_eq!(next_run(), before + 1);
    disk.clear_faults();
    assert_eq!(merge_slice(&database).unwrap(), Slice::Tier);
    assert_eq!(next_run(), before + 1);
    while merge_slice(&database).unwrap() == Slice::Tier {}
    Seen::now(&database, &model).check_all(&tables, "after a full disk");
    check_is_clean(&database);
    leave(&disk, database);
}

/// The filter of a run under way holds for all of its keys: with other options it stays what it is.
#[test]
fn a_merge_goes_on_with_the_filter_that_it_began_with() {
    for (before, after) in [(0, 10), (10, 0), (10, 4)] {
        let disk = SimulatedDisk::new(2);
        let database = open_on(Arc::new(disk.clone()), |options| {
            of_fan_in(4)(options);
            options.checkpoint.runs.filter_bits = before;
        });
        let database = database.unwrap();
        let mut model = Model::new(3);
        model.keys = 600;
        let tables = loaded(&database, &mut model);
        for count in OF_A_SIZE {
            model.change_some(&database, &tables, count);
            checkpoint_into_run(database.engine(), before);
        }
        assert_eq!(merge_slice(&database).unwrap(), Slice::Tier);
        disk.crash();
        drop((tables, database));
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        let database = open_on(Arc::new(disk.clone()), |options| {
            of_fan_in(4)(options);
            options.checkpoint.runs.filter_bits = after;
        });
        let database = database.unwrap();
        let tables = ["t", "u"].map(|name| database.table(name).unwrap());
        while merge_slice(&database).unwrap() == Slice::Tier {}
        let left = runs(&database);
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].descriptor.filter_bits, left[0].filter().is_some()), (before, before > 0));
        let what = format!("{before} bits, then {after}");
        Seen::now(&database, &model).check_all(&tables, &what);
        for number in 0..model.keys {
            let key = key_of(number);
            for (table, rows) in tables.iter().zip(&model.rows) {
                assert_eq!(database.get(table, &key).unwrap().as_ref(), rows.get(&key), "{what}: {number}");
            }
        }
        check_is_clean(&database);
        leave(&disk, database);
    }
}

/// What reads in the middle of disk calls.
type Probe = Arc<Mutex<Option<Box<dyn Fn(&str) + Send>>>>;

/// Opens a database that asks `probe` in each disk call.
fn open_probed(disk: &SimulatedDisk, probe: &Probe) -> Database {
    let observer = Arc::clone(probe);
    let observed = ObservedDisk::new(disk.clone(), move |call| {
        // What reads makes calls, too.
        if let Some(probe) = observer.try_lock()
            && let Some(read) = &*probe
        {
            read(call.path);
        }
        Verdict::Make
    });
    open_on(Arc::new(observed), of_fan_in(4)).unwrap()
}

/// Loads two tables, and changes them for runs that become one.
fn with_runs_of_a_size(database: &Database, seed: u64) -> (Model, [Table; 2]) {
    let mut model = Model::new(seed);
    model.keys = 600;
    let tables = loaded(database, &mut model);
    for count in OF_A_SIZE {
        model.change_some(database, &tables, count);
        checkpoint_into_run(database.engine(), 10);
    }
    (model, tables)
}

/// Readers that come in the middle of any disk call of a merge find what they always found: rows are nowhere at no time.
#[test]
fn a_reader_in_any_disk_call_of_a_slice_sees_all_rows() {
    let disk = SimulatedDisk::new(4);
    let probe: Probe = Arc::default();
    let database = open_probed(&disk, &probe);
    let (model, tables) = with_runs_of_a_size(&database, 5);
    let seen = Seen::now(&database, &model);
    let reads = Arc::new(Mutex::new((SeededRandom::new(6), 0)));
    let counted = Arc::clone(&reads);
    let (keys, read_tables) = (model.keys, tables.clone());
    *probe.lock() = Some(Box::new(move |path| {
        let mut reads = counted.lock();
        reads.1 += 1;
        for _ in 0..40 {
            let key = key_of(reads.0.below(keys));
            for (table, rows) in read_tables.iter().zip(&seen.rows) {
                let found = seen.snapshot.get(table, &key).unwrap();
                assert_eq!(found.as_ref(), rows.get(&key), "in a call on {path}");
            }
        }
        for (table, rows) in read_tables.iter().zip(&seen.rows) {
            let count = seen.snapshot.rows(table).map(Result::unwrap).count();
            assert_eq!(count, rows.len(), "in a call on {path}");
        }
    }));
    let mut slices = 0;
    while merge_slice(&database).unwrap() == Slice::Tier {
        slices += 1;
    }
    *probe.lock() = None;
    assert!(slices > 3 && reads.lock().1 > 20, "{slices} slices");
    assert_eq!(runs(&database).len(), 1);
    drop(tables);
    leave(&disk, database);
}

/// Filters that are read in the middle of any disk call of a merge lack no row, also of the run that is being made.
#[test]
fn filters_that_are_read_in_the_middle_of_a_slice_lack_no_row() {
    let disk = SimulatedDisk::new(11);
    let probe: Probe = Arc::default();
    let database = open_probed(&disk, &probe);
    let (model, tables) = with_runs_of_a_size(&database, 12);
    let engine = Arc::downgrade(database.engine());
    *probe.lock() = Some(Box::new(move |_| {
        let engine = engine.upgrade().unwrap();
        engine.read_filters(&|| true);
    }));
    let forget_filters = || {
        database.engine().change_view(|view| view.runs = within_memory(view.runs.to_vec(), 0).into());
    };
    forget_filters();
    let mut slices = 0;
    while merge_slice(&database).unwrap() == Slice::Tier {
        slices += 1;
        for number in (0..model.keys).step_by(3) {
            let key = key_of(number);
            for (table, rows) in tables.iter().zip(&model.rows) {
                assert_eq!(database.get(table, &key).unwrap().as_ref(), rows.get(&key), "slice {slices}");
            }
        }
        forget_filters();
    }
    *probe.lock() = None;
    assert!(slices > 3, "{slices} slices");
    drop(tables);
    leave(&disk, database);
}

/// What waits for the turn in the middle of a slice.
struct Waiter {
    database: OnceLock<Database>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Slices that were applied when it began to wait.
    slices_before: AtomicU64,
    /// The same at its first disk call; no thread merges meanwhile.
    slices_at_first_call: AtomicU64,
}

const NONE_YET: u64 = u64::MAX;

impl Waiter {
    fn slices(&self) -> u64 {
        self.database.get().map_or(0, |database| database.engine().counters.run_merges.counts().tier_slices)
    }

    /// In each disk call. In the first one of a slice a checkpoint begins, and waits for the turn before the call is made.
    fn see(self: &Arc<Self>) {
        let Some(database) = self.database.get() else { return };
        let name = thread::current().name().map(str::to_owned);
        if name.as_deref() == Some(WAITER) {
            let counted = (Ordering::SeqCst, Ordering::SeqCst);
            let _is_first =
                self.slices_at_first_call.compare_exchange(NONE_YET, self.slices(), counted.0, counted.1);
            return;
        }
        // The call of a slice: its target has a number by now, or gets one in it.
        let is_merging = name.as_deref() == Some("seawall-checkpoint");
        if !is_merging || self.slices_before.load(Ordering::SeqCst) != NONE_YET {
            return;
        }
        self.slices_before.store(self.slices(), Ordering::SeqCst);
        let waiter = Arc::clone(self);
        let checkpoint = move || assert!(waiter.database.get().unwrap().checkpoint().is_ok());
        let thread = thread::Builder::new().name(WAITER.to_owned()).spawn(checkpoint).unwrap();
        *self.thread.lock() = Some(thread);
        while !database.engine().checkpoint_turn.is_wanted() {
            thread::yield_now();
        }
    }
}

const WAITER: &str = "waits";

/// A merge of many slices lets a checkpoint in after the one that is under way.
#[test]
fn a_checkpoint_waits_for_one_slice_at_most() {
    let disk = SimulatedDisk::new(9);
    let (database, mut model, tables) = begun(&disk);
    model.change_some(&database, &tables, 20);
    drop(tables);
    disk.crash();
    drop(database);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let waiter = Arc::new(Waiter {
        database: OnceLock::new(),
        thread: Mutex::default(),
        slices_before: AtomicU64::new(NONE_YET),
        slices_at_first_call: AtomicU64::new(NONE_YET),
    });
    // The database has the disk, and the waiter the database.
    let observer = Arc::downgrade(&waiter);
    let observed = ObservedDisk::new(disk.clone(), move |_| {
        if let Some(waiter) = observer.upgrade() {
            waiter.see();
        }
        Verdict::Make
    });
    let database = open_on(Arc::new(observed), |options| {
        of_fan_in(4)(options);
        options.background = Background::Threads;
        options.publish_statistics = PublishStatistics::Never;
    });
    waiter.database.set(database.unwrap()).unwrap_or_else(|_| panic!("it is set once"));
    let database = waiter.database.get().unwrap();
    wait_until("a checkpoint in the middle of a slice", || {
        waiter.slices_at_first_call.load(Ordering::SeqCst) != NONE_YET
    });
    let before = waiter.slices_before.load(Ordering::SeqCst);
    let waited_for = waiter.slices_at_first_call.load(Ordering::SeqCst) - before;
    assert!(waited_for <= 1, "it waited for {waited_for} slices");
    wait_until("the merge to end", || !is_under_way(database));
    let thread = waiter.thread.lock().take();
    thread.expect("a checkpoint began").join().unwrap();
    let tables = ["t", "u"].map(|name| database.table(name).unwrap());
    Seen::now(database, &model).check_all(&tables, "with threads");
    disk.crash();
}

/// The table of windows follows each slice, without reading leaves that a slice has not touched.
#[test]
fn the_table_of_windows_follows_slices() {
    let disk = SimulatedDisk::new(8);
    let (database, _, tables) = begun(&disk);
    let engine = database.engine();
    let mut state = engine.checkpoint_turn.take();
    state.windows = Some(WindowTable::read(&engine.tree, &runs(&database), 5).unwrap());
    let mut slices = 0;
    while engine.merge_tier_slice(&mut state, &mut Totals::default()).unwrap() == Slice::Tier {
        slices += 1;
        let kept = state.windows.as_ref().expect("it was kept").leaves();
        let read = WindowTable::read(&engine.tree, &runs(&database), 5).unwrap().leaves();
        // A leaf that a slice has cut in two counts for none of both.
        let at_borders = 4 * slices + 5;
        assert!(kept.1.abs_diff(read.1) <= at_borders, "after {slices} slices {kept:?}, and {read:?}");
    }
    assert!(slices > 2, "{slices} slices");
    drop((state, tables));
    leave(&disk, database);
}

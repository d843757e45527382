//! The disk fails, is full, or may not be written: every call in turn. The engine answers with errors, goes on where
//! that is safe and stops writing where it is not; nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_engine::{Damage, DamageKind, DatabaseDirectory, Durability, Effect, Error, OpenMode, Options};
use seawall_io::Disk;
use seawall_simulation::{
    Call, CallOutcome, Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk,
};

use seawall_crash_harness as harness;

use harness::Cell;
use harness::plan;
use harness::progress::Progress;
use harness::recover::{check_clean, find_state, recover};
use harness::session::{Session, Step};
use harness::state::State;
use harness::watched_disk::WatchedDisk;
use harness::{master_key, open, other_place, small_options, template, try_open};

const EIO: FaultError = FaultError::Number(5);

/// What a plan met on a failing disk.
struct Met {
    errors: Vec<Error>,
    /// The database took no more writes.
    stopped: bool,
    /// What may be there, newest first.
    candidates: Vec<Arc<State>>,
}

/// Runs the steps. A step that fails without stopping the database is tried once more, and must not have done a part
/// of its work; when the database has stopped, it must stay so, and still be readable.
fn run(disk: &SimulatedDisk, options: &Options, steps: &[Step]) -> Result<Met, String> {
    let progress = Progress::shared(Arc::default());
    let mut session = Session::closed(Arc::new(disk.clone()), options, Arc::clone(&progress));
    let mut errors = Vec::new();
    let mut stopped = false;
    for (number, step) in steps.iter().enumerate() {
        let Err(error) = session.run(step) else { continue };
        check_kind(&error)?;
        errors.push(error.clone());
        if session.is_open() && refuses_writes(&mut session, step)? {
            stopped = true;
            break;
        }
        if session.is_open() {
            // Refused as a whole: it is not there, and will not be.
            progress.lock().refused();
            let current = Arc::clone(progress.lock().current());
            let database = session.database().map_err(|error| error.to_string())?;
            current.compare(database).map_err(|reason| format!("step {number} after {error}: {reason}"))?;
        }
        session.run(step).map_err(|again| format!("step {number} tried again after {error}: {again}"))?;
    }
    drop(session);
    let candidates = progress.lock().candidates();
    Ok(Met { errors, stopped, candidates })
}

/// Whether the database has stopped taking writes; it must be readable then.
fn refuses_writes(session: &mut Session, step: &Step) -> Result<bool, String> {
    let candidates = session.progress.lock().candidates();
    let database = session.database().map_err(|error| error.to_string())?;
    // A table that is not there: nothing is written if the database takes writes.
    match database.flush() {
        Ok(_) => return Ok(false),
        Err(Error::Stopped { .. }) => {}
        Err(error) => return Err(format!("flush after a failure in {step:?}: {error}")),
    }
    find_state(database, &candidates).map_err(|reason| format!("reading a stopped database: {reason}"))?;
    let refused = database.create_table("refused");
    match refused {
        Err(Error::Stopped { cause }) if !cause.is_empty() => {}
        other => return Err(format!("a stopped database answers a write with {other:?}")),
    }
    match database.checkpoint() {
        Err(Error::Stopped { .. }) => Ok(true),
        other => Err(format!("a stopped database answers a checkpoint with {other:?}")),
    }
}

/// Only what a disk can cause.
fn check_kind(error: &Error) -> Result<(), String> {
    match error {
        Error::Stopped { cause: text }
        | Error::DiskFull { message: text }
        | Error::Log { message: text }
        | Error::Tree { message: text }
        | Error::Io { message: text }
            if !text.is_empty() =>
        {
            Ok(())
        }
        other => Err(format!("a failing disk caused {other:?}")),
    }
}

/// Opens again, in a new process and after a power loss: everything acknowledged is there.
fn recover_all(
    disk: &SimulatedDisk,
    candidates: &[Arc<State>],
    options: &Options,
    seed: u64,
) -> Result<(), String> {
    for outcome in [PowerLoss::LoseAll, PowerLoss::Random(seed)] {
        recover(&disk.after_power_loss(outcome), candidates, options)
            .map_err(|reason| format!("after {outcome:?}: {reason}"))?;
    }
    recover(&disk.copy(), candidates, options).map_err(|reason| format!("in a new process: {reason}"))?;
    // A new process commits once, and then the power goes.
    let disk = disk.copy();
    let database = try_open(&disk, options).map_err(|error| error.to_string())?;
    let mut next = State::clone(&*find_state(&database, candidates)?);
    database.create_table("new process").map_err(|error| error.to_string())?;
    next.tables.insert("new process".to_owned(), Arc::default());
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    disk.crash();
    drop(database);
    recover(&crashed, &[Arc::new(next)], options)
        .map_err(|reason| format!("after that one's commit: {reason}"))?;
    Ok(())
}

/// The counted calls of the short plan, without faults.
fn calls(options: &Options) -> Vec<Call> {
    let disk = template(options);
    let met = run(&disk, options, &plan::short()).unwrap();
    assert!(met.errors.is_empty());
    disk.trace()
}

fn fault(target: FaultTarget, skip: u64) -> Fault {
    Fault { target, error: EIO, skip, count: 1 }
}

fn with_fault(fault: Fault, seed: u64, options: &Options) -> Result<Met, String> {
    with_fault_and_then(fault, seed, options, options)
}

/// Who opens it next may have been told something else.
fn with_fault_and_then(fault: Fault, seed: u64, options: &Options, next: &Options) -> Result<Met, String> {
    let disk = template(options);
    disk.inject(fault);
    let met = run(&disk, options, &plan::short())?;
    disk.clear_faults();
    recover_all(&disk, &met.candidates, next, seed)?;
    Ok(met)
}

fn fail_each_call(part: usize) {
    let options = small_options();
    let all = calls(&options);
    let (mut stopped, mut went_on) = (0, 0);
    for call in all.iter().filter(|call| call.index % 2 == part as u64) {
        let met = with_fault(fault(FaultTarget::Call(call.index), 0), call.index, &options)
            .unwrap_or_else(|reason| panic!("EIO in {call}: {reason}"));
        match met.stopped {
            true => stopped += 1,
            false => went_on += 1,
        }
    }
    println!("{stopped} failures stopped the database, {went_on} did not");
    assert!(stopped > 10);
}

#[test]
fn each_call_that_changes_the_disk_fails_once_even() {
    fail_each_call(0);
}

#[test]
fn each_call_that_changes_the_disk_fails_once_odd() {
    fail_each_call(1);
}

/// Full in the middle of a write of images, of the log, of the pages in place: of each page protection and compression, and
/// opened with the images in the other place.
#[test]
fn each_write_of_each_protection_and_compression_meets_a_full_disk() {
    for (number, cell) in Cell::all().into_iter().enumerate() {
        let mut options = Options { master_key: (number % 3 == 1).then(master_key), ..small_options() };
        options.checkpoint.page_protection = cell.protection;
        options.checkpoint.page_image_compression = cell.compression;
        let all = calls(&options);
        let is_write = |call: &&Call| {
            matches!(call.operation, Operation::Write | Operation::WriteDurable | Operation::FillZeros)
        };
        let (mut stopped, mut paths) = (0, std::collections::BTreeSet::new());
        // Every sixth write to each of the files, and the first.
        let mut seen = std::collections::BTreeMap::new();
        let is_chosen = |call: &&Call| {
            let count: &mut usize = seen.entry(call.path.split('/').next().unwrap().to_owned()).or_default();
            *count += 1;
            *count == 1 || *count % 6 == number % 6
        };
        for call in all.iter().filter(is_write).filter(is_chosen) {
            let full = Fault { error: FaultError::Number(28), ..fault(FaultTarget::Call(call.index), 0) };
            let met = with_fault_and_then(full, call.index, &options, &other_place(&options))
                .unwrap_or_else(|reason| panic!("{cell}, full in {call}: {reason}"));
            stopped += u64::from(met.stopped);
            paths.insert(call.path.split('/').next().unwrap().to_owned());
        }
        assert!(["log", "pages", "recovery"].iter().all(|path| paths.contains(*path)), "{cell}: {paths:?}");
        // Of a commit of which nobody knows whether it is there; everything else goes on when there is room again.
        assert!(stopped > 0 && stopped < all.len() as u64 / 8, "{cell}: {stopped} of {}", all.len());
    }
}

#[test]
fn each_read_fails_once() {
    let options = small_options();
    let target = |operations| FaultTarget::Path { prefix: String::new(), operations };
    let disk = template(&options);
    run(&disk, &options, &plan::short()).unwrap();
    let reads = disk.read_count("").calls;
    let mut failed = 0;
    for (operations, count) in [
        (Operations::Reads, reads),
        (Operations::Only(Operation::Open), 40),
        (Operations::Only(Operation::List), 12),
    ] {
        for skip in 0..count {
            let met = with_fault(fault(target(operations), skip), skip, &options)
                .unwrap_or_else(|reason| panic!("{operations:?}, after {skip} that succeed: {reason}"));
            failed += u64::from(!met.errors.is_empty());
        }
    }
    println!("{reads} reads; {failed} failures were noticed");
    assert!(failed >= reads / 2);
}

#[test]
fn the_disk_dies_at_each_call() {
    let options = small_options();
    for call in calls(&options).iter().step_by(5) {
        let disk = template(&options);
        // Every call from this one on fails, reads too.
        let progress = Progress::shared(Arc::default());
        let mut session = Session::closed(Arc::new(disk.clone()), &options, Arc::clone(&progress));
        disk.inject(Fault { count: u64::MAX, ..fault(FaultTarget::Call(call.index), 0) });
        let mut dead = false;
        for step in plan::short() {
            if let Err(error) = session.run(&step) {
                check_kind(&error).unwrap_or_else(|reason| panic!("dead from {call}: {reason}"));
                if !dead {
                    dead = true;
                    let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Any };
                    disk.inject(Fault { count: u64::MAX, ..fault(target, 0) });
                }
            }
            if dead {
                break;
            }
        }
        drop(session);
        disk.clear_faults();
        let candidates = progress.lock().candidates();
        recover_all(&disk, &candidates, &options, call.index)
            .unwrap_or_else(|reason| panic!("dead from {call}: {reason}"));
    }
}

/// Invariant 11: what a failed sync has left is unknown, so nothing is written on top of it.
#[test]
fn after_a_failed_sync_nothing_more_is_written() {
    let options = small_options();
    let is_sync = |call: &&Call| {
        matches!(call.operation, Operation::Sync | Operation::WriteDurable | Operation::SyncDirectory)
    };
    let mut paths = std::collections::BTreeSet::new();
    for call in calls(&options).iter().filter(is_sync) {
        let disk = template(&options);
        let progress = Progress::shared(Arc::default());
        let mut session = Session::closed(Arc::new(disk.clone()), &options, progress);
        disk.inject(fault(FaultTarget::Call(call.index), 0));
        let mut result = Ok(());
        for step in plan::short() {
            result = session.run(&step);
            if result.is_err() {
                break;
            }
        }
        // What fails while a database that nobody closed is dropped, nobody hears of.
        let Err(error) = result else { continue };
        // A segment that is being made is thrown away; a database that does not open, or is closed, is not there.
        if call.path.starts_with("log/spare.") || !session.is_open() {
            check_kind(&error).unwrap();
            continue;
        }
        let Error::Stopped { cause } = &error else { panic!("{call}: {error}") };
        let shown = if call.path.is_empty() { "directory" } else { &*call.path };
        assert!(cause.contains(shown), "{cause} does not name {shown}");
        paths.insert(call.path.split('/').next().unwrap().to_owned());
        let after = disk.calls();
        let database = session.database().unwrap();
        let table =
            database.tables().list().unwrap().first().map(|table| database.table(&table.name).unwrap());
        let answers = [
            database.flush().map(|_| ()),
            database.checkpoint().map(|_| ()),
            database.create_table("x").map(|_| ()),
            database.tables().bulk_load("x").map(|_| ()),
            table.map_or(database.flush(), |table| database.put(&table, "k", "v")).map(|_| ()),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(Error::Stopped { .. })), "{call}: afterwards {answer:?}");
        }
        drop(session);
        // Closing flushes the log, if it is the tree that has failed: commits that did not wait for it are kept.
        let may_flush = !call.path.starts_with("log");
        let written: Vec<_> = disk.trace()[usize::try_from(after).unwrap()..]
            .iter()
            .filter(|later| !may_flush || later.operation != Operation::WriteDurable)
            .map(Call::to_string)
            .collect();
        assert!(written.is_empty(), "{call}: afterwards {written:?}");
    }
    let found: Vec<_> = paths.iter().map(String::as_str).collect();
    assert_eq!(found, ["log", "pages", "recovery", "superblock"]);
}

/// The pages may be of the checkpoint, and the superblock of the one before: the next open settles that.
#[test]
fn a_checkpoint_that_failed_at_its_end_leaves_nothing_that_a_check_takes_for_damage() {
    let checkpoint_fails_at = |skip| {
        let disk = SimulatedDisk::new(8);
        let database = open(&disk, &small_options());
        let table = database.create_table("t").unwrap();
        database.checkpoint().unwrap();
        let mut transaction = database.begin();
        transaction.put(&table, "k", "v").unwrap();
        transaction.prepare("gid").unwrap();
        let operations = Operations::Only(Operation::Write);
        disk.inject(fault(FaultTarget::Path { prefix: "superblock".to_owned(), operations }, skip));
        let is_refused = match database.checkpoint() {
            Ok(_) => false,
            Err(Error::Stopped { .. }) => true,
            Err(error) => panic!("write {skip} of the superblock: {error}"),
        };
        disk.clear_faults();
        database.check(&mut |damage| panic!("write {skip} of the superblock: {damage}")).unwrap();
        drop(database);
        let database = open(&disk, &small_options());
        assert_eq!(database.two_phase().in_doubt().unwrap().len(), 1);
        database.check(&mut |damage| panic!("write {skip} of the superblock, opened: {damage}")).unwrap();
        is_refused
    };
    let failed = (0..).take_while(|skip| checkpoint_fails_at(*skip)).count();
    assert!(failed >= 2, "only {failed} writes of the superblock in a checkpoint");
}

/// The disk has room for one more block each time, so that every allocation of the plan is refused once.
#[test]
fn the_disk_is_full_at_each_allocation() {
    let options = small_options();
    let disk = template(&options);
    let progress = Progress::shared(Arc::default());
    let mut session = Session::open(Arc::new(disk.clone()), &options, Arc::clone(&progress)).unwrap();
    let mut capacity = disk.allocated_bytes();
    let mut refusals = 0;
    for (number, step) in plan::short().iter().enumerate() {
        disk.set_capacity(Some(capacity));
        while let Err(error) = session.run(step) {
            refusals += 1;
            assert!(matches!(error, Error::DiskFull { .. }), "step {number}, refusal {refusals}: {error}");
            if session.is_open() {
                progress.lock().refused();
                let current = Arc::clone(progress.lock().current());
                current.compare(session.database().unwrap()).unwrap();
            }
            if refusals % 4 == 0 {
                let candidates = progress.lock().candidates();
                let crashed = disk.after_power_loss(PowerLoss::Random(refusals));
                crashed.set_capacity(None);
                recover(&crashed, &candidates, &options)
                    .unwrap_or_else(|reason| panic!("step {number}, refusal {refusals}: {reason}"));
            }
            capacity = capacity.max(disk.allocated_bytes()) + 4096;
            disk.set_capacity(Some(capacity));
            assert!(refusals < 5_000, "step {number} never succeeds");
        }
    }
    println!("{refusals} refusals");
    assert!(refusals > 50);
    check_clean(session.database().unwrap());
    let state = Arc::clone(progress.lock().current());
    drop(session);
    disk.set_capacity(None);
    recover(&disk, &[state], &options).unwrap();
}

/// A full disk that stays full: reads and small commits into space that is there already go on.
#[test]
fn a_full_disk_is_told_apart_from_a_broken_one() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    let table = database.create_table("t").unwrap();
    disk.set_capacity(Some(disk.allocated_bytes()));
    let mut written = 0_u32;
    let error = loop {
        match database.put(&table, written.to_be_bytes(), [7; 3000]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::DiskFull { message } if message.contains("log/")), "{error}");
    assert!(written > 3, "{written}");
    for _ in 0..3 {
        assert!(matches!(database.put(&table, "more", [7; 60_000]), Err(Error::DiskFull { .. })));
        assert!(matches!(database.checkpoint(), Err(Error::DiskFull { .. })));
        assert_eq!(database.get(&table, 0_u32.to_be_bytes()).unwrap().unwrap(), [7; 3000]);
        assert_eq!(database.get(&table, "more").unwrap(), None);
    }
    disk.set_capacity(None);
    database.put(&table, "more", [7; 60_000]).unwrap();
    database.checkpoint().unwrap();
    check_clean(&database);
    database.close().unwrap();
    let database = open(&disk, &options);
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), written as usize + 1);
}

/// All files and their bytes.
fn contents(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: &str| disk.read_file(name).unwrap();
    disk.list_all().into_iter().map(|entry| (entry.name.clone(), bytes(&entry.name))).collect()
}

fn read_only(options: &Options) -> Options {
    Options { mode: OpenMode::ReadOnly, ..options.clone() }
}

/// Every change is refused, as on a read-only file system.
fn forbid_changes(disk: &SimulatedDisk) {
    use Operation::{
        Create, FillZeros, PunchHole, Remove, Rename, SetLength, Sync, SyncDirectory, Write, WriteDurable,
    };
    let all =
        [Create, Rename, Remove, SyncDirectory, Write, WriteDurable, Sync, SetLength, FillZeros, PunchHole];
    for operation in all {
        let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Only(operation) };
        let error = FaultError::Kind(ErrorKind::ReadOnlyFilesystem);
        disk.inject(Fault { target, error, skip: 0, count: u64::MAX });
    }
}

/// After a crash at any call: a torn tail, a chunk to apply again, half-made segments.
#[test]
fn a_read_only_open_changes_no_byte() {
    let options = small_options();
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(template(&options), Arc::clone(&progress));
    let mut session = Session::closed(watched.disk(), &options, progress);
    let mut opened = 0;
    for step in plan::short() {
        session.run(&step).unwrap();
        for point in watched.take_points() {
            let disk = point.disk.after_power_loss(PowerLoss::Random(point.index));
            let before = contents(&disk);
            forbid_changes(&disk);
            let database = try_open(&disk, &read_only(&options))
                .unwrap_or_else(|error| panic!("call {} ({}): {error}", point.index, point.call));
            let found = find_state(&database, &point.candidates)
                .unwrap_or_else(|reason| panic!("call {} ({}): {reason}", point.index, point.call));
            check_clean(&database);
            assert!(matches!(database.create_table("x"), Err(Error::ReadOnly)));
            assert!(matches!(database.checkpoint(), Err(Error::ReadOnly)));
            assert!(matches!(database.flush(), Err(Error::ReadOnly)));
            assert!(matches!(database.tables().bulk_load("x").map(|_| ()), Err(Error::ReadOnly)));
            // Two readers at once, and no writer.
            let second = try_open(&disk, &read_only(&options)).unwrap();
            let refused = try_open(&disk, &options);
            assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
            drop((database, second));
            let error = try_open(&disk, &options).expect_err("it cannot be written");
            check_kind(&error).unwrap();
            assert!(contents(&disk) == before, "call {} ({})", point.index, point.call);
            assert!(disk.trace().iter().all(|call| call.outcome == CallOutcome::Fault));
            disk.clear_faults();
            recover(&disk, &[found], &options).unwrap();
            opened += 1;
        }
    }
    println!("{opened} crashed databases opened read-only");
}

#[test]
fn a_creation_on_a_failing_disk_can_be_tried_again() {
    let options = small_options();
    let clean = SimulatedDisk::new(1);
    open(&clean, &options).close().unwrap();
    for call in clean.trace() {
        let disk = SimulatedDisk::new(2);
        disk.inject(fault(FaultTarget::Call(call.index), 0));
        if let Err(error) = try_open(&disk, &options) {
            check_kind(&error).unwrap_or_else(|reason| panic!("{call}: {reason}"));
        }
        disk.clear_faults();
        for disk in [disk.copy(), disk.after_power_loss(PowerLoss::Random(call.index))] {
            recover(&disk, &[Arc::default()], &options).unwrap_or_else(|reason| panic!("{call}: {reason}"));
        }
    }
}

#[test]
fn an_asynchronous_commit_learns_of_a_failed_flush() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    let table = database.create_table("t").unwrap();
    disk.inject(fault(FaultTarget::Path { prefix: "log/".to_owned(), operations: Operations::Syncs }, 0));
    let mut transaction = database.begin();
    transaction.put(&table, "sync", "1").unwrap();
    let handle = transaction.commit_async().unwrap();
    assert!(!handle.is_durable());
    assert!(matches!(handle.wait(), Err(Error::Stopped { .. })));
    assert!(matches!(database.with(Durability::Async).put(&table, "a", "1"), Err(Error::Stopped { .. })));
    let locked: Arc<dyn Disk> = Arc::new(disk.clone());
    assert!(locked.lock("lock", seawall_io::LockMode::Exclusive).is_err(), "it is still open");
    drop(database);
    drop(open(&disk, &options));
}

#[test]
fn what_needs_a_segment_that_cannot_be_made_has_changed_nothing() {
    // No checkpoint comes, so no segment is used again.
    let mut options = small_options();
    options.memory.memtable_bytes = 64 << 20;
    options.checkpoint.log_bytes = 1 << 30;
    let disk = template(&options);
    let database = open(&disk, &options);
    let table = database.create_table("t").unwrap();
    let target =
        FaultTarget::Path { prefix: "log/".to_owned(), operations: Operations::Only(Operation::Create) };
    disk.inject(Fault { target, error: FaultError::Number(24), skip: 0, count: u64::MAX });
    let key = |number: u32| number.to_be_bytes();
    let put = |number| database.put(&table, key(number), [7; 1000]);
    let (first, error) =
        (0..10_000).find_map(|number| put(number).err().map(|error| (number, error))).unwrap();
    let is_refused = |error: &Error| matches!(error, Error::Io { .. }) && error.effect() == Effect::Nothing;
    assert!(first > 0 && is_refused(&error), "after {first}: {error:?}, {:?}", error.effect());
    let mut transaction = database.begin();
    transaction.put(&table, key(first), [8; 1000]).unwrap();
    let error = transaction.prepare("gid").unwrap_err();
    assert!(is_refused(&error), "{error:?}, {:?}", error.effect());
    assert_eq!(database.get(&table, key(first)).unwrap(), None);
    assert!(database.two_phase().in_doubt().unwrap().is_empty());
    // The database goes on as soon as the system does.
    disk.clear_faults();
    put(first + 1).unwrap();
    let database = open(&disk.after_power_loss(PowerLoss::LoseAll), &options);
    let table = database.table("t").unwrap();
    assert_eq!(database.get(&table, key(first)).unwrap(), None);
    assert!(database.get(&table, key(first + 1)).unwrap().is_some());
    assert!(database.two_phase().in_doubt().unwrap().is_empty());
}

/// `EPERM`, `ENOMEM`, `EACCES`, `EMFILE`.
const REFUSALS: [i32; 4] = [1, 12, 13, 24];

/// Opens the database for reading and then for writing, reads all rows, checks it, and checks its directory; what fails, and what
/// the checks find.
fn look_at_everything(disk: &SimulatedDisk, options: &Options) -> (Vec<Error>, Vec<Damage>) {
    let (mut errors, mut found) = (Vec::new(), Vec::new());
    for options in [&read_only(options), options] {
        let looked = try_open(disk, options).and_then(|database| {
            for table in database.tables().list()? {
                let table = database.table(&table.name)?;
                database.snapshot().rows(&table).try_for_each(|row| row.map(drop))?;
            }
            database.check(&mut |damage| found.push(damage))?;
            database.close()
        });
        errors.extend(looked.err());
    }
    let environment = harness::environment(Arc::new(disk.clone()));
    let checked = DatabaseDirectory::at(environment).check(options.clone(), &mut |damage| found.push(damage));
    errors.extend(checked.err());
    (errors, found)
}

/// A program without descriptors, memory or permission reads a healthy database: whoever believes in damage restores a backup.
#[test]
fn what_the_system_refuses_to_do_is_never_called_damage() {
    let options = small_options();
    let disk = template(&options);
    run(&disk, &options, &plan::short()).unwrap();
    let database = open(&disk, &options);
    let table = database.create_table("in the log").unwrap();
    for key in 0..200_u32 {
        database.put(&table, key.to_be_bytes(), [7; 100]).unwrap();
    }
    let killed = disk.after_power_loss(PowerLoss::KeepAll);
    drop(database);

    let mut refused = 0;
    for operation in [Operation::Open, Operation::Read, Operation::List] {
        for skip in 0.. {
            let disk = killed.copy();
            let number = REFUSALS[usize::try_from(skip % 4).unwrap()];
            let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Only(operation) };
            disk.inject(Fault { target, error: FaultError::Number(number), skip, count: u64::MAX });
            let (errors, found) = look_at_everything(&disk, &options);
            if disk.take_faults_struck().is_empty() {
                break;
            }
            let place = format!("{operation:?}, error {number} after {skip} that succeed");
            for error in &errors {
                // A write that needs such a call may stop the database.
                let is_refusal = matches!(error, Error::Io { .. } | Error::Stopped { .. });
                assert!(is_refusal, "{place}: {error:?}");
            }
            for damage in &found {
                assert_eq!(damage.kind, DamageKind::Unreadable, "{place}: {damage}");
            }
            refused += errors.len() + found.len();
        }
    }
    assert!(refused > 100, "only {refused} calls were refused");
}

//! The repository of a database with one object changed: it is listed, verified and restored, or says what is wrong with it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use seawall_archive::{Header, Packer, Packing, Repository, RepositoryOptions, UnpackError, Unpacker};
use seawall_backup::{
    BackupOptions, RepositoryArchive, RestoreRequest, VerifyDepth, VerifyOptions, back_up, backups,
    databases, restore, verify,
};
use seawall_codec::checksum::{Crc64, crc32c};
use seawall_engine::{
    ArchiveOptions, Background, Database, Environment, LockWait, OpenMode, Options, RestoreTarget,
};
use seawall_io::Clock;
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_types::Lsn;

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("stored_backup", stored_backup)];

const TIME_MICROS: i64 = 1_700_000_000_000_000;
const CHECKSUM_LINE: &str = "crc32c ";

type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

struct Sample {
    store: SimulatedDisk,
    /// Paths of the objects.
    objects: Vec<String>,
    /// What the end of the log has.
    rows: Rows,
    end: Lsn,
}

fn clock() -> Arc<SimulatedClock> {
    Arc::new(SimulatedClock::new(TIME_MICROS))
}

fn repository_options() -> RepositoryOptions {
    let random = Arc::new(SimulatedRandom::new(5));
    RepositoryOptions { clock: clock(), random, ..RepositoryOptions::default() }
}

fn environment(disk: &SimulatedDisk) -> Environment {
    Environment { disk: Arc::new(disk.clone()), clock: clock(), random: Arc::new(SimulatedRandom::new(1)) }
}

fn options(mode: OpenMode, archives: Vec<ArchiveOptions>) -> Options {
    let mut options = Options { mode, archives, background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 256 << 10;
    options.memory.cache_bytes = 64 << 10;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

/// A full backup, an increment, a segment between them, and tails behind them.
static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let store = SimulatedDisk::new(2);
    Repository::create_on(Arc::new(store.clone()), repository_options()).expect("it is new");
    let repository = Repository::open_on(Arc::new(store.clone()), repository_options());
    let repository = Arc::new(repository.expect("it was created"));
    let clock: Arc<dyn Clock> = clock();
    let archive = RepositoryArchive::new(Arc::clone(&repository), Packing::default(), Arc::clone(&clock));
    let archives = vec![ArchiveOptions::new(Arc::new(archive))];
    let disk = SimulatedDisk::new(1);
    let database = Database::open(environment(&disk), options(OpenMode::New, archives));
    let database = database.expect("an empty disk takes a database");
    let put = |name: &str, keys: std::ops::Range<u32>, bytes: usize| {
        let table = database.table(name).or_else(|_| database.create_table(name)).expect("a table");
        for key in keys {
            database.put(&table, key.to_be_bytes(), vec![key.to_le_bytes()[0]; bytes]).expect("a row");
        }
    };
    let take = |is_incremental| {
        let options =
            BackupOptions { is_incremental, run_bytes: 2_000, threads: 1, ..BackupOptions::default() };
        clock.sleep(std::time::Duration::from_secs(1));
        back_up(&database, &repository, &clock, &options, &mut |_| {}).expect("a backup");
    };
    put("small", 0..100, 30);
    put("large", 0..4, 3_000);
    database.create_table("dropped").expect("it is new");
    database.checkpoint().expect("a checkpoint");
    take(false);
    put("small", 20..120, 400);
    database.tables().drop("dropped").expect("it is there");
    database.checkpoint().expect("a checkpoint");
    put("small", 50..60, 3_000);
    take(true);
    put("large", 2..6, 2_000);
    database.log().create_restore_point("a name").expect("a restore point");
    put("small", 90..100, 10);
    database.log().archive_now().expect("an archive");
    let (rows, end) = (rows_of(&database).expect("rows"), database.statistics().log.flushed);
    drop(database);
    let objects = store.list_all().into_iter().filter(|file| file.bytes > 0).map(|file| file.name).collect();
    let sample = Sample { store, objects, rows, end };
    let restored =
        restored(&sample.store, RestoreTarget::Latest).expect("a sound repository can be restored");
    assert!(rows_of(&restored).expect("rows") == sample.rows, "a sound repository has all rows");
    sample
});

fn rows_of(database: &Database) -> Result<Rows, seawall_engine::Error> {
    let mut rows = Rows::new();
    for table in database.tables().list()? {
        let snapshot = database.snapshot();
        let handle = snapshot.table(&table.name)?;
        for row in snapshot.rows(&handle) {
            let (key, value) = row?;
            rows.insert((table.name.clone(), key), value);
        }
    }
    Ok(rows)
}

fn restored(store: &SimulatedDisk, target: RestoreTarget) -> Result<Database, Box<dyn std::error::Error>> {
    let repository = Repository::open_on(Arc::new(store.clone()), repository_options())?;
    let disk = SimulatedDisk::new(9);
    let request = RestoreRequest { target, threads: 1, ..RestoreRequest::default() };
    let options = options(OpenMode::Existing, Vec::new());
    restore(&repository, &environment(&disk), &options, &request, &mut |_| {})?;
    Ok(Database::open(environment(&disk), options)?)
}

/// One object of a repository with changed bytes, cut or removed. Either what is stored was changed: then what can be restored is
/// all there is. Or what is in the object, and all checksums are right: then it is data, or an error.
pub fn stored_backup(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let sample = &*SAMPLE;
    let store = sample.store.copy();
    let path = &sample.objects[usize::from(input.byte()) % sample.objects.len()];
    let target = match choices.number(4, 4) {
        0 => RestoreTarget::Latest,
        1 => RestoreTarget::Lsn(Lsn::new(input.u64() % (sample.end.get() + 2))),
        2 => RestoreTarget::RestorePoint("a name".to_owned()),
        _ => RestoreTarget::Time(TIME_MICROS + i64::from(input.u32())),
    };
    let is_latest = matches!(target, RestoreTarget::Latest);
    let mut object = store.read_file(path).expect("it was listed");
    let has_right_checksums = choices.has(0);
    match (choices.has(1), choices.has(2)) {
        (true, true) => drop(store.remove_file(path)),
        (true, false) => {
            object.truncate(usize::from(input.u16()) % object.len());
            store.write_file(path, &object);
        }
        (false, _) if has_right_checksums => change_content(&store, path, &object, &mut input),
        (false, _) => {
            mutate(&mut object, &mut input);
            store.write_file(path, &object);
        }
    }
    examine(&store);
    match restored(&store, target) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(database) => {
            let rows = rows_of(&database);
            // Objects at the end of the log that are not there at all make it end earlier.
            if is_latest && !has_right_checksums && !choices.has(1) {
                assert!(rows.is_ok_and(|rows| rows == sample.rows), "damage was restored");
            }
            drop(database.check(&mut |_| {}));
            drop(database.checkpoint());
        }
    }
}

/// Lists and verifies all there is.
fn examine(store: &SimulatedDisk) {
    let Ok(repository) = Repository::open_on(Arc::new(store.clone()), repository_options()) else { return };
    for database in databases(&repository).unwrap_or_default() {
        drop(backups(&repository, database));
    }
    let options = VerifyOptions { depth: VerifyDepth::Content, threads: 1, ..VerifyOptions::default() };
    let (mut shown, mut progress) = (0_u64, 0_u64);
    drop(verify(&repository, &*clock(), &options, &mut |_| shown += 1, &mut |_| progress += 1));
}

/// Changes what is in an object, and makes all checksums right: its own, that of a text, and what the manifest says of a run.
fn change_content(store: &SimulatedDisk, path: &str, object: &[u8], input: &mut Input<'_>) {
    let Ok((header, mut content)) = unpack(object) else {
        // A text by itself.
        let mut text = object.to_vec();
        mutate(&mut text, input);
        return store.write_file(path, &resealed(&text));
    };
    mutate(&mut content, input);
    let (directory, name) = path.rsplit_once('/').unwrap_or_default();
    if name == "manifest" {
        content = resealed(&content);
    }
    if let Some(number) = name.strip_prefix("run-").and_then(|number| number.parse().ok()) {
        change_manifest(store, &format!("{directory}/manifest"), number, &content);
    }
    store.write_file(path, &packed(header, &content));
}

/// Lets the manifest say of a run what is so.
fn change_manifest(store: &SimulatedDisk, path: &str, number: usize, run: &[u8]) {
    let object = store.read_file(path).expect("each run has a manifest");
    let (header, text) = unpack(&object).expect("it is sound");
    let text = String::from_utf8(text).expect("a manifest is a text");
    let mut checksum = Crc64::new();
    checksum.update(run);
    let change = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [word @ ("run" | "kept"), line_number, rows, _, _] if line_number.parse() == Ok(number) => {
            let counted = run.get(24..32).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            let rows = counted.map_or_else(|| rows.to_owned(), |rows| rows.to_string());
            format!("{word} {number} {rows} {} {:016x}\n", run.len(), checksum.finish())
        }
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(change).collect();
    store.write_file(path, &packed(header, &resealed(text.as_bytes())));
}

/// A text with the checksum that it should have.
fn resealed(text: &[u8]) -> Vec<u8> {
    let prefix = CHECKSUM_LINE.as_bytes();
    let end = text.windows(prefix.len()).rposition(|bytes| bytes == prefix).unwrap_or(text.len());
    let body = &text[..end];
    [body, format!("{CHECKSUM_LINE}{:08x}\n", crc32c(body)).as_bytes()].concat()
}

fn unpack(object: &[u8]) -> Result<(Header, Vec<u8>), UnpackError> {
    let mut unpacker = Unpacker::new(&[]);
    let mut content = Vec::new();
    unpacker.take::<UnpackError>(object, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok((unpacker.finish()?, content))
}

fn packed(header: Header, content: &[u8]) -> Vec<u8> {
    Packer::new(Packing::default()).pack(header, content).seal(None).pieces().concat()
}

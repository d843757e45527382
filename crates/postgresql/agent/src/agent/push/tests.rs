//! Uploads, with repositories in directories, and with such as fail or hang.

use super::failure::Failure;
use super::queue::{Choice, Task};
use super::*;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seawall_archive::{Repository, RepositoryOptions, System};
use seawall_io::{Clock, Disk, SystemClock};
use seawall_simulation::{FaultTarget, Gate, Operations, SimulatedClock, SimulatedDisk};

use crate::agent::panicking_clock::PanickingClock;
use crate::agent::repositories::open_repositories;
use crate::agent::semaphore::Semaphore;
use crate::agent::transfers::Transfers;
use crate::data_directory::DataDirectory;
use crate::settings::ArchiveSettings;
use crate::spool::{GapNote, Spool};

/// A data directory and a required repository; whatever else the settings say.
fn shared(directory: &Path, more: &str) -> Arc<Shared> {
    shared_with(directory, &["repository"], more)
}

/// As `shared`, with several required repositories in these directories.
fn shared_with(directory: &Path, repositories: &[&str], more: &str) -> Arc<Shared> {
    let spool = Spool::new(directory.join("spool"), 1);
    spool.prepare().unwrap();
    shared_in(directory, spool, Arc::new(SystemClock), repositories, more)
}

fn shared_in(
    directory: &Path,
    spool: Spool,
    clock: Arc<dyn Clock>,
    repositories: &[&str],
    more: &str,
) -> Arc<Shared> {
    let data = directory.join("data");
    std::fs::create_dir_all(data.join("global")).unwrap();
    std::fs::write(data.join("global/pg_control"), 7_u64.to_le_bytes()).unwrap();
    let url_of = |name| directory.join(name).display().to_string();
    let urls: Vec<String> = repositories.iter().map(url_of).collect();
    for url in &urls {
        Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
    }
    let settings = ArchiveSettings::parse(&format!("repository = {urls:?}\n{more}\n"), "test").unwrap();
    Shared::take_over(spool, DataDirectory::new(data), clock, Transfers::new(&settings), |known| {
        open_repositories(&settings, known)
    })
    .unwrap()
}

/// The spool's disk was full when a repository was opened, say: nothing is acknowledged until it is noted.
#[test]
fn repositories_that_could_not_be_noted_are_noted_later() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path(), "");
    std::fs::remove_file(directory.path().join("spool/repositories")).unwrap();
    let in_the_way = directory.path().join("spool/repositories.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
    pusher.look_around();
    assert_eq!(shared.spool.mark(), None);
    std::fs::remove_dir(&in_the_way).unwrap();
    pusher.look_around();
    assert!(shared.spool.mark().is_some());
}

/// Segments later than a gap must not count as archived before the gap is on record: a recovery would take it for the archive's end.
#[test]
#[expect(clippy::disallowed_methods, reason = "a file that is in the way")]
fn nothing_is_acknowledged_while_a_gap_cannot_be_put_on_record() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path(), "");
    std::fs::create_dir_all(directory.path().join("data/pg_wal/archive_status")).unwrap();
    shared.gaps.note(&shared.spool, gap()).unwrap();
    let system = directory.path().join("repository").join(System::PostgreSql(7).to_string());
    std::fs::create_dir_all(&system).unwrap();
    // Where the directory of the gaps belongs.
    std::fs::write(system.join("gaps"), b"").unwrap();
    std::fs::write(directory.path().join("data/pg_wal/00000002.history"), b"1\t0/3000158\tx\n").unwrap();
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
    let answer = pusher.request("pg_wal/00000002.history");
    let Answer::Failed(problem) = answer else { panic!("{answer:?}") };
    assert!(problem.contains("gap") && problem.contains("on record"), "{problem}");
    assert!(shared.spool.acknowledged().unwrap().is_empty());
    std::fs::remove_file(system.join("gaps")).unwrap();
    seawall_testing::wait_until("the file to be archived", || {
        pusher.request("pg_wal/00000002.history") == Answer::Ok
    });
    assert!(shared.spool.gap_notes().unwrap().is_empty());
    pusher.end(seawall_testing::PATIENCE);
}

fn gap() -> GapNote {
    let Some(LogFileName::Segment(place)) = LogFileName::parse("000000010000000000000007") else { panic!() };
    GapNote {
        system: System::PostgreSql(7),
        place,
        segment_bytes: 1 << 24,
        noticed_micros: 1,
        recorded: BTreeSet::new(),
        reason: "down".to_owned(),
    }
}

/// A store that takes connections and says nothing, as an optional repository.
fn shared_with_one_that_hangs(directory: &Path) -> (TcpListener, Arc<Shared>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("s3://b/p?endpoint=http://127.0.0.1:{port}&region=x&anonymous=true&timeout=600");
    let shared = shared(directory, &format!("archive.optional_repository = {url:?}"));
    (listener, shared)
}

fn write_to_archive(directory: &Path, name: &str, content: &[u8]) -> Option<FileIdentity> {
    let path = directory.join("data/pg_wal").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    Some(FileIdentity::of(&std::fs::metadata(&path).unwrap()))
}

const PATIENCE: Duration = Duration::from_secs(60);

fn limit_of_a_byte() -> Option<QueueLimit> {
    Some(QueueLimit { bytes: 1, patience: PATIENCE })
}

fn store_is_down() -> Failure {
    Failure { message: "down".to_owned(), is_of_store: true, is_too_much: false }
}

/// A command that asks for a file, in a thread of its own.
fn ask(pusher: &Arc<Pusher>, name: &str) -> std::thread::JoinHandle<Answer> {
    let (pusher, path) = (Arc::clone(pusher), format!("pg_wal/{name}"));
    std::thread::spawn(move || pusher.request(&path))
}

fn answer_of(command: std::thread::JoinHandle<Answer>) -> Answer {
    seawall_testing::wait_until("the command to have its answer", || command.is_finished());
    command.join().unwrap()
}

const HISTORY: &str = "00000002.history";
const SEGMENT: &str = "000000010000000000000007";

/// An agent with two required repositories that is told to end while a command waits for a file and an upload of it is under way
/// to the first one. The test is the worker: `finish` says how the uploads end. Returns what the command is told.
fn end_while_a_command_waits(is_second_busy: bool, finish: impl FnOnce(&Pusher, &Task)) -> Answer {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared_with(directory.path(), &["repository", "another"], "");
    let pusher = Pusher::new(shared, Packing::default(), 1, None);
    {
        let mut state = pusher.state.lock();
        // No thread is started, since as many as may be are there.
        state.workers = pusher.workers_max;
        state.required_uploads = 1;
        state.queue.destinations[1].running = usize::from(is_second_busy);
    }
    let command = ask(&pusher, HISTORY);
    let task = seawall_testing::wait_for("the file to be taken on", || {
        match pusher.state.lock().queue.choose(Duration::ZERO) {
            Choice::Task(task) => Some(task),
            Choice::Later(_) | Choice::Nothing => None,
        }
    });
    assert_eq!(task.destinations.len(), if is_second_busy { 1 } else { 2 });
    let ending = std::thread::spawn({
        let pusher = Arc::clone(&pusher);
        move || pusher.end(seawall_testing::PATIENCE)
    });
    seawall_testing::wait_until("the agent to begin to end", || pusher.state.lock().is_ending);
    finish(&pusher, &task);
    {
        let mut state = pusher.state.lock();
        (state.workers, state.required_uploads) = (0, 0);
    }
    pusher.changed.notify_all();
    seawall_testing::wait_until("the uploads to have ended", || ending.is_finished());
    answer_of(command)
}

/// The agent waits for each command before it gives its spool back to the next agent.
#[test]
fn a_command_that_waits_for_a_file_that_one_repository_lacks_is_told_when_the_agent_ends() {
    let put_into_the_first = |pusher: &Pusher, task: &Task| pusher.finish(task, 0, None, Ok(()));
    let answer = end_while_a_command_waits(true, put_into_the_first);
    assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("ended")), "{answer:?}");
}

/// The file was replaced between two uploads of it, so both repositories are to get it once more.
#[test]
fn a_command_that_waits_for_a_file_that_is_begun_anew_is_told_when_the_agent_ends() {
    let directory = tempfile::tempdir().unwrap();
    let contents = ["one", "another"].map(|content| {
        let identity = write_to_archive(directory.path(), HISTORY, content.as_bytes()).unwrap();
        Some((identity, None))
    });
    let put_into_both = |pusher: &Pusher, task: &Task| {
        contents
            .into_iter()
            .enumerate()
            .for_each(|(destination, content)| pusher.finish(task, destination, content, Ok(())));
    };
    let answer = end_while_a_command_waits(false, put_into_both);
    assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("ended")), "{answer:?}");
}

/// There is memory for one file at a time.
#[test]
fn an_optional_repository_that_hangs_keeps_no_memory_from_the_required_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (_listener, shared) = shared_with_one_that_hangs(directory.path());
    let mut pusher = Pusher::new(shared, Packing::default(), 4, None);
    let content = b"1\t0/3000158\tx\n";
    Arc::get_mut(&mut pusher).unwrap().limits.memory = Semaphore::new(2 * content.len() as u64);
    for number in 2..12 {
        let name = format!("{number:08X}.history");
        write_to_archive(directory.path(), &name, content);
        assert_eq!(answer_of(ask(&pusher, &name)), Answer::Ok, "{name}");
    }
    end_in_time(&pusher, Duration::ZERO);
    let (system, key) = (System::PostgreSql(7), pusher.shared.repositories[1].key());
    assert_eq!(
        pusher.shared.spool.pending_copies(system, &key).unwrap().len(),
        10,
        "the next agent resumes them"
    );
}

/// Fails if the uploads do not end.
fn end_in_time(pusher: &Arc<Pusher>, patience: Duration) {
    let pusher = Arc::clone(pusher);
    let ending = std::thread::spawn(move || pusher.end(patience));
    seawall_testing::wait_until("the uploads to have ended", || ending.is_finished());
    ending.join().unwrap();
}

#[test]
fn the_agent_ends_after_a_worker_has_panicked() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 1);
    spool.prepare().unwrap();
    let clock = Arc::new(PanickingClock::new("push"));
    let shared =
        shared_in(directory.path(), spool, Arc::clone(&clock) as Arc<dyn Clock>, &["repository"], "");
    let pusher = Pusher::new(shared, Packing::default(), 4, None);
    let command = ask(&pusher, HISTORY);
    seawall_testing::wait_until("the worker to panic", || clock.has_panicked());
    end_in_time(&pusher, seawall_testing::PATIENCE * 2);
    assert!(matches!(answer_of(command), Answer::Failed(_)));
}

#[test]
fn a_file_whose_worker_has_panicked_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 1);
    spool.prepare().unwrap();
    let clock = Arc::new(PanickingClock::once_for_the_time_of_day("push"));
    let shared =
        shared_in(directory.path(), spool, Arc::clone(&clock) as Arc<dyn Clock>, &["repository"], "");
    write_to_archive(directory.path(), HISTORY, b"1\t0/3000158\tx\n");
    let pusher = Pusher::new(shared, Packing::default(), 1, None);
    let answer = answer_of(ask(&pusher, HISTORY));
    assert!(matches!(&answer, Answer::Failed(why) if why.contains("internal error")), "{answer:?}");
    assert!(clock.has_panicked());
    seawall_testing::wait_until("the worker to end", || pusher.state.lock().workers == 0);
    assert_eq!(pusher.state.lock().queue.running(), 0);
    assert_eq!(answer_of(ask(&pusher, HISTORY)), Answer::Ok);
    pusher.end(seawall_testing::PATIENCE);
}

#[test]
fn a_single_failure_opens_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path(), "");
    write_to_archive(directory.path(), SEGMENT, &[0; 100]);
    let pusher = Pusher::new(shared, Packing::default(), 4, limit_of_a_byte());
    let path = format!("pg_wal/{SEGMENT}");
    let mut state = pusher.state.lock();
    state.queue.add(SEGMENT, &path);
    let reason = |state: &State, now| pusher.reason_to_let_go(state, SEGMENT, &path, now);
    let mut now = Duration::from_secs(1000);
    state.queue.destinations[0].succeeded("before");
    now += Duration::from_secs(1);
    state.queue.destinations[0].failed(now, &store_is_down());
    assert_eq!(reason(&state, now), None, "it has answered a second ago");
    // It goes on failing, each time that it is tried.
    let down_since = now;
    while now < down_since + PATIENCE {
        assert_eq!(reason(&state, now), None, "down for {:?}", now.saturating_sub(down_since));
        now += Duration::from_secs(31);
        state.queue.destinations[0].failed(now, &store_is_down());
    }
    let given = reason(&state, now).unwrap_or_default();
    assert!(given.contains("down") && given.contains("queue_max"), "{given}");
    // It answers again: it gets as long once more.
    state.queue.destinations[0].succeeded("before");
    state.queue.destinations[0].failed(now, &store_is_down());
    assert_eq!(reason(&state, now), None);
}

/// The data directory was rolled back in place: the repository that has the file has the one that was there before.
#[test]
fn a_file_that_another_one_has_replaced_is_not_copied_from_a_repository() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared_with(directory.path(), &["repository", "another"], "");
    let before = write_to_archive(directory.path(), SEGMENT, b"before");
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, limit_of_a_byte());
    let path = format!("pg_wal/{SEGMENT}");
    let mut state = pusher.state.lock();
    let now = pusher.shared.clock.monotonic();
    state.queue.add(SEGMENT, &path);
    assert!(matches!(state.queue.choose(now), Choice::Task(task) if task.destinations == [0, 1]));
    state.queue.finish(SEGMENT, 0, before, Ok(()), now);
    state.queue.finish(SEGMENT, 1, None, Err(&store_is_down()), now);
    write_to_archive(directory.path(), SEGMENT, b"what is there now");
    let release = state.queue.begin_release(SEGMENT, pusher.identity_of(&path));
    drop(state);
    let Answer::Released(said) = pusher.let_go(SEGMENT, &path, "full", &release) else { panic!() };
    assert!(said.starts_with("GAP"), "{said}");
    assert_eq!(shared.spool.gap_notes().unwrap().len(), 1);
}

/// A spool on a disk whose syncs of the file of gaps take until the gate is opened.
fn spool_that_syncs_slowly() -> (Spool, Gate) {
    let disk = SimulatedDisk::new(1);
    disk.create_directory("spool").unwrap();
    let spool = Spool::on(Arc::new(disk.subdirectory("spool")), 1);
    spool.make_directories().unwrap();
    let gaps = FaultTarget::Path { prefix: "spool/gaps".to_owned(), operations: Operations::Syncs };
    (spool, disk.hold(gaps))
}

#[test]
fn a_command_is_answered_while_the_note_of_a_gap_is_synced() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, gate) = spool_that_syncs_slowly();
    // No rest of the repository ends.
    let clock = Arc::new(SimulatedClock::default());
    let shared = shared_in(directory.path(), spool, clock, &["repository"], "");
    write_to_archive(directory.path(), SEGMENT, &[0; 100]);
    write_to_archive(directory.path(), HISTORY, b"1\t0/3000158\tx\n");
    let limit = QueueLimit { bytes: 1, patience: Duration::ZERO };
    let pusher = Pusher::new(shared, Packing::default(), 4, Some(limit));
    let now = pusher.shared.clock.monotonic();
    pusher.state.lock().queue.destinations[0].failed(now, &store_is_down());
    let let_go = ask(&pusher, SEGMENT);
    gate.await_waiting(1);
    assert_eq!(answer_of(ask(&pusher, HISTORY)), Answer::Failed("down".to_owned()));
    let status = std::thread::spawn({
        let pusher = Arc::clone(&pusher);
        move || (pusher.is_idle(), pusher.statistics().0.left_out)
    });
    seawall_testing::wait_until("the status", || status.is_finished());
    assert_eq!(status.join().unwrap(), (false, 0));
    drop(gate);
    let Answer::Released(said) = answer_of(let_go) else { panic!() };
    assert!(said.starts_with("GAP"), "{said}");
    assert_eq!((pusher.statistics().0.left_out, pusher.shared.spool.gap_notes().unwrap().len()), (1, 1));
}

#[test]
fn a_command_is_answered_while_a_pending_copy_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let url = directory.path().join("another").display().to_string();
    Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
    let (spool, gate) = spool_that_syncs_slowly();
    let optional = format!("archive.optional_repository = {url:?}");
    let clock = Arc::new(SimulatedClock::default());
    let shared = shared_in(directory.path(), spool, clock, &["repository"], &optional);
    let (system, key) = (System::PostgreSql(7), shared.repositories[1].key());
    shared.spool.note_pending_copy(system, &key, SEGMENT).unwrap();
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, None);
    pusher.look_around();
    gate.await_waiting(1);
    // It is nowhere.
    let answer = answer_of(ask(&pusher, HISTORY));
    assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("cannot read")), "{answer:?}");
    assert_eq!(shared.spool.pending_copies(system, &key).unwrap(), [SEGMENT], "the gap is noted first");
    drop(gate);
    seawall_testing::wait_until("the copy to be given up", || {
        shared.spool.pending_copies(system, &key).unwrap().is_empty()
    });
    assert_eq!(shared.spool.gap_notes().unwrap().len(), 1);
    pusher.end(seawall_testing::PATIENCE);
}

/// Else it would be looked for every minute, by every agent.
#[test]
fn a_pending_copy_of_a_file_that_is_in_no_repository_any_more_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let url = directory.path().join("another").display().to_string();
    Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
    let shared = shared(directory.path(), &format!("archive.optional_repository = {url:?}"));
    let (system, keys) =
        (System::PostgreSql(7), [shared.repositories[0].key(), shared.repositories[1].key()]);
    for name in [SEGMENT, HISTORY] {
        shared.spool.note_pending_copy(system, &keys[1], name).unwrap();
    }
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, None);
    pusher.look_around();
    seawall_testing::wait_until("no copy to be pending", || {
        shared.spool.pending_copies(system, &keys[1]).unwrap().is_empty()
    });
    let gaps = |index: usize| shared.repositories[index].ask(|repository| repository.gaps(system)).unwrap();
    seawall_testing::wait_until("the gap to be on record", || {
        pusher.look_around();
        shared.spool.gap_notes().unwrap().is_empty()
    });
    let gaps = [gaps(0), gaps(1)].map(|gaps| gaps.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(gaps, [vec![], vec![format!("{SEGMENT}-{SEGMENT}")]]);
    let state = pusher.state.lock();
    assert_eq!((state.queue.lacking(1), state.queue.archived), ((0, 0), 0));
    drop(state);
    pusher.end(seawall_testing::PATIENCE);
}

/// A gap is to be put on record in a store that takes connections and says nothing.
#[test]
fn a_repository_that_hangs_holds_up_one_thread_and_no_other_repository() {
    let directory = tempfile::tempdir().unwrap();
    let (_listener, shared) = shared_with_one_that_hangs(directory.path());
    shared.gaps.note(&shared.spool, gap()).unwrap();
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
    for _ in 0..20 {
        pusher.look_around();
    }
    let recorded = || shared.spool.gap_notes().unwrap()[0].recorded.clone();
    seawall_testing::wait_until("the required repository to have it on record", || {
        let required = &shared.repositories[0];
        required.id().is_some_and(|id| recorded() == BTreeSet::from([required.record_mark(&id)]))
    });
    pusher.look_around();
    // Each thread that records gaps has the pusher, and no other thread has: threads of other tests do not count.
    let threads = Arc::strong_count(&pusher) - 1;
    assert!(threads <= shared.repositories.len(), "{threads} threads");
    // What waits for the required ones before each acknowledgement: they have it on record, so nothing is written.
    let notes = || std::fs::metadata(directory.path().join("spool/gaps")).unwrap().ino();
    let before = notes();
    pusher.record_gaps_in(pusher.required()).unwrap();
    assert_eq!(notes(), before, "the notes were written again");
}

/// PostgreSQL keeps the file: nothing has it any more.
#[test]
fn a_file_is_not_released_when_the_repository_that_had_it_is_replaced_while_that_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared_with(directory.path(), &["repository", "another"], "");
    let identity = write_to_archive(directory.path(), SEGMENT, b"content");
    let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, limit_of_a_byte());
    let path = format!("pg_wal/{SEGMENT}");
    let mut state = pusher.state.lock();
    // No thread is started, since as many as may be are there.
    state.workers = pusher.workers_max;
    let now = pusher.shared.clock.monotonic();
    state.queue.add(SEGMENT, &path);
    assert!(matches!(state.queue.choose(now), Choice::Task(task) if task.destinations == [0, 1]));
    state.queue.finish(SEGMENT, 0, identity, Ok(()), now);
    state.queue.finish(SEGMENT, 1, None, Err(&store_is_down()), now);
    let release = state.queue.begin_release(SEGMENT, identity);
    assert_eq!(release, Release::Copied(vec![1]));
    state.queue.repository_changed(0);
    drop(state);
    let answer = pusher.let_go(SEGMENT, &path, "full", &release);
    assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("replaced")), "{answer:?}");
    let state = pusher.state.lock();
    assert!(!state.queue.is_released(SEGMENT) && !state.queue.is_settling(SEGMENT));
}

/// All uploads that may be under way to it are those of other files, and another required repository is down.
#[test]
fn a_segment_is_no_gap_while_a_required_repository_is_about_to_take_it() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 1);
    spool.prepare().unwrap();
    let clock = Arc::new(SimulatedClock::default());
    let shared = shared_in(directory.path(), spool, clock, &["repository", "another"], "");
    let identity = write_to_archive(directory.path(), SEGMENT, &[0; 100]);
    let limit = QueueLimit { bytes: 1, patience: Duration::ZERO };
    let path = format!("pg_wal/{SEGMENT}");
    for was_released in [false, true] {
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, Some(limit));
        let now = pusher.shared.clock.monotonic();
        {
            let mut state = pusher.state.lock();
            state.workers = pusher.workers_max;
            state.queue.destinations[0].running = 4;
            state.queue.destinations[1].failed(now, &store_is_down());
            if was_released {
                // Of a file that was there before the data directory was rolled back.
                state.queue.add_pending_copy(SEGMENT, 1);
                state.queue.add("another", "another");
            }
        }
        let waits =
            || matches!(pusher.take_on(SEGMENT, &path), Course::Told(Answer::Failed(why)) if why == "down");
        assert!(waits(), "was released: {was_released}");
        // For longer than it is patient the queue has been as long as now, and this repository lacks as many.
        let count = pusher.state.lock().queue.lacking(0).0;
        pusher.state.lock().over_limit = Some((now, count + 1));
        assert!(waits(), "was released: {was_released}");
        let mut state = pusher.state.lock();
        state.over_limit = Some((now, count));
        assert!(pusher.reason_to_let_go(&state, SEGMENT, &path, now).is_some(), "it takes too little");
        state.over_limit = None;
        assert_eq!(pusher.reason_to_let_go(&state, SEGMENT, &path, now), None);
        state.queue.destinations[0].failed(now, &store_is_down());
        assert!(pusher.reason_to_let_go(&state, SEGMENT, &path, now).is_some(), "both are down");
        assert_eq!(state.queue.begin_release(SEGMENT, identity), Release::LeftOut(Vec::new()));
    }
}

//! What the operating system refuses (descriptors, permission, space for a file) is an error of that call: exit code 1, and never
//! damage, for which somebody would restore a backup. And a change that is made is done, whatever fails afterwards.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use seawall_testing::wait_until;

use crate::agents::agents;
use crate::support::{SEAWALL, Scratch, json_lines};

/// `nobody`, where root runs the tests: root may read everything.
const NOBODY: u32 = 65_534;
/// `SIGXFSZ`.
const FILE_SIZE_SIGNAL: u32 = 25;

fn rows(count: u32) -> String {
    (0..count).map(|number| format!("{number:08},{}\n", "v".repeat(250))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command in a shell that has set a limit.
fn limited(scratch: &Scratch, limit: &str, arguments: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh", SEAWALL]).args(arguments);
    shell.current_dir(scratch.path("")).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn without_descriptors_a_command_fails_with_1_and_nothing_is_called_damaged() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", rows(200).as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
    let mut refused = 0;
    for descriptors in 4..20 {
        let limit = format!("-n {descriptors}");
        for arguments in [
            &["get", "db", "t", "00000001"][..],
            &["check", "db"],
            &["info", "db"],
            &["put", "db", "t", "key", "value"],
            &["load", "db", "t", "rows.csv", "--no-header"],
        ] {
            let output = limited(&scratch, &limit, arguments);
            let messages = text(&output.stderr);
            match output.status.code() {
                Some(0) => continue,
                Some(1) => refused += 1,
                other => panic!("{arguments:?} with {descriptors} descriptors: {other:?}, {messages}"),
            }
            let all = messages + &text(&output.stdout);
            assert!(all.contains("Too many open files"), "{arguments:?} with {descriptors}: {all}");
        }
    }
    assert!(refused > 5, "only {refused} commands were refused anything");
    assert!(scratch.ok(["check", "db"]).contains("no damage"));
}

/// A command without the rights of root, in a directory that belongs to its user.
fn without_rights(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(scratch.path("seawall"));
    command.args(arguments).current_dir(scratch.path("")).stdin(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Gives the scratch directory, with a copy of the command in it, to whom `without_rights` runs as.
fn give_away(scratch: &Scratch) {
    let done = |command: &mut Command| assert!(command.status().unwrap().success());
    done(Command::new("cp").arg(SEAWALL).arg(scratch.path("seawall")));
    if is_root() {
        done(Command::new("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(scratch.path("")));
    }
}

#[test]
fn without_permission_a_command_fails_with_1_and_nothing_is_called_damaged() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    scratch.ok(["put", "db", "t", "key", "value"]);
    give_away(&scratch);
    let segment = std::fs::read_dir(scratch.path("db/log")).unwrap();
    let mut segments: Vec<String> = segment
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.len() == 24)
        .collect();
    segments.sort();
    for place in
        ["db/pages", "db/superblock", "db/recovery/chunk", "db/log", "db", &format!("db/log/{}", segments[0])]
    {
        let path = scratch.path(place);
        let mode = std::fs::metadata(&path).unwrap().permissions();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        for arguments in
            [&["get", "db", "t", "key"][..], &["put", "db", "t", "key", "value"], &["check", "db"]]
        {
            let output = without_rights(&scratch, arguments).output().unwrap();
            let all = text(&output.stderr) + &text(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{arguments:?} without {place}: {all}");
            assert!(
                all.contains("Permission denied") && !all.contains("damage"),
                "{arguments:?} without {place}: {all}"
            );
        }
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let output = without_rights(&scratch, &["check", "db"]).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("no damage"), "{output:?}");
}

/// The log has room, the page file of the checkpoint on closing has none.
#[test]
fn a_load_whose_checkpoint_on_closing_fails_is_done_with_a_warning() {
    let scratch = Scratch::new();
    scratch.ok(["init", "db", "--segment-mib", "1"]);
    scratch.write("rows.csv", rows(60_000).as_bytes());
    // In blocks of 512 bytes, or of 1 KiB: 10 or 20 MiB, or half of that; the segments and the buffers of the log are smaller, the page
    // file is not.
    let output = limited(&scratch, "-f 10240", &["load", "db", "t", "rows.csv", "--no-header"]);
    let messages = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(messages.contains("warning") && messages.contains("closing the database failed"), "{messages}");
    assert!(messages.contains("File too large"), "{messages}");
    assert!(text(&output.stdout).contains("loaded 60,000 rows"));
    assert!(scratch.ok(["check", "db"]).contains("no damage"));
    assert_eq!(scratch.ok(["scan", "db", "t", "--keys-only"]).lines().count(), 60_000);
}

/// After the first batch no file takes another byte.
#[test]
fn a_load_whose_commit_fails_does_not_say_that_it_is_made() {
    let scratch = Scratch::with_database();
    let load = ["load", "db", "t", "-", "--no-header", "--acks", "--batch", "10"];
    let mut loader = scratch
        .command(load)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = loader.stdin.take().unwrap();
    input.write_all(rows(10).as_bytes()).unwrap();
    let mut acknowledgements = BufReader::new(loader.stdout.take().unwrap());
    let mut line = String::new();
    acknowledgements.read_line(&mut line).unwrap();
    assert_eq!(line, "committed 10\n");
    let limit = ["--pid", &loader.id().to_string(), "--fsize=512:"].map(str::to_owned);
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    // The load may have ended before it has read all of it.
    input.write_all(rows(1000).as_bytes()).unwrap_or(());
    drop(input);
    let output = loader.wait_with_output().unwrap();
    let messages = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("File too large"), "{messages}");
    assert!(messages.contains("closing the database failed"), "{messages}");
    assert!(!messages.contains("is made and durable"), "{messages}");
    assert_eq!(scratch.ok(["scan", "db", "t", "--keys-only"]).lines().count(), 10);
}

#[test]
fn a_load_that_cannot_acknowledge_fails_and_says_how_far_it_came() {
    let scratch = Scratch::with_database();
    let load = ["load", "db", "t", "-", "--no-header", "--acks", "--batch", "10"];
    let mut loader = scratch
        .command(load)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = loader.stdin.take().unwrap();
    input.write_all(rows(10).as_bytes()).unwrap();
    let mut acknowledgements = BufReader::new(loader.stdout.take().unwrap());
    let mut line = String::new();
    acknowledgements.read_line(&mut line).unwrap();
    assert_eq!(line, "committed 10\n");
    drop(acknowledgements);
    // The load may have ended before it has read all of it.
    input.write_all(rows(1000).as_bytes()).unwrap_or(());
    drop(input);
    let output = loader.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let resume: usize = message.rsplit_once("--skip ").unwrap().1.trim().parse().unwrap();
    let loaded = scratch.ok(["scan", "db", "t", "--keys-only"]).lines().count();
    // A process that another test is starting may hold the pipe for a moment, and some batches more are acknowledged.
    assert!((20..1_010).contains(&resume), "{message}");
    assert_eq!(loaded, resume - 10, "{message}: rows 10 to 20 are the first ten again");
}

#[test]
fn more_rows_to_skip_than_there_are_is_a_wrong_command_line() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", rows(5).as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header", "--skip", "5"]);
    let message = scratch.fails(2, ["load", "db", "t", "rows.csv", "--no-header", "--skip", "6"]);
    assert!(message.contains("only 5 rows"), "{message}");
}

#[test]
fn a_repository_without_a_name_is_a_wrong_command_line() {
    let scratch = Scratch::new();
    for arguments in [
        &["repo", "info"][..],
        &["repo", "create", ""],
        &["verify"],
        &["verify", "--repository", ""],
        &["backup", "list"],
        &["restore", "db"],
        &["expire", "--keep-count", "1"],
    ] {
        for value in ["", " "] {
            let output = scratch.command(arguments).env("SEAWALL_REPOSITORY", value).output().unwrap();
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
            assert!(message.contains("SEAWALL_REPOSITORY"), "{arguments:?}: {message}");
        }
    }
}

#[test]
fn a_wrong_command_line_is_told_in_json_where_that_is_asked_for() {
    let scratch = Scratch::with_database();
    for arguments in [
        &["--json", "put", "db"][..],
        &["scan", "--json", "db", "t", "--limit", "many"],
        &["--json", "bogus"],
    ] {
        let message = scratch.fails(2, arguments);
        let [error] = &json_lines(&message)[..] else { panic!("{message}") };
        assert_eq!(error["exit_code"], 2, "{message}");
        assert!(error["error"].as_str().unwrap().contains("error:"), "{message}");
    }
    assert!(scratch.fails(2, ["put", "db", "--", "--json"]).starts_with("error:"));
}

#[test]
fn a_table_name_takes_one_line_and_gives_the_terminal_no_orders() {
    let scratch = Scratch::with_database();
    let name = "two\nlines \x1b[31mred";
    let shown = r"two\nlines \x1b[31mred";
    assert_eq!(scratch.ok(["create", "db", name]), format!("created table {shown}\n"));
    assert_eq!(scratch.ok(["tables", "db"]), format!("{shown}\n"));
    assert_eq!(json_lines(&scratch.ok(["--json", "tables", "db"]))[0]["name"], name);
    assert_eq!(scratch.ok(["rename", "db", name, "a\tb"]), format!("renamed table {shown} to a\\tb\n"));
}

/// Where a process keeps a key, so does its core file.
#[test]
fn a_command_with_a_master_key_leaves_no_core_file_and_tells_of_a_key_that_others_can_read() {
    let scratch = Scratch::new();
    let key = "5a".repeat(31) + "01";
    scratch.write("key", key.as_bytes());
    std::fs::set_permissions(scratch.path("key"), PermissionsExt::from_mode(0o644)).unwrap();
    let made = scratch.run(["init", "db", "--encrypt", "--master-key-file", "key"]);
    assert!(made.status.success());
    let message = text(&made.stderr);
    assert!(message.contains("warning: others may read the master key key"), "{message}");
    std::fs::set_permissions(scratch.path("key"), PermissionsExt::from_mode(0o600)).unwrap();
    give_away(&scratch);
    for (arguments, is_dumpable) in [
        (
            &["load", "db", "t", "-", "--acks", "--batch", "1", "--no-header", "--master-key-file", "key"][..],
            false,
        ),
        (&["load", "plain", "t", "-", "--acks", "--batch", "1", "--no-header"], true),
    ] {
        if is_dumpable {
            assert!(without_rights(&scratch, &["init", "plain"]).status().unwrap().success());
        }
        let mut loader = without_rights(&scratch, arguments);
        let mut loader = loader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = loader.stdin.take().unwrap();
        input.write_all(b"a,1\nb,2\n").unwrap();
        let mut line = String::new();
        BufReader::new(loader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // The files of a process that leaves no core belong to root.
        let owner = std::fs::metadata(Path::new("/proc").join(loader.id().to_string()).join("environ"))
            .unwrap()
            .uid();
        let own = if is_root() { NOBODY } else { std::fs::metadata(scratch.path("db")).unwrap().uid() };
        assert_eq!(owner, if is_dumpable { own } else { 0 }, "{arguments:?}");
        loader.kill().unwrap();
        loader.wait().unwrap();
    }
}

/// PostgreSQL starts the commands, and they start the agent, which reads the key: a process that is started inherits no protection.
#[test]
fn the_archive_agent_and_its_commands_leave_no_core_file_with_a_master_key() {
    let scratch = Scratch::new();
    scratch.write("key", ("5a".repeat(31) + "01").as_bytes());
    std::fs::set_permissions(scratch.path("key"), PermissionsExt::from_mode(0o600)).unwrap();
    leave_no_core_file(&scratch, &format!("master_key_file = {:?}\n", scratch.path("key")));
}

#[test]
fn the_archive_agent_and_its_commands_leave_no_core_file_with_credentials_of_the_settings_file() {
    leave_no_core_file(&Scratch::new(), "[credentials]\nAWS_SECRET_ACCESS_KEY = \"hunter2\"\n");
}

fn leave_no_core_file(scratch: &Scratch, settings: &str) {
    let repository = scratch.path("repository").display().to_string();
    scratch.write("seawall.toml", settings.as_bytes());
    std::fs::set_permissions(scratch.path("seawall.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    scratch.ok(["repo", "create", &repository, "--config", "seawall.toml"]);
    std::fs::create_dir_all(scratch.path("data/pg_wal/archive_status")).unwrap();
    std::fs::create_dir_all(scratch.path("data/global")).unwrap();
    scratch.write("data/global/pg_control", &7_301_234_567_890_123_456_u64.to_le_bytes());
    scratch.write("data/pg_wal/00000002.history", b"1\t0/3000158\tx\n");
    give_away(scratch);
    let spool = scratch.path("spool");
    let archive = |arguments: &[&str]| {
        let mut command = without_rights(scratch, arguments);
        command.env("SEAWALL_REPOSITORY", &repository).env("SEAWALL_SPOOL", &spool);
        command.env("SEAWALL_CONFIG", scratch.path("seawall.toml"));
        command.current_dir(scratch.path("data"));
        command
    };
    let pushed = archive(&["archive-push", "pg_wal/00000002.history"]).output().unwrap();
    assert!(pushed.status.success(), "{pushed:?}");
    let [agent] = agents(&spool.display().to_string())[..] else { panic!("not one agent") };
    is_guarded(agent);
    // A command that waits for the agent's answer can be looked at.
    let stopped = Stopped::new(agent);
    let mut asking = archive(&["archive-get", "00000003.history", "pg_wal/x"]).spawn().unwrap();
    wait_until("the command to guard its key", || owner_of(asking.id()) == 0);
    is_guarded(asking.id());
    drop(stopped);
    assert_eq!(asking.wait().unwrap().code(), Some(1), "there is no such file");
    assert!(archive(&["archive-stop"]).status().unwrap().success());
}

/// The process leaves no core, and hears of writes past `ulimit -f` as errors.
fn is_guarded(process: u32) {
    assert_eq!(owner_of(process), 0, "its files belong to root");
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_ne!(ignored & 1 << (FILE_SIZE_SIGNAL - 1), 0, "{ignored:016x}");
}

fn owner_of(process: u32) -> u32 {
    std::fs::metadata(format!("/proc/{process}/environ")).unwrap().uid()
}

/// A process that does nothing until this is dropped.
struct Stopped(u32);

impl Stopped {
    fn new(process: u32) -> Stopped {
        signal(process, "STOP");
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

fn signal(process: u32, name: &str) {
    assert!(
        Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap().success()
    );
}

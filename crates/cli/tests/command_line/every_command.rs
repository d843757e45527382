//! Every command there is, as its help lists them: with `--json` its answer and its errors are JSON, and the document has its exit
//! codes.

use std::collections::{BTreeMap, BTreeSet};

use seawall::{Database, HoldLifetime, HoldOptions, Options};

use crate::support::{Scratch, json_lines, repository};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A command that succeeds, one of the same kind that fails, and its exit code. In an order in which each can.
const EXAMPLES: [(&str, &str, i32); 47] = [
    ("init db", "init db", 6),
    ("create db t", "create db t", 6),
    ("put db t a 1", "put db nothing a 1", 3),
    ("get db t a", "get db t b", 3),
    ("load db t rows.csv", "load db t torn.csv", 7),
    ("batch db changes.jsonl", "batch db torn.csv", 7),
    ("count db", "count db nothing", 3),
    ("scan db t", "scan db nothing", 3),
    ("dump db t", "dump db nothing", 3),
    ("delete db t a", "delete db t a", 3),
    ("truncate db t", "truncate db nothing", 3),
    ("rename db t u", "rename db nothing u", 3),
    ("tables db", "tables nowhere", 3),
    ("drop db u", "drop db u", 3),
    ("info db", "info nowhere", 3),
    ("stats db", "stats nowhere", 3),
    ("check db", "check nowhere", 3),
    ("inspect runs db", "inspect runs nowhere", 3),
    ("checkpoint db", "checkpoint nowhere", 3),
    ("log db", "log nowhere", 3),
    ("log db --records", "log nowhere --records", 3),
    ("restore-point db here", "restore-point nowhere here", 3),
    ("new-timeline db", "new-timeline db --number 1", 6),
    ("in-doubt doubtful", "in-doubt nowhere", 3),
    ("commit-prepared doubtful one", "commit-prepared doubtful one", 3),
    ("rollback-prepared doubtful two", "rollback-prepared doubtful two", 3),
    ("in-doubt doubtful --older-than 0 --roll-back", "in-doubt doubtful --roll-back", 2),
    ("release-hold doubtful held", "release-hold doubtful held", 3),
    ("repo create repo", "repo create repo", 6),
    ("repo check repo", "repo check nowhere", 3),
    ("backup db --repository repo", "backup nowhere --repository repo", 3),
    ("backup list repo", "backup list nowhere", 3),
    ("repo info repo", "repo info nowhere", 3),
    ("repo ls repo --long", "repo ls nowhere", 3),
    ("verify --repository repo --full", "verify --repository nowhere", 3),
    ("expire --repository repo --keep-count 1", "expire --repository repo", 2),
    ("restore copy --repository repo", "restore db --repository repo", 6),
    ("archive-mode copy on", "archive-mode nowhere on", 3),
    ("drill --repository repo", "drill --repository repo --backup none", 3),
    (
        "rotate-key vault --master-key-file old.key --new-master-key-file new.key",
        "rotate-key db --master-key-file old.key --new-master-key-file new.key",
        9,
    ),
    ("repo create chest --master-key-file old.key", "repo info chest", 9),
    (
        "repo rotate-key chest --master-key-file old.key --new-master-key-file new.key",
        "repo rotate-key repo --master-key-file old.key --new-master-key-file new.key",
        9,
    ),
    ("settings", "settings --config nowhere.toml", 2),
    ("completions bash", "completions tcsh", 2),
    ("man pages", "man rows.csv", 1),
    ("bench --seconds 0.001 --threads 1", "bench --seconds 0", 2),
    ("tour --seconds 0.1", "tour --scratch . --data missing.csv", 3),
];

/// They answer PostgreSQL, or those who look after its agent: the tests of archiving have them.
const OF_THE_AGENT: [&str; 4] = ["archive-push", "archive-get", "archive-status", "archive-stop"];

/// One ends when it is told to, the others need it: the tests of serving have them.
const UNTIL_A_SIGNAL: [&str; 3] = ["serve", "promote", "switchover"];

/// They succeed and have nothing to say.
const WITHOUT_ANSWER: [&str; 0] = [];

fn things_to_work_on(scratch: &Scratch) {
    scratch.write("rows.csv", b"key,value\na,1\nb,2\n");
    scratch.write("changes.jsonl", b"{\"put\":\"t\",\"key\":\"c\",\"value\":\"3\"}\n");
    scratch.write("torn.csv", b"key,value\na,\"1\n");
    for (key, content) in [("old.key", KEY.to_owned()), ("new.key", KEY.chars().rev().collect())] {
        scratch.write(key, content.as_bytes());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(scratch.path(key), mode).unwrap();
    }
    scratch.ok(["init", "vault", "--encrypt", "--master-key-file", "old.key"]);
    let database = Database::open(scratch.path("doubtful"), Options::default()).unwrap();
    let table = database.create_table("t").unwrap();
    for gid in ["one", "two", "three"] {
        let mut transaction = database.begin();
        transaction.put(&table, gid, "value").unwrap();
        transaction.prepare(gid).unwrap();
    }
    let options = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    drop(database.log().hold("held", options, None).unwrap());
    database.close().unwrap();
}

/// The words of a command line that are its command.
fn name_of(words: &str) -> String {
    let mut words = words.split(' ');
    let first = words.next().unwrap();
    match (first, words.next()) {
        ("repo" | "inspect", Some(second)) => format!("{first} {second}"),
        ("backup", Some("list")) => "backup list".to_owned(),
        _ => first.to_owned(),
    }
}

/// The commands that a help lists, below `above`.
fn listed(scratch: &Scratch, above: &[&str]) -> Vec<String> {
    let help = scratch.ok([above, &["-h"]].concat());
    let list = help.split_once("Commands:\n").unwrap().1;
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let name = |line: &str| line[2..].split(' ').next().unwrap().to_owned();
    lines.map(name).filter(|name| !name.is_empty() && name != "help").collect()
}

pub(crate) fn commands(scratch: &Scratch) -> BTreeSet<String> {
    let below = |above: &'static str| {
        listed(scratch, &[above]).into_iter().map(move |name| format!("{above} {name}"))
    };
    let plain = listed(scratch, &[]).into_iter().filter(|name| name != "repo" && name != "inspect");
    plain.chain(below("repo")).chain(below("inspect")).chain(["backup list".to_owned()]).collect()
}

/// The exit codes of each command beside 0, 1 and 2, from the table of the document.
fn documented() -> BTreeMap<String, BTreeSet<i32>> {
    let text = std::fs::read_to_string(repository("docs/command-line.md")).unwrap();
    let table =
        text.split_once("| command | exit codes beside 0, 1 and 2 |\n").expect("a table of exit codes").1;
    let mut codes = BTreeMap::new();
    for line in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let listed = cells[2].split(", ").filter_map(|code| code.parse().ok()).collect::<BTreeSet<i32>>();
        for name in cells[1].split(", ") {
            let before = codes.insert(name.trim_matches('`').to_owned(), listed.clone());
            assert!(before.is_none(), "{name} is there twice");
        }
    }
    codes
}

#[test]
fn every_command_has_its_exit_codes_in_the_document() {
    let scratch = Scratch::new();
    let documented = documented();
    let named: BTreeSet<String> = documented.keys().cloned().collect();
    assert_eq!(named, commands(&scratch));
    let tried: BTreeSet<String> = EXAMPLES.iter().map(|(good, ..)| name_of(good)).collect();
    let elsewhere = OF_THE_AGENT.into_iter().chain(UNTIL_A_SIGNAL).map(str::to_owned).collect();
    assert_eq!(&tried | &elsewhere, named, "each is tried below");
}

#[test]
fn every_command_answers_in_json_and_fails_in_json_with_a_documented_code() {
    let scratch = Scratch::new();
    things_to_work_on(&scratch);
    let documented = documented();
    for (good, bad, code) in EXAMPLES {
        let output = scratch.run(good.split(' ').chain(["--json"]));
        let (answer, messages) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{good}: {messages}");
        assert_eq!(json_lines(&answer).is_empty(), WITHOUT_ANSWER.contains(&good), "{good}: {answer}");
        json_lines(&messages);

        let output = scratch.run(["--json"].into_iter().chain(bad.split(' ')));
        let (answer, messages) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{bad}: {answer}{messages}");
        json_lines(&answer);
        let errors = json_lines(&messages);
        let error = errors.last().unwrap_or_else(|| panic!("{bad} says nothing"));
        assert_eq!(error["exit_code"], code, "{bad}: {messages}");
        assert!(error["error"].as_str().is_some_and(|error| !error.is_empty()), "{bad}: {messages}");
        let name = name_of(bad);
        assert!(code <= 2 || documented[&name].contains(&code), "{name} may exit with {code}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

//! Transactions in doubt: listed, decided, decided by rules, on record.

use seawall::{Database, Options};

use crate::support::{Scratch, json_lines};

fn prepare(scratch: &Scratch, owner: &str, gids: &[&str]) {
    let database = Database::open(scratch.path("db"), Options::default()).unwrap();
    let table = database.table("t").unwrap();
    for gid in gids {
        let mut transaction = database.begin();
        transaction.set_owner(owner).unwrap();
        transaction.put(&table, gid, "value").unwrap();
        transaction.prepare(gid).unwrap();
    }
    database.close().unwrap();
}

fn gids(scratch: &Scratch, arguments: &[&str]) -> Vec<String> {
    let all = scratch.ok([&["in-doubt", "db", "--json"], arguments].concat());
    json_lines(&all).iter().map(|one| one["gid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn they_are_listed_and_decided() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    assert_eq!(scratch.ok(["in-doubt", "db"]), "nothing is in doubt\n");
    assert_eq!(scratch.ok(["in-doubt", "db", "--json"]), "");
    prepare(&scratch, "billing", &["one", "two"]);
    prepare(&scratch, "", &["tree"]);
    assert_eq!(gids(&scratch, &[]), ["one", "two", "tree"]);
    assert_eq!(gids(&scratch, &["--owner", "billing"]), ["one", "two"]);
    assert_eq!(gids(&scratch, &["--gid-prefix", "t"]), ["two", "tree"]);
    assert!(gids(&scratch, &["--older-than", "3600"]).is_empty());
    let none = scratch.ok(["in-doubt", "db", "--older-than", "3600"]);
    assert!(none.starts_with("nothing of that kind is in doubt; 3 other transactions"), "{none}");
    let shown = scratch.ok(["in-doubt", "db", "--gid-prefix", "one"]);
    assert!(shown.starts_with("\"one\"  prepared by \"billing\" ") && shown.contains("in \"t\""), "{shown}");
    let shown = scratch.ok(["log", "db", "--records"]);
    assert!(shown.contains("prepare by \"billing\" of 1 change as \"one\""), "{shown}");
    scratch.fails(1, ["put", "db", "t", "one", "locked"]);
    scratch.fails(1, ["drop", "db", "t"]);
    scratch.ok(["commit-prepared", "db", "one"]);
    scratch.ok(["rollback-prepared", "db", "two"]);
    assert_eq!(scratch.ok(["get", "db", "t", "one"]), "value\n");
    scratch.fails(3, ["get", "db", "t", "two"]);
    for command in ["commit-prepared", "rollback-prepared"] {
        let error = scratch.fails(3, [command, "db", "one"]);
        assert!(error.contains("decided already"), "{error}");
    }
    let info = &json_lines(&scratch.ok(["info", "db", "--json"]))[0];
    assert_eq!(info["in_doubt"], 1);
    assert!(scratch.ok(["info", "db"]).contains("in doubt         1, the oldest for "));
}

#[test]
#[cfg(unix)]
fn a_rule_or_a_command_decides_on_record() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    prepare(&scratch, "billing", &["ask yes", "ask no", "ask later", "ask nonsense", "ask fails", "test-1"]);
    scratch.fails(2, ["in-doubt", "db", "--roll-back"]);
    scratch.fails(2, ["in-doubt", "db", "--older-than", "-1"]);
    let command = "case \"$SEAWALL_OWNER $SEAWALL_GID\" in
        'billing ask yes') echo commit;; *' ask no') echo rollback;; *later) echo wait;; *fails) exit 1;; *) echo what;;
    esac";
    let decided = scratch.ok(["in-doubt", "db", "--gid-prefix", "ask", "--ask", command]);
    assert_eq!(decided, "committed \"ask yes\"\nrolled back \"ask no\"\n");
    let decided =
        scratch.ok(["in-doubt", "db", "--gid-prefix", "test-", "--older-than", "0", "--roll-back", "--json"]);
    assert_eq!(json_lines(&decided)[0]["reason"], "rule");
    assert_eq!(gids(&scratch, &[]), ["ask later", "ask nonsense", "ask fails"]);
    let info = &json_lines(&scratch.ok(["info", "db", "--json"]))[0];
    let shown: Vec<_> =
        info["automatic_decisions"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(shown, ["committed", "rolled back", "rolled back"]);
    assert!(scratch.ok(["info", "db"]).contains("3, the last: \"test-1\" rolled back by a rule, "));
    assert_eq!(scratch.ok(["get", "db", "t", "ask yes"]), "value\n");
    assert_eq!(scratch.ok(["in-doubt", "db", "--forget", "ask yes"]), "forgot 1 decision\n");
    assert_eq!(scratch.ok(["in-doubt", "db", "--forget", "ask yes"]), "forgot 0 decisions\n");
    assert_eq!(scratch.ok(["in-doubt", "db", "--forget-older-than", "3600"]), "forgot 0 decisions\n");
    assert_eq!(scratch.ok(["in-doubt", "db", "--forget-older-than", "0"]), "forgot 2 decisions\n");
    let info = &json_lines(&scratch.ok(["info", "db", "--json"]))[0];
    assert!(info["automatic_decisions"].as_array().unwrap().is_empty());
}

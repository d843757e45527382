//! The memory of all sessions together.

use crate::client::{Client, TestDatabase};

/// Memory that a statement asks for in vain.
const REFUSED: &str = "ERROR 53200: out of memory";

/// A cursor that keeps about 600 KiB beyond its transaction, if there is room.
const HOLD: &str = "declare c cursor with hold for select repeat('x', 1000) as t from generate_series(1, 550) as n order by t";

fn last(client: &mut Client, text: &str) -> String {
    client.run(text).pop().unwrap_or_default()
}

#[test]
fn rows_of_held_cursors_count() {
    let database = TestDatabase::new();
    database.database.memory.set_limit(3 << 19);
    let (mut one, mut other) = (database.connect(), database.connect());
    assert_eq!(last(&mut one, HOLD), "-> DECLARE CURSOR");
    let kept = database.database.memory.used();
    assert!((500 << 10..800 << 10).contains(&kept), "{kept}");
    // There is no room for the rows of another one: they are in a file.
    assert_eq!(last(&mut other, HOLD), "-> DECLARE CURSOR");
    assert!(database.database.memory.used() - kept < 100 << 10, "{}", database.database.memory.used());
    assert_eq!(last(&mut other, "fetch 2 from c"), "-> FETCH 2");
    assert_eq!(last(&mut one, "fetch 2 from c"), "-> FETCH 2");
    let large = "select length(string_agg(repeat('x', 1000), '')) from generate_series(1, 1500) as n";
    assert_eq!(last(&mut other, large), REFUSED);
    assert_eq!(last(&mut one, "close c"), "-> CLOSE CURSOR");
    drop(other);
    assert_eq!(database.database.memory.used(), 0);
}

#[test]
fn prepared_statements_count() {
    let database = TestDatabase::new();
    database.database.memory.set_limit(1 << 20);
    let mut client = database.connect();
    let mut prepared = 0;
    let refused = loop {
        let answer = last(&mut client, &format!("prepare p{prepared} as select {prepared} as n"));
        if answer != "-> PREPARE" {
            break answer;
        }
        prepared += 1;
    };
    assert_eq!(refused, REFUSED);
    assert!((200..1000).contains(&prepared), "{prepared}");
    assert_eq!(last(&mut client, "deallocate all"), "-> DEALLOCATE ALL");
    assert_eq!(database.database.memory.used(), 0);
    assert_eq!(client.run("select 1 as one"), ["[one]", "1", "-> SELECT 1"]);
}

/// Each of them fits, and all of them together do not: who comes too late is refused, or goes on in a file.
#[test]
fn statements_side_by_side_keep_within_the_limit() {
    const LIMIT: usize = 8 << 20;
    let database = TestDatabase::new();
    database.database.memory.set_limit(LIMIT);
    let sort = "select t from (select repeat('x', 1000) || n as t from generate_series(1, 6000) as n) as s order by t desc limit 1 offset 5999";
    let list = "select array_length(array_agg(repeat('x', 1000) || n), 1) from generate_series(1, 6000) as n";
    let sorted = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for session in 0..8 {
            let (database, sorted) = (&database, &sorted);
            scope.spawn(move || {
                let mut client = database.connect_as(session + 1);
                client.run("set work_mem = '1GB'");
                for _ in 0..3 {
                    assert_eq!(last(&mut client, sort), "-> SELECT 1");
                }
                sorted.wait();
                for _ in 0..3 {
                    let listed = last(&mut client, list);
                    assert!(["-> SELECT 1", REFUSED].contains(&listed.as_str()), "{listed}");
                    let used = database.database.memory.used();
                    assert!(used <= LIMIT, "{used}");
                }
            });
        }
    });
    assert_eq!(database.database.memory.used(), 0);
}

/// All temporary files of a session count, as long as they are there; those of another session do not.
#[test]
fn temporary_files_of_a_session_have_a_limit() {
    const SORT: &str = "select repeat('x', 1000) || n as t from generate_series(1, 1500) as n order by t";
    let database = TestDatabase::new();
    let (mut one, mut other) = (database.connect(), database.connect());
    let refused = "ERROR 53400: temporary file size exceeds temp_file_limit (2200kB)";
    assert_eq!(one.run("select setting from pg_settings where name = 'temp_file_limit'")[1], "-1");
    for client in [&mut one, &mut other] {
        client.run("set work_mem = '64kB'; set temp_file_limit = '2200kB'");
    }
    let held = HOLD.replace("550", "1000");
    assert_eq!(last(&mut one, SORT), "-> SELECT 1500");
    assert_eq!(last(&mut one, &held), "-> DECLARE CURSOR");
    assert_eq!(last(&mut one, SORT), refused);
    assert_eq!(last(&mut other, SORT), "-> SELECT 1500");
    assert_eq!(last(&mut one, "close c"), "-> CLOSE CURSOR");
    assert_eq!(last(&mut one, SORT), "-> SELECT 1500");
    one.run("set temp_file_limit = 0");
    assert_eq!(last(&mut one, SORT), "ERROR 53400: temporary file size exceeds temp_file_limit (0kB)");
    // Who only reads on needs no file to go back, whatever the cursor remembers as long as it has memory for that.
    let read = one.run(&format!("begin; declare d cursor for {SORT}; fetch all in d"));
    assert!(read.last().unwrap().starts_with("ERROR 53400"), "a sort needs one: {read:?}");
    one.run("rollback");
    let scan = "select repeat('x', 1000) || n as t from generate_series(1, 1500) as n";
    assert_eq!(
        last(&mut one, &format!("begin; declare d cursor for {scan}; fetch all in d")),
        "-> FETCH 1500"
    );
    assert_eq!(last(&mut one, "rollback"), "-> ROLLBACK");
    // The limit of now counts, and not that of the moment when the cursor was made.
    one.run(&format!(
        "set temp_file_limit = -1; begin; declare d scroll cursor for {scan}; set temp_file_limit = 0"
    ));
    assert_eq!(
        last(&mut one, "fetch all in d"),
        "ERROR 53400: temporary file size exceeds temp_file_limit (0kB)"
    );
    assert_eq!(last(&mut one, "rollback"), "-> ROLLBACK");
    assert_eq!(last(&mut one, "set temp_file_limit = -1; select 1"), "-> SELECT 1");
    assert_eq!(last(&mut one, SORT), "-> SELECT 1500");
}

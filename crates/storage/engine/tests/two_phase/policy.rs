//! Rules about transactions that stay in doubt, and the record of what they decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall_engine::{
    Background, Database, DecisionReason, Environment, Error, InDoubtAction, InDoubtHook, InDoubtRule,
    Options, Verdict,
};
use seawall_io::Clock;
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_testing::wait_until;

use super::{check_and_close, get, gids, lose_power, open, options, prepare, put};

fn open_at(disk: &SimulatedDisk, clock: &Arc<SimulatedClock>, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

fn prepare_by(database: &Database, owner: &str, gid: &str) {
    let table = database.table("t").unwrap();
    let mut transaction = database.begin();
    transaction.set_owner(owner).unwrap();
    transaction.put(&table, gid, "1").unwrap();
    transaction.prepare(gid).unwrap();
}

fn rule(owner: Option<&str>, gid_prefix: &str, seconds: u64, action: InDoubtAction) -> InDoubtRule {
    InDoubtRule {
        owner: owner.map(str::to_owned),
        gid_prefix: gid_prefix.to_owned(),
        ..InDoubtRule::new(Duration::from_secs(seconds), action)
    }
}

#[test]
fn the_first_rule_that_fits_decides_and_the_record_survives() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SimulatedClock::new(0)));
    clock.advance(Duration::from_secs(1_000));
    let database = open_at(&disk, &clock, options());
    database.create_table("t").unwrap();
    for gid in ["keep-1", "test-1", "ask-yes", "ask-no", "ask-later"] {
        prepare_by(&database, "billing", gid);
    }
    prepare_by(&database, "other", "test-2");
    clock.advance(Duration::from_secs(50));
    prepare_by(&database, "billing", "test-young");
    clock.advance(Duration::from_secs(10));
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let hook = InDoubtHook::new(move |transaction| {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!((&transaction.owner[..], transaction.age), ("billing", Duration::from_secs(60)));
        match &transaction.gid[..] {
            "ask-yes" => Verdict::Commit,
            "ask-no" => Verdict::RollBack,
            _ => Verdict::Wait,
        }
    });
    let rules = [
        rule(None, "keep-", 0, InDoubtAction::Report),
        rule(None, "ask-", 60, InDoubtAction::Ask(hook)),
        rule(Some("billing"), "", 60, InDoubtAction::RollBack),
    ];
    let decided = database.two_phase().apply_rules(&rules).unwrap().decided;
    let shown: Vec<_> = decided.iter().map(|one| (&one.gid[..], one.committed, one.reason)).collect();
    assert_eq!(
        shown,
        [
            ("test-1", false, DecisionReason::Rule),
            ("ask-yes", true, DecisionReason::Asked),
            ("ask-no", false, DecisionReason::Asked),
        ]
    );
    assert_eq!(gids(&database), ["keep-1", "ask-later", "test-2", "test-young"]);
    assert_eq!((get(&database, "ask-yes").as_deref(), get(&database, "test-1")), (Some("1"), None));
    assert_eq!((asked.load(Ordering::SeqCst), database.statistics().two_phase.reported), (3, 1));
    assert!(database.two_phase().apply_rules(&rules).unwrap().decided.is_empty());
    assert_eq!((asked.load(Ordering::SeqCst), database.statistics().two_phase.reported), (4, 1));
    for checkpoints in [false, true] {
        if checkpoints {
            database.checkpoint().unwrap();
        }
        let again = open_at(&disk.after_power_loss(super::PowerLoss::LoseAll), &clock, options());
        assert_eq!(again.two_phase().automatic_decisions().unwrap(), decided);
        assert_eq!(again.info().unwrap().automatic_decisions, decided);
        assert!(again.two_phase().forget_automatic_decision("ask-no").unwrap());
        assert!(!again.two_phase().forget_automatic_decision("ask-no").unwrap());
        assert_eq!(again.two_phase().automatic_decisions().unwrap().len(), 2);
    }
    assert_eq!(decided[0].decided_micros - decided[0].prepared_micros, 60_000_000);
    for gid in gids(&database) {
        database.two_phase().rollback(&gid).unwrap();
    }
    assert_eq!(database.two_phase().automatic_decisions().unwrap(), decided, "an order is not recorded");
    check_and_close(database);
}

#[test]
fn nothing_is_pushed_out_of_the_record_whatever_the_clock_says() {
    let clock = Arc::new(SimulatedClock::new(0));
    let disk = SimulatedDisk::new(2);
    let mut database = open_at(&disk, &clock, options());
    database.create_table("t").unwrap();
    let rules = [InDoubtRule::new(Duration::ZERO, InDoubtAction::RollBack)];
    for number in 0..1_100_u32 {
        prepare(&database, &format!("gid {number}"), &[("key", "value")]);
        clock.advance(Duration::from_secs(1));
        assert_eq!(database.two_phase().apply_rules(&rules).unwrap().decided.len(), 1);
        if number == 1_050 {
            database.close().unwrap();
            // The clock starts anew: it was set back.
            database = open_at(&disk, &Arc::new(SimulatedClock::new(0)), options());
        }
    }
    assert_eq!(database.two_phase().automatic_decisions().unwrap().len(), 1_100);
    for number in [0, 1_051, 1_099] {
        let found = database.two_phase().automatic_decisions_about(&format!("gid {number}")).unwrap();
        assert_eq!(found.len(), 1);
    }
    assert_eq!(database.two_phase().forget_old_automatic_decisions(Duration::MAX).unwrap(), 0);
    assert_eq!(database.two_phase().forget_old_automatic_decisions(Duration::ZERO).unwrap(), 1_100);
    assert!(database.two_phase().automatic_decisions().unwrap().is_empty());
    check_and_close(database);
}

#[test]
fn decisions_about_one_gid_are_told_from_those_about_others_that_start_the_same() {
    let database = open(&SimulatedDisk::new(4));
    database.create_table("t").unwrap();
    let rules = [InDoubtRule::new(Duration::ZERO, InDoubtAction::RollBack)];
    for gid in ["g", "gg", "g", "h", "gh"] {
        prepare(&database, gid, &[("key", "value")]);
        assert_eq!(database.two_phase().apply_rules(&rules).unwrap().decided.len(), 1);
    }
    let about = |gid: &str| database.two_phase().automatic_decisions_about(gid).unwrap().len();
    assert_eq!([about("g"), about("gg"), about("gh"), about("gx"), about("")], [2, 1, 1, 0, 0]);
    assert!(database.two_phase().forget_automatic_decision("g").unwrap());
    assert_eq!([about("g"), about("gg"), about("gh"), about("h")], [0, 1, 1, 1]);
    check_and_close(database);
}

#[test]
fn what_asks_nobody_is_done_first_and_a_hook_that_panics_has_not_decided() {
    let database = open(&SimulatedDisk::new(5));
    database.create_table("t").unwrap();
    for gid in ["ask 1", "ask 2", "plain"] {
        prepare(&database, gid, &[(gid, "1")]);
    }
    let seen = database.clone();
    let hook = InDoubtHook::new(move |asked| {
        assert!(put(&seen, "plain", "free").is_ok(), "decided before anybody is asked");
        assert!(asked.gid != "ask 1", "a panic");
        Verdict::Commit
    });
    let rules =
        [rule(None, "ask", 0, InDoubtAction::Ask(hook)), rule(None, "plain", 0, InDoubtAction::RollBack)];
    let applied = database.two_phase().apply_rules(&rules).unwrap();
    assert!(applied.failed.is_empty());
    let decided: Vec<_> = applied.decided.iter().map(|decided| &decided.gid[..]).collect();
    assert_eq!(decided, ["plain", "ask 2"]);
    assert_eq!(gids(&database), ["ask 1"]);
    database.two_phase().rollback("ask 1").unwrap();
    drop(rules);
    check_and_close(database);
}

/// The hook does not answer before the test says so, and would be asked fifty times.
#[test]
fn closing_waits_for_one_answer_and_asks_no_further() {
    let disk = SimulatedDisk::new(6);
    let database = open(&disk);
    database.create_table("t").unwrap();
    for number in 0..50 {
        prepare(&database, &number.to_string(), &[(&number.to_string(), "1")]);
    }
    let left = lose_power(&disk, database);
    let asked = Arc::new(AtomicU64::new(0));
    let answers = Arc::new(AtomicBool::new(false));
    let (told, waited) = (Arc::clone(&asked), Arc::clone(&answers));
    let hook = InDoubtHook::new(move |_| {
        told.fetch_add(1, Ordering::SeqCst);
        wait_until("the test to let the hook answer", || waited.load(Ordering::SeqCst));
        Verdict::Wait
    });
    let rules = vec![InDoubtRule::new(Duration::ZERO, InDoubtAction::Ask(hook))];
    let options = Options { background: Background::Threads, in_doubt_rules: rules, ..options() };
    let environment = Environment::of_the_system(Arc::new(left));
    let database = Database::open(environment, options).unwrap();
    wait_until("the hook to be asked", || asked.load(Ordering::SeqCst) > 0);
    std::thread::scope(|scope| {
        let other = database.clone();
        let closing = scope.spawn(move || other.close());
        // Closed for everybody else at once.
        wait_until("the database to be closed", || database.two_phase().in_doubt().is_err());
        answers.store(true, Ordering::SeqCst);
        closing.join().unwrap().unwrap();
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// The write set of one lies in the tree, on a page that is damaged.
#[test]
fn one_that_cannot_be_decided_does_not_keep_the_others_in_doubt() {
    let disk = SimulatedDisk::new(7);
    let mut few_pages = options();
    few_pages.memory.cache_bytes = 16 << 10;
    let database = super::open_with(&disk, few_pages);
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, "long", [0xA5; 100_000]).unwrap();
    transaction.prepare("damaged").unwrap();
    for number in 0..100 {
        database.put(&table, format!("other {number}"), [1; 3_000]).unwrap();
    }
    database.checkpoint().unwrap();
    prepare(&database, "later", &[("a", "1")]);
    let pages = disk.read_file("pages").unwrap();
    let place = pages.windows(64).position(|bytes| bytes == [0xA5; 64]).unwrap();
    disk.overwrite("pages", u64::try_from(place).unwrap(), &[0x5A; 64]);
    // Out of the cache.
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 100);
    let hook = InDoubtHook::new(|_| Verdict::Commit);
    let rules = [InDoubtRule::new(Duration::ZERO, InDoubtAction::Ask(hook))];
    let applied = database.two_phase().apply_rules(&rules).unwrap();
    let failed: Vec<_> = applied.failed.iter().map(|failed| &failed.gid[..]).collect();
    let decided: Vec<_> = applied.decided.iter().map(|decided| &decided.gid[..]).collect();
    assert_eq!((failed, decided), (vec!["damaged"], vec!["later"]), "{applied:?}");
    assert_eq!(get(&database, "a").as_deref(), Some("1"));
}

/// Rules look at what is in doubt while others prepare and decide.
#[test]
fn rules_and_coordinators_decide_each_transaction_once() {
    let database = open(&SimulatedDisk::new(8));
    database.create_table("t").unwrap();
    let rules = [
        rule(None, "rolled back", 0, InDoubtAction::RollBack),
        rule(None, "asked", 0, InDoubtAction::Ask(InDoubtHook::new(|_| Verdict::Commit))),
    ];
    let working = AtomicU64::new(4);
    let (by_rules, by_coordinators) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (database, working, count) = (&database, &working, &by_coordinators);
            scope.spawn(move || {
                for number in 0..250 {
                    let kind = if number % 2 == 0 { "rolled back" } else { "asked" };
                    let gid = format!("{kind} {worker} {number}");
                    prepare(database, &gid, &[(&gid, "1")]);
                    let decided = database.two_phase().rollback(&gid);
                    let expected =
                        matches!(decided, Ok(_) | Err(Error::NotInDoubt { .. } | Error::BeingDecided { .. }));
                    assert!(expected, "{decided:?}");
                    count.fetch_add(u64::from(decided.is_ok()), Ordering::SeqCst);
                }
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while working.load(Ordering::SeqCst) > 0 {
            let applied = database.two_phase().apply_rules(&rules).unwrap();
            assert!(applied.failed.is_empty(), "{applied:?}");
            by_rules.fetch_add(u64::try_from(applied.decided.len()).unwrap(), Ordering::SeqCst);
        }
    });
    let (rules, coordinators) = (by_rules.into_inner(), by_coordinators.into_inner());
    assert_eq!(rules + coordinators, 1_000);
    let recorded = database.two_phase().automatic_decisions().unwrap();
    assert_eq!(u64::try_from(recorded.len()).unwrap(), rules);
    for decision in recorded {
        assert_eq!(get(&database, &decision.gid).is_some(), decision.committed);
    }
    check_and_close(database);
}

#[test]
fn rules_of_the_options_are_applied_by_a_thread() {
    let asked = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&asked);
    let hook = InDoubtHook::new(move |_| {
        told.fetch_add(1, Ordering::SeqCst);
        Verdict::Commit
    });
    let rules = vec![InDoubtRule::new(Duration::ZERO, InDoubtAction::Ask(hook))];
    let disk = SimulatedDisk::new(3);
    let database = open(&disk);
    database.create_table("t").unwrap();
    prepare(&database, "gid", &[("a", "1")]);
    let left = lose_power(&disk, database);
    let options = Options { background: Background::Threads, in_doubt_rules: rules, ..options() };
    let environment = Environment::of_the_system(Arc::new(left));
    let database = Database::open(environment, options).unwrap();
    wait_until("the hook to be asked", || asked.load(Ordering::SeqCst) > 0);
    // The row is locked until the thread has decided.
    wait_until("the row to be unlocked", || put(&database, "a", "2").is_ok());
    assert_eq!(database.two_phase().automatic_decisions().unwrap().len(), 1);
    check_and_close(database);
}

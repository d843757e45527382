//! Rules about transactions that stay in doubt, and the record of what they decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_engine::{
    Background, Database, DecisionReason, Environment, InDoubtAction, InDoubtHook, InDoubtRule, Options,
    Verdict,
};
use seawall_io::{Clock, WaitWord};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::{check_and_close, get, gids, lose_power, open, options, prepare, put};

fn open_at(disk: &SimulatedDisk, clock: &Arc<SimulatedClock>, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open_in(environment, options, |_| {}).unwrap()
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
    let decided = database.apply_in_doubt_rules(&rules).unwrap();
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
    assert_eq!((asked.load(Ordering::SeqCst), database.statistics().in_doubt_reported), (3, 1));
    assert!(database.apply_in_doubt_rules(&rules).unwrap().is_empty());
    assert_eq!((asked.load(Ordering::SeqCst), database.statistics().in_doubt_reported), (4, 1));
    for checkpoints in [false, true] {
        if checkpoints {
            database.checkpoint().unwrap();
        }
        let again = open_at(&disk.after_power_loss(super::PowerLoss::LoseAll), &clock, options());
        assert_eq!(again.automatic_decisions().unwrap(), decided);
        assert_eq!(again.info().unwrap().automatic_decisions, decided);
        assert!(again.forget_automatic_decision("ask-no").unwrap());
        assert!(!again.forget_automatic_decision("ask-no").unwrap());
        assert_eq!(again.automatic_decisions().unwrap().len(), 2);
    }
    assert_eq!(decided[0].decided_micros - decided[0].prepared_micros, 60_000_000);
    for gid in gids(&database) {
        database.rollback_prepared(&gid).unwrap();
    }
    assert_eq!(database.automatic_decisions().unwrap(), decided, "an order is not recorded");
    check_and_close(database);
}

#[test]
fn the_record_keeps_the_last_thousand() {
    let clock = Arc::new(SimulatedClock::new(0));
    let disk = SimulatedDisk::new(2);
    let mut database = open_at(&disk, &clock, options());
    database.create_table("t").unwrap();
    let rules = [InDoubtRule::new(Duration::ZERO, InDoubtAction::RollBack)];
    for number in 0..1_100_u32 {
        prepare(&database, &format!("gid {number}"), &[("key", "value")]);
        clock.advance(Duration::from_secs(1));
        assert_eq!(database.apply_in_doubt_rules(&rules).unwrap().len(), 1);
        if number == 1_050 {
            database.close().unwrap();
            database = open_at(&disk, &clock, options());
        }
    }
    let kept = database.automatic_decisions().unwrap();
    assert_eq!((kept.len(), &kept[0].gid[..], &kept[999].gid[..]), (1_000, "gid 100", "gid 1099"));
    check_and_close(database);
}

#[test]
fn rules_of_the_options_are_applied_by_a_thread() {
    let asked = Arc::new((AtomicU64::new(0), WaitWord::new()));
    let told = Arc::clone(&asked);
    let hook = InDoubtHook::new(move |_| {
        told.0.fetch_add(1, Ordering::SeqCst);
        told.1.wake_all();
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
    let database = Database::open_in(environment, options, |_| {}).unwrap();
    loop {
        let seen = asked.1.read();
        if asked.0.load(Ordering::SeqCst) > 0 {
            break;
        }
        asked.1.wait(seen, Some(Duration::from_secs(60)));
    }
    // The row is locked until the thread has decided.
    while put(&database, "a", "2").is_err() {
        std::thread::yield_now();
    }
    assert_eq!(database.automatic_decisions().unwrap().len(), 1);
    check_and_close(database);
}

use super::*;

const LIFE: u64 = 2;
const GID: Gid = Gid { thread: 0, count: 3, token: 77 };

fn committed(thread: Thread, count: u64, stamp: u64, is_durable: bool) -> Line {
    Line::Committed { thread, count, stamp, is_durable }
}

fn found(counts: [(Thread, u64); 2]) -> Found {
    Found { counts: Counts::from(counts), ..Found::default() }
}

/// Two threads, of two transactions each; the first one is durable.
fn acknowledged() -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    acknowledged.begin(LIFE, 1);
    for line in [
        committed(0, 1, 10, true),
        committed(1, 1, 20, false),
        committed(0, 2, 30, false),
        committed(1, 2, 40, false),
    ] {
        acknowledged.record(line);
    }
    acknowledged
}

#[test]
fn lines_come_back_as_they_were_and_cut_ones_do_not() {
    for line in [
        committed(3, 17, 99, true),
        committed(0, 1, 5, false),
        Line::Flushed { thread: 9, count: 4 },
        Line::Prepared { gid: GID, is_durable: true },
        Line::Deciding { gid: GID, decision: Decision::Commit },
        Line::Deciding { gid: GID, decision: Decision::Rollback },
        Line::Decided { gid: GID, is_durable: false },
    ] {
        let text = line.encode();
        let text = text.trim_end();
        assert_eq!(Line::decode(text), Some(line));
        for cut in 0..text.len() {
            assert_eq!(Line::decode(&text[..cut]), None, "{text} cut to {cut}");
        }
    }
}

#[test]
fn a_kill_may_take_nothing_and_a_power_loss_the_newest_end() {
    let acknowledged = acknowledged();
    let wrong = |counts, cut| acknowledged.difference(&found(counts), cut).is_some();
    assert!(!wrong([(0, 2), (1, 2)], Cut::Kill));
    assert!(!wrong([(0, 3), (1, 2)], Cut::Kill), "one may have been under way");
    assert!(wrong([(0, 4), (1, 2)], Cut::Kill), "nobody wrote that many");
    assert!(wrong([(0, 2), (1, 1)], Cut::Kill));
    assert!(!wrong([(0, 2), (1, 1)], Cut::PowerLoss));
    assert!(!wrong([(0, 1), (1, 1)], Cut::PowerLoss));
    assert!(!wrong([(0, 1), (1, 0)], Cut::PowerLoss));
    assert!(wrong([(0, 0), (1, 0)], Cut::PowerLoss), "the first was durable");
    assert!(wrong([(0, 2), (1, 0)], Cut::PowerLoss), "stamp 30 is there and 20 is not");
    assert_eq!(acknowledged.lost(&found([(0, 1), (1, 1)])), 2);
}

#[test]
fn a_flush_makes_what_came_before_durable_and_so_does_being_seen() {
    let mut acknowledged = acknowledged();
    acknowledged.record(Line::Flushed { thread: 1, count: 1 });
    assert!(acknowledged.difference(&found([(0, 1), (1, 0)]), Cut::PowerLoss).is_some());
    acknowledged.settle(found([(0, 2), (1, 1)]));
    assert!(acknowledged.difference(&found([(0, 1), (1, 1)]), Cut::PowerLoss).is_some());
    assert!(acknowledged.difference(&found([(0, 2), (1, 1)]), Cut::PowerLoss).is_none());
}

#[test]
fn what_a_recovery_gave_up_does_not_come_back() {
    let mut acknowledged = acknowledged();
    acknowledged.settle(found([(0, 1), (1, 0)]));
    let come_back = found([(0, 2), (1, 0)]);
    assert!(acknowledged.difference(&come_back, Cut::PowerLoss).is_some(), "nobody has written since");
    acknowledged.begin(LIFE + 1, 1);
    let of_life = |life| Found { lives: BTreeMap::from([(0, life)]), ..come_back.clone() };
    assert!(acknowledged.difference(&of_life(LIFE), Cut::PowerLoss).is_some());
    assert!(acknowledged.difference(&of_life(LIFE + 1), Cut::PowerLoss).is_none());
    let gid = Gid { thread: 0, count: 2, token: 5 };
    acknowledged.settle(Found { in_doubt: [gid].into(), ..found([(0, 1), (1, 0)]) });
    acknowledged.begin(LIFE + 1, 1);
    acknowledged.record(Line::Deciding { gid, decision: Decision::Commit });
    assert!(
        acknowledged.difference(&of_life(LIFE), Cut::PowerLoss).is_none(),
        "it was in doubt, and is committed"
    );
}

#[test]
fn a_prepared_transaction_stays_in_doubt_until_it_is_decided() {
    let there = |count, gids: &[Gid]| Found {
        counts: Counts::from([(0, count)]),
        in_doubt: gids.iter().copied().collect(),
        ..Found::default()
    };
    let doubt = |lines: &[Line]| {
        let mut acknowledged = Acknowledged::default();
        acknowledged.begin(LIFE, 1);
        acknowledged.record(committed(0, 2, 10, true));
        lines.iter().for_each(|line| acknowledged.record(*line));
        acknowledged
    };
    let wrong = |lines: &[Line], found, cut| doubt(lines).difference(&found, cut).is_some();
    let prepared = Line::Prepared { gid: GID, is_durable: true };
    let soon = Line::Prepared { gid: GID, is_durable: false };
    let deciding = |decision| Line::Deciding { gid: GID, decision };
    let decided = |is_durable| Line::Decided { gid: GID, is_durable };

    assert!(!wrong(&[prepared], there(2, &[GID]), Cut::PowerLoss));
    assert!(wrong(&[prepared], there(2, &[]), Cut::PowerLoss), "it was prepared durably");
    assert!(wrong(&[prepared], there(3, &[]), Cut::PowerLoss), "nobody has decided");
    assert!(!wrong(&[soon], there(2, &[]), Cut::PowerLoss));
    assert!(wrong(&[soon], there(2, &[]), Cut::Kill));
    assert!(wrong(&[prepared], there(3, &[GID]), Cut::PowerLoss), "committed and in doubt");
    let commit = [prepared, deciding(Decision::Commit)];
    assert!(!wrong(&commit, there(2, &[GID]), Cut::PowerLoss));
    assert!(!wrong(&commit, there(3, &[]), Cut::PowerLoss));
    assert!(wrong(&commit, there(2, &[]), Cut::PowerLoss));
    let rollback = [prepared, deciding(Decision::Rollback)];
    assert!(!wrong(&rollback, there(2, &[]), Cut::PowerLoss));
    assert!(wrong(&rollback, there(3, &[]), Cut::PowerLoss));
    let is_again =
        |is_durable, cut| wrong(&[rollback[0], rollback[1], decided(is_durable)], there(2, &[GID]), cut);
    assert!(is_again(true, Cut::PowerLoss) && is_again(false, Cut::Kill) && !is_again(false, Cut::PowerLoss));

    let mut seen = doubt(&rollback);
    seen.settle(there(2, &[]));
    assert!(
        seen.difference(&there(2, &[GID]), Cut::PowerLoss).is_some(),
        "somebody has seen that it is gone"
    );
}

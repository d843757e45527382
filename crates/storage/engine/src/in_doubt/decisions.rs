//! The record of what rules have decided about transactions in doubt: the system table `decisions`.
//!
//! A decision and its row are one record of the log: after a crash either both are there or neither is. The row stays until
//! somebody says that the coordinator knows: a coordinator that comes back after a long time must find what was done instead of
//! what it has decided, or it takes `NotInDoubt` for success. So nothing is pushed out of the record; if [`DECISIONS_MAX`] are
//! in it, rules decide no more, and report.
//!
//! | bytes | field    | of    | meaning                                                             |
//! |------:|----------|-------|---------------------------------------------------------------------|
//! |     1 | length   | key   | of the gid                                                          |
//! |       | gid      | key   | UTF-8                                                               |
//! |     8 | prepared | key   | stamp of the prepare, big-endian                                    |
//! |     1 | version  | value | 1                                                                   |
//! |     1 | outcome  | value | 1: committed, 2: rolled back                                        |
//! |     1 | reason   | value | 1: a rule said so, 2: somebody was asked                            |
//! |     8 | decided  | value | time of the decision, microseconds since 1970, signed, little-endian |
//! |     8 | since    | value | time of the prepare, the same                                       |
//! |       | owner    | value | UTF-8, the rest                                                     |

use std::ops::Bound;
use std::time::Duration;

use seawall_types::{Lsn, TableId};

use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::age::between;
use crate::options::Durability;
use crate::row_key;
use crate::snapshots::scan::{Direction, Range};
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::lock_mode::LockMode;
use crate::transaction::lock_table::lock_name;
use crate::transaction::lock_wait::LockPatience;

/// The system table.
pub(crate) const DECISIONS: TableId = TableId::new(4);

/// Automatic decisions that are remembered until somebody forgets them. If there are so many, rules only report.
pub const DECISIONS_MAX: usize = 100_000;

const VERSION: u8 = 1;

/// Rows that are deleted in one commit.
const FORGOTTEN_TOGETHER: usize = 1000;

/// Why a transaction was decided without its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    /// A rule said that it is rolled back.
    Rule,
    /// A hook was asked, or an operator's command.
    Asked,
}

/// A decision that was made by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomaticDecision {
    /// The transaction.
    pub gid: String,
    /// Who had prepared it.
    pub owner: String,
    /// Stamp of the prepare.
    pub lsn: Lsn,
    /// Whether it was committed; otherwise it was rolled back.
    pub committed: bool,
    /// Why.
    pub reason: DecisionReason,
    /// When it was prepared, in microseconds since 1970.
    pub prepared_micros: i64,
    /// When it was decided, in microseconds since 1970.
    pub decided_micros: i64,
}

/// The rows of a gid start with this.
fn key_start(gid: &str) -> Vec<u8> {
    let length = u8::try_from(gid.len()).expect("a gid has at most 200 bytes");
    [&[length], gid.as_bytes()].concat()
}

impl AutomaticDecision {
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = key_start(&self.gid);
        key.extend_from_slice(&self.lsn.get().to_be_bytes());
        row_key::encode(DECISIONS, &key)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let reason = match self.reason {
            DecisionReason::Rule => 1,
            DecisionReason::Asked => 2,
        };
        let mut row = vec![VERSION, if self.committed { 1 } else { 2 }, reason];
        row.extend_from_slice(&self.decided_micros.to_le_bytes());
        row.extend_from_slice(&self.prepared_micros.to_le_bytes());
        row.extend_from_slice(self.owner.as_bytes());
        row
    }

    fn decode(key: &[u8], row: &[u8]) -> Result<AutomaticDecision, Error> {
        let refuse = |problem| Error::Catalog { place: format!("automatic decision {key:02x?}"), problem };
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned);
        let text = |bytes| text(bytes).map_err(|_| refuse("a name is not UTF-8"));
        let (rest, lsn) = key.split_last_chunk::<8>().ok_or_else(|| refuse("the key is too short"))?;
        let (length, gid) = rest.split_first().ok_or_else(|| refuse("the key is too short"))?;
        if usize::from(*length) != gid.len() {
            return Err(refuse("the key has not the length of its gid"));
        }
        let (head, owner) = row.split_first_chunk::<19>().ok_or_else(|| refuse("the row is too short"))?;
        if head[0] != VERSION || !(1..=2).contains(&head[1]) || !(1..=2).contains(&head[2]) {
            return Err(refuse("the row has an unknown version, outcome or reason"));
        }
        Ok(AutomaticDecision {
            gid: text(gid)?,
            owner: text(owner)?,
            lsn: Lsn::new(u64::from_be_bytes(*lsn)),
            committed: head[1] == 1,
            reason: if head[2] == 1 { DecisionReason::Rule } else { DecisionReason::Asked },
            decided_micros: i64::from_le_bytes(head[3..11].try_into().expect("eight bytes")),
            prepared_micros: i64::from_le_bytes(head[11..19].try_into().expect("eight bytes")),
        })
    }
}

impl Engine {
    /// Counts one more decision, if there is room for it in the record.
    pub(crate) fn reserve_decision(&self) -> Result<bool, Error> {
        let count = || Ok(self.automatic_decisions()?.len());
        self.in_doubt.decision_count.reserve(DECISIONS_MAX, count)
    }

    /// What rules have decided, oldest first.
    pub(crate) fn automatic_decisions(&self) -> Result<Vec<AutomaticDecision>, Error> {
        let (from, to) = crate::snapshots::scan::row_bounds::<&[u8]>(DECISIONS, &..);
        let mut found = self.decisions_between(from, to)?;
        found.sort_by_key(|decision| (decision.decided_micros, decision.lsn));
        Ok(found)
    }

    /// What rules have decided about `gid`, in the order of the prepares.
    pub(crate) fn automatic_decisions_about(&self, gid: &str) -> Result<Vec<AutomaticDecision>, Error> {
        if crate::in_doubt::prepare::check_gid(gid).is_err() {
            return Ok(Vec::new());
        }
        let from = key_start(gid);
        let to = [&from[..], &[0xFF; 9]].concat();
        let (from, to) = crate::snapshots::scan::row_bounds(DECISIONS, &(from..to));
        let mut found = self.decisions_between(from, to)?;
        found.retain(|decision| decision.gid == gid);
        Ok(found)
    }

    fn decisions_between(
        &self,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Result<Vec<AutomaticDecision>, Error> {
        let mut rows = Range::new(self, self.register_snapshot(), None, from, to, Direction::Forward);
        let mut found = Vec::new();
        while let Some((key, value)) = rows.next_row()? {
            found.push(AutomaticDecision::decode(key, value)?);
        }
        Ok(found)
    }

    /// Forgets what rules have decided about `gid`; whether there was anything.
    pub(crate) fn forget_automatic_decision(&self, gid: &str) -> Result<bool, Error> {
        self.lifecycle.check_writable()?;
        Ok(self.forget_decisions(&self.automatic_decisions_about(gid)?)? > 0)
    }

    /// Forgets what rules have decided at least so long ago; how many there were.
    pub(crate) fn forget_old_automatic_decisions(&self, at_least: Duration) -> Result<usize, Error> {
        self.lifecycle.check_writable()?;
        let now = self.clock().wall_micros();
        let mut old = self.automatic_decisions()?;
        old.retain(|decision| between(now, decision.decided_micros) >= at_least);
        let mut forgotten = 0;
        for decisions in old.chunks(FORGOTTEN_TOGETHER) {
            forgotten += self.forget_decisions(decisions)?;
        }
        Ok(forgotten)
    }

    /// Deletes those of them that are still there; how many.
    fn forget_decisions(&self, decisions: &[AutomaticDecision]) -> Result<usize, Error> {
        let keys: Vec<_> = decisions.iter().map(AutomaticDecision::key).collect();
        let mut names: Vec<_> = keys.iter().map(|key| lock_name(key)).collect();
        // In one order, so that nobody waits in a circle.
        names.sort_unstable();
        names.dedup();
        let owner = self.locks.new_owner();
        let patience = LockPatience { wait: self.options.transaction.lock_wait, ..LockPatience::NONE };
        let mut held = Vec::new();
        let locked = names.iter().try_for_each(|name| {
            self.lock_one(owner, *name, LockMode::AccessExclusive, patience)?;
            held.push(*name);
            Ok(())
        });
        let forgotten = locked.and_then(|()| self.delete_decisions(&keys));
        self.locks.release_all(owner, held);
        let forgotten = forgotten?;
        self.in_doubt.decision_count.forget(forgotten);
        Ok(forgotten)
    }

    /// The caller has the locks of the rows. Whoever had them before has waited until the rows were gone for all.
    fn delete_decisions(&self, keys: &[Vec<u8>]) -> Result<usize, Error> {
        let mut left = Vec::new();
        for key in keys {
            if self.with_current_snapshot(|lsn| self.read_row(key, lsn, |row| row.is_some()))? {
                left.push(key);
            }
        }
        if left.is_empty() {
            return Ok(0);
        }
        let bytes = left.iter().map(|key| key.len()).sum::<usize>();
        let bytes = u64::try_from(bytes).expect("a length in memory fits into 64 bits");
        let request = CommitRequest::plain(self.locks.new_owner(), Durability::Sync);
        let stamp = self.log_commit(&request, left.iter().map(|key| (&key[..], None)), bytes)?;
        self.finish_commit(stamp, Durability::Sync, None)?;
        Ok(left.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::database::Database;
    use crate::in_doubt::rules::{InDoubtAction, InDoubtRule};
    use crate::options::{Background, Options};

    #[test]
    fn recorded_decisions_come_back_and_bad_ones_are_refused() {
        let decision = AutomaticDecision {
            gid: "größe".to_owned(),
            owner: "somebody".to_owned(),
            lsn: Lsn::new(1 << 40),
            committed: true,
            reason: DecisionReason::Asked,
            prepared_micros: -7,
            decided_micros: 1_700_000_000_000_000,
        };
        let (key, row) = (decision.key(), decision.encode());
        let key = row_key::key_of(&key);
        assert_eq!(AutomaticDecision::decode(key, &row).unwrap(), decision);
        assert!((0..19).all(|length| AutomaticDecision::decode(key, &row[..length]).is_err()));
        assert!((0..key.len()).all(|length| AutomaticDecision::decode(&key[..length], &row).is_err()));
        for position in 0..3 {
            let mut other = row.clone();
            other[position] = 3;
            assert!(AutomaticDecision::decode(key, &other).is_err());
        }
    }

    #[test]
    fn with_a_full_record_rules_only_report() {
        let environment = crate::environment::Environment {
            disk: Arc::new(seawall_simulation::SimulatedDisk::new(1)),
            clock: Arc::new(seawall_simulation::SimulatedClock::new(0)),
            random: Arc::new(seawall_simulation::SimulatedRandom::new(1)),
        };
        let options = Options { background: Background::Manual, ..Options::default() };
        let database = Database::open(environment, options).unwrap();
        let table = database.create_table("t").unwrap();
        for gid in ["one", "two"] {
            let mut transaction = database.begin();
            transaction.put(&table, gid, "1").unwrap();
            transaction.prepare(gid).unwrap();
        }
        database.engine().in_doubt.decision_count.set(DECISIONS_MAX - 1);
        let rules = [InDoubtRule::new(Duration::ZERO, InDoubtAction::RollBack)];
        for _ in 0..2 {
            database.two_phase().apply_rules(&rules).unwrap();
            assert_eq!(database.two_phase().automatic_decisions().unwrap().len(), 1);
        }
        assert_eq!(database.two_phase().in_doubt().unwrap()[0].gid, "two");
        assert_eq!(database.statistics().two_phase.reported, 1);
        // Room for one again.
        assert!(database.two_phase().forget_automatic_decision("one").unwrap());
        assert_eq!(database.two_phase().apply_rules(&rules).unwrap().decided.len(), 1);
        assert!(database.two_phase().in_doubt().unwrap().is_empty());
    }
}

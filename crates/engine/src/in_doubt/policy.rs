//! What to do about transactions that stay in doubt: rules, and who decided by them.
//!
//! A coordinator that is gone for good leaves rows locked for ever. A rule says, for an owner or for gids that start the same,
//! how old a transaction may get, and what happens then: it is reported, rolled back, or somebody is asked who knows what the
//! coordinator has decided. Rules are tried in their order; the first one that fits a transaction is the one.
//!
//! Every decision made by a rule is recorded in the system table `decisions`, in the record of the decision itself: after a
//! crash either both are there or neither is. The table keeps the last [`DECISIONS_MAX`].
//!
//! | bytes | field    | of    | meaning                                                         |
//! |------:|----------|-------|-----------------------------------------------------------------|
//! |     8 | time     | key   | of the decision, microseconds since 1970, big-endian            |
//! |     8 | prepared | key   | stamp of the prepare, big-endian                                |
//! |     1 | version  | value | 1                                                               |
//! |     1 | outcome  | value | 1: committed, 2: rolled back                                    |
//! |     1 | reason   | value | 1: a rule said so, 2: somebody was asked                        |
//! |     8 | since    | value | time of the prepare, microseconds since 1970, signed, little-endian |
//! |     1 | length   | value | of the gid                                                      |
//! |       | gid      | value | UTF-8                                                           |
//! |       | owner    | value | UTF-8, the rest                                                 |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_types::{Lsn, TableId};
use seawall_wal::Outcome;

use crate::commit::CommitRequest;
use crate::decide::{InDoubtTransaction, age};
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::PreparedTransaction;
use crate::options::Durability;
use crate::row_key;
use crate::scan::{Direction, Range};

/// The system table.
pub(crate) const DECISIONS: TableId = TableId::new(4);

/// Automatic decisions that are remembered.
pub const DECISIONS_MAX: usize = 1000;

const VERSION: u8 = 1;

/// What the coordinator says about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was committed.
    Commit,
    /// It was rolled back, or the coordinator does not know it.
    RollBack,
    /// It is not decided, or nobody can be reached: ask again later.
    Wait,
}

/// Asks who knows what became of a transaction. Called from a thread of the database; may take its time.
#[derive(Clone)]
pub struct InDoubtHook(Arc<dyn Fn(&InDoubtTransaction) -> Verdict + Send + Sync>);

impl InDoubtHook {
    /// A hook that calls `ask`.
    pub fn new(ask: impl Fn(&InDoubtTransaction) -> Verdict + Send + Sync + 'static) -> InDoubtHook {
        InDoubtHook(Arc::new(ask))
    }
}

impl std::fmt::Debug for InDoubtHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("InDoubtHook")
    }
}

/// What is done about a transaction that is too old.
#[derive(Clone, Debug)]
pub enum InDoubtAction {
    /// One line in the events of `tracing`, and a count in the statistics.
    Report,
    /// It is rolled back. If the coordinator has decided to commit, the databases disagree from then on.
    RollBack,
    /// Somebody is asked, again and again until there is an answer.
    Ask(InDoubtHook),
}

/// What to do about some transactions in doubt.
#[derive(Clone, Debug)]
pub struct InDoubtRule {
    /// Only those of this owner; `None`: of any.
    pub owner: Option<String>,
    /// Only those whose gid starts like this.
    pub gid_prefix: String,
    /// Once they are so old.
    pub age: Duration,
    /// What to do then.
    pub action: InDoubtAction,
}

impl InDoubtRule {
    /// A rule about all transactions in doubt.
    pub fn new(age: Duration, action: InDoubtAction) -> InDoubtRule {
        InDoubtRule { owner: None, gid_prefix: String::new(), age, action }
    }

    fn fits(&self, prepared: &PreparedTransaction) -> bool {
        prepared.gid.starts_with(&self.gid_prefix)
            && self.owner.as_ref().is_none_or(|owner| **owner == *prepared.owner)
    }
}

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

impl AutomaticDecision {
    fn key(&self) -> Vec<u8> {
        let time = u64::try_from(self.decided_micros).unwrap_or(0);
        let mut key = time.to_be_bytes().to_vec();
        key.extend_from_slice(&self.lsn.get().to_be_bytes());
        row_key::encode(DECISIONS, &key)
    }

    fn encode(&self) -> Vec<u8> {
        let reason = match self.reason {
            DecisionReason::Rule => 1,
            DecisionReason::Asked => 2,
        };
        let mut row = vec![VERSION, if self.committed { 1 } else { 2 }, reason];
        row.extend_from_slice(&self.prepared_micros.to_le_bytes());
        row.push(u8::try_from(self.gid.len()).expect("a gid has at most 200 bytes"));
        row.extend_from_slice(self.gid.as_bytes());
        row.extend_from_slice(self.owner.as_bytes());
        row
    }

    fn decode(key: &[u8], row: &[u8]) -> Result<AutomaticDecision, Error> {
        let refuse = |problem| Error::Catalog { place: format!("automatic decision {key:02x?}"), problem };
        let (time, lsn) = key.split_first_chunk::<8>().ok_or_else(|| refuse("the key is too short"))?;
        let lsn = lsn.try_into().map_err(|_| refuse("the key is not 16 bytes long"))?;
        let (head, rest) = row.split_first_chunk::<12>().ok_or_else(|| refuse("the row is too short"))?;
        let (since, length) = (head[3..11].try_into().expect("eight bytes"), usize::from(head[11]));
        if head[0] != VERSION || !(1..=2).contains(&head[1]) || !(1..=2).contains(&head[2]) {
            return Err(refuse("the row has an unknown version, outcome or reason"));
        }
        let (gid, owner) = rest.split_at_checked(length).ok_or_else(|| refuse("the row is too short"))?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned);
        let text = |bytes| text(bytes).map_err(|_| refuse("a name is not UTF-8"));
        Ok(AutomaticDecision {
            gid: text(gid)?,
            owner: text(owner)?,
            lsn: Lsn::new(u64::from_be_bytes(lsn)),
            committed: head[1] == 1,
            reason: if head[2] == 1 { DecisionReason::Rule } else { DecisionReason::Asked },
            prepared_micros: i64::from_le_bytes(since),
            decided_micros: i64::try_from(u64::from_be_bytes(*time)).unwrap_or(i64::MAX),
        })
    }
}

/// Keys of the system table, oldest first, once they were read.
#[derive(Debug, Default)]
pub(crate) struct DecisionKeys(Option<BTreeSet<Vec<u8>>>);

impl Engine {
    /// Applies rules to what is in doubt now; what was decided. One that another call decides meanwhile is left to it.
    pub(crate) fn apply_in_doubt_rules(
        &self,
        rules: &[InDoubtRule],
    ) -> Result<Vec<AutomaticDecision>, Error> {
        self.check_open()?;
        let mut decided = Vec::new();
        let mut all = self.in_doubt.all();
        all.sort_unstable_by_key(|prepared| prepared.stamp());
        for prepared in all {
            let now = self.clock().wall_micros();
            let Some(rule) = rules.iter().find(|rule| rule.fits(&prepared)) else { continue };
            // One that is not as durable as it asks yet is nobody's business but its own.
            let visible = prepared.stamp().is_some_and(|stamp| stamp <= self.visible());
            if !visible || age(now, prepared.time_micros) < rule.age {
                continue;
            }
            let (outcome, reason) = match &rule.action {
                InDoubtAction::Report => {
                    self.report(&prepared);
                    continue;
                }
                InDoubtAction::RollBack => (Outcome::Rollback, DecisionReason::Rule),
                InDoubtAction::Ask(hook) => match hook.0(&self.describe(&prepared)?) {
                    Verdict::Commit => (Outcome::Commit, DecisionReason::Asked),
                    Verdict::RollBack => (Outcome::Rollback, DecisionReason::Asked),
                    Verdict::Wait => continue,
                },
            };
            match self.decide_automatically(&prepared, outcome, reason) {
                Ok(decision) => decided.push(decision),
                Err(Error::NotInDoubt { .. } | Error::BeingDecided { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(decided)
    }

    fn report(&self, prepared: &PreparedTransaction) {
        if !prepared.reported.swap(true, Ordering::SeqCst) {
            self.in_doubt.counts.reported.fetch_add(1, Ordering::Relaxed);
            let age = age(self.clock().wall_micros(), prepared.time_micros);
            tracing::warn!(gid = %prepared.gid, owner = %prepared.owner, ?age, "a transaction stays in doubt");
        }
    }

    fn decide_automatically(
        &self,
        prepared: &PreparedTransaction,
        outcome: Outcome,
        reason: DecisionReason,
    ) -> Result<AutomaticDecision, Error> {
        let mut keys = self.decision_keys.lock();
        let known = self.known_decisions(&mut keys)?;
        let decision = AutomaticDecision {
            gid: prepared.gid.to_string(),
            owner: prepared.owner.to_string(),
            lsn: prepared.stamp().ok_or_else(|| Error::NotInDoubt { gid: prepared.gid.to_string() })?,
            committed: outcome == Outcome::Commit,
            reason,
            prepared_micros: prepared.time_micros,
            decided_micros: self.clock().wall_micros(),
        };
        let oldest = known.first().filter(|_| known.len() >= DECISIONS_MAX).cloned();
        let mut rows = vec![(decision.key(), Some(decision.encode()))];
        rows.extend(oldest.iter().map(|key| (key.clone(), None)));
        let stamp = self.log_decision(prepared, outcome, Durability::Sync, &rows)?;
        known.retain(|key| Some(key) != oldest.as_ref());
        known.insert(decision.key());
        self.finish_commit(stamp, Durability::Sync)?;
        tracing::warn!(gid = %decision.gid, owner = %decision.owner, committed = decision.committed, ?reason,
            "an in-doubt transaction was decided without its coordinator");
        Ok(decision)
    }

    fn known_decisions<'k>(&self, keys: &'k mut DecisionKeys) -> Result<&'k mut BTreeSet<Vec<u8>>, Error> {
        if keys.0.is_none() {
            keys.0 = Some(self.automatic_decisions()?.iter().map(AutomaticDecision::key).collect());
        }
        Ok(keys.0.get_or_insert_default())
    }

    /// What rules have decided, oldest first.
    pub(crate) fn automatic_decisions(&self) -> Result<Vec<AutomaticDecision>, Error> {
        let snapshot = self.register_snapshot();
        let (from, to) = crate::scan::row_bounds::<&[u8]>(DECISIONS, &..);
        let mut rows = Range::new(self, snapshot, None, from, to, Direction::Forward);
        let mut found = Vec::new();
        while let Some((key, value)) = rows.next_row()? {
            found.push(AutomaticDecision::decode(key, value)?);
        }
        Ok(found)
    }

    /// Forgets what rules have decided about `gid`; whether there was anything.
    pub(crate) fn forget_automatic_decision(&self, gid: &str) -> Result<bool, Error> {
        self.check_writable()?;
        let mut keys = self.decision_keys.lock();
        let known = self.known_decisions(&mut keys)?;
        let all = self.automatic_decisions()?;
        let of_gid: Vec<_> =
            all.iter().filter(|found| found.gid == gid).map(AutomaticDecision::key).collect();
        if of_gid.is_empty() {
            return Ok(false);
        }
        let request = CommitRequest::plain(self.new_lock_owner(), Durability::Sync);
        let stamp = self.log_commit(&request, of_gid.iter().map(|key| (&key[..], None)), 0)?;
        known.retain(|key| !of_gid.contains(key));
        self.finish_commit(stamp, Durability::Sync)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(AutomaticDecision::decode(&key[..15], &row).is_err());
        for position in 0..3 {
            let mut other = row.clone();
            other[position] = 3;
            assert!(AutomaticDecision::decode(key, &other).is_err());
        }
    }
}

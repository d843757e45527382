//! Two-phase commit as X/Open XA transaction managers know it (X/Open CAE Specification C193, "Distributed TP: The XA
//! Specification"): branches named by XIDs, votes, recovery, heuristic outcomes, and the specification's numbers.
//!
//! ```text
//!   xa_start .. xa_end     begin a Transaction, work with it
//!   xa_prepare             Branches::prepare: a vote     XA_OK, or XA_RDONLY: nothing was written, the branch is over
//!   xa_commit              Branches::commit              of a prepared branch
//!   xa_commit(TMONEPHASE)  Branches::commit_one_phase    of one that is not: nobody else takes part
//!   xa_rollback            Branches::rollback            of a prepared branch; of another, drop its transaction
//!   xa_recover             Branches::recover             prepared, or decided by a rule and not forgotten
//!   xa_forget              Branches::forget              of one decided by a rule
//! ```
//! An XID is kept as a gid: format number, global transaction id and branch qualifier, the latter two in base64, with `_`
//! between them, which is the form that the JDBC driver of PostgreSQL uses. Transactions prepared under other gids are not seen
//! here.
//!
//! What a transaction manager hears is durable: votes, decisions and what is forgotten are forced to stable storage, as the
//! specification demands, also where the database or the transaction has chosen `Durability::Async` for other commits.
//!
//! A branch that one of `Options::in_doubt_rules` has decided is *heuristically completed*: `commit` and `rollback` say how,
//! until the transaction manager forgets it.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use seawall_engine::{AutomaticDecision, Database, Durability, Error, Transaction};

/// The longest global transaction id, and branch qualifier, in bytes.
pub const XID_PART_BYTES_MAX: usize = 64;

/// What the transaction manager is told survives a power failure.
const FORCED: Durability = Durability::Sync;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The name of a transaction branch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Xid {
    format: i32,
    global: Vec<u8>,
    branch: Vec<u8>,
}

/// A text is no XID, or a part is longer than it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a valid XID: expected a format number from 0 on, and two parts of up to 64 bytes in base64, with _ between them"
)]
pub struct NoXid {
    text: String,
}

impl Xid {
    /// The branch `branch` of the global transaction `global`; what `format` means is the transaction manager's business.
    ///
    /// # Errors
    /// `NoXid` if the format is negative (the null XID) or a part longer than 64 bytes.
    pub fn new(format: i32, global: &[u8], branch: &[u8]) -> Result<Xid, NoXid> {
        let xid = Xid { format, global: global.to_vec(), branch: branch.to_vec() };
        let is_long = global.len().max(branch.len()) > XID_PART_BYTES_MAX;
        if format < 0 || is_long { Err(NoXid { text: xid.to_string() }) } else { Ok(xid) }
    }

    /// The format number.
    pub fn format(&self) -> i32 {
        self.format
    }

    /// The global transaction id.
    pub fn global(&self) -> &[u8] {
        &self.global
    }

    /// The branch qualifier.
    pub fn branch(&self) -> &[u8] {
        &self.branch
    }
}

/// As a gid.
impl fmt::Display for Xid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}_{}", self.format, encode(&self.global), encode(&self.branch))
    }
}

impl FromStr for Xid {
    type Err = NoXid;

    fn from_str(text: &str) -> Result<Xid, NoXid> {
        let refuse = || NoXid { text: text.to_owned() };
        let mut parts = text.splitn(3, '_');
        let (format, global, branch) = (parts.next(), parts.next(), parts.next());
        let format = format.and_then(|format| format.parse().ok()).ok_or_else(refuse)?;
        let part = |part: Option<&str>| part.and_then(decode).ok_or_else(refuse);
        let xid = Xid::new(format, &part(global)?, &part(branch)?).map_err(|_| refuse())?;
        // One name for one branch: no other spelling of it.
        if xid.to_string() == text { Ok(xid) } else { Err(refuse()) }
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).expect("six bits fit");
            text.push(if digit <= group.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            let value = ALPHABET.iter().position(|letter| letter == digit)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * (4 - group.len());
        let all = bits.to_be_bytes();
        bytes.extend_from_slice(&all[1..group.len()]);
    }
    Some(bytes)
}

/// What a branch answers to a prepare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Prepared: it waits for the decision.
    Ok,
    /// It has written nothing and, under `Isolation::Serializable`, read nothing: it is over, and is not to be decided. What a
    /// serializable branch has read is protected until the decision, so it votes `Ok`.
    ReadOnly,
}

/// Why a call failed, as XA has it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XaError {
    /// The branch is rolled back: what it was asked to do failed.
    #[error("the branch is rolled back: {0}")]
    RolledBack(#[source] Error),
    /// A rule has committed the branch.
    #[error("branch {xid} was committed by a rule; forget it when the outcome is dealt with")]
    HeuristicCommit {
        /// The branch.
        xid: Xid,
    },
    /// A rule has rolled the branch back.
    #[error("branch {xid} was rolled back by a rule; forget it when the outcome is dealt with")]
    HeuristicRollback {
        /// The branch.
        xid: Xid,
    },
    /// No such branch is prepared, nor remembered.
    #[error("branch {xid} is not known here")]
    Unknown {
        /// The branch.
        xid: Xid,
    },
    /// A branch of this name is prepared, or was decided by a rule and is not forgotten; the one that was to be prepared is
    /// rolled back.
    #[error("branch {xid} is known already; this one is rolled back")]
    Duplicate {
        /// The branch.
        xid: Xid,
    },
    /// The commit failed now; the branch is as it was, and the call can be made again.
    #[error("try again: {0}")]
    Retry(#[source] Error),
    /// Another call than a commit failed now, and can be made again: the specification has no `XA_RETRY` for those.
    #[error("try again later: {0}")]
    Unavailable(#[source] Error),
    /// The database cannot go on: open it again, then recover.
    #[error("the database is unusable: {0}")]
    Failed(#[source] Error),
}

impl XaError {
    /// The number in `xa.h`.
    pub fn code(&self) -> i32 {
        match self {
            XaError::RolledBack(Error::Deadlock { .. }) => 102, // XA_RBDEADLOCK
            XaError::RolledBack(Error::Locked { .. }) => 106,   // XA_RBTIMEOUT
            XaError::RolledBack(error) if error.is_retryable() => 107, // XA_RBTRANSIENT
            XaError::RolledBack(_) => 100,                      // XA_RBROLLBACK
            XaError::HeuristicCommit { .. } => 7,               // XA_HEURCOM
            XaError::HeuristicRollback { .. } => 6,             // XA_HEURRB
            XaError::Unknown { .. } => -4,                      // XAER_NOTA
            XaError::Duplicate { .. } => -8,                    // XAER_DUPID
            XaError::Retry(_) => 4,                             // XA_RETRY
            XaError::Unavailable(_) | XaError::Failed(_) => -7, // XAER_RMFAIL
        }
    }
}

/// A database as a resource manager: the calls that concern its branches.
#[derive(Clone, Debug)]
pub struct Branches {
    database: Database,
}

impl Branches {
    /// The branches of a database.
    pub fn new(database: Database) -> Branches {
        Branches { database }
    }

    /// `xa_prepare`: what the transaction has done is prepared under the name `xid`.
    ///
    /// # Errors
    /// `RolledBack` with the reason; `Duplicate`; `Failed`, after which `recover` tells.
    pub fn prepare(&self, xid: &Xid, mut transaction: Transaction) -> Result<Vote, XaError> {
        transaction.set_durability(FORCED);
        // Nobody could tell the two apart: `recover` would list them as one, and `forget` take both.
        if !self.decisions_about(xid)?.is_empty() {
            return Err(XaError::Duplicate { xid: xid.clone() });
        }
        match transaction.prepare(&xid.to_string()) {
            Ok(_) => Ok(Vote::Ok),
            Err(Error::NothingToPrepare) => Ok(Vote::ReadOnly),
            Err(Error::GidInUse { .. }) => Err(XaError::Duplicate { xid: xid.clone() }),
            Err(error) => Err(ended(error)),
        }
    }

    /// `xa_commit` with `TMONEPHASE`: the only branch of its global transaction is committed without a prepare.
    ///
    /// # Errors
    /// `RolledBack` with the reason; `Failed`, which leaves it open whether it is committed.
    pub fn commit_one_phase(&self, mut transaction: Transaction) -> Result<(), XaError> {
        transaction.set_durability(FORCED);
        transaction.commit().map(|_| ()).map_err(ended)
    }

    /// `xa_commit` of a prepared branch.
    ///
    /// # Errors
    /// `Unknown`; `HeuristicCommit` and `HeuristicRollback` if a rule was faster; `Retry`; `Failed`.
    pub fn commit(&self, xid: &Xid) -> Result<(), XaError> {
        let committed = self.database.two_phase().with(FORCED).commit(&xid.to_string());
        committed.map(|_| ()).map_err(|error| self.undecided(xid, error, XaError::Retry))
    }

    /// `xa_rollback` of a prepared branch.
    ///
    /// # Errors
    /// As `commit`, with `Unavailable` for `Retry`.
    pub fn rollback(&self, xid: &Xid) -> Result<(), XaError> {
        let rolled_back = self.database.two_phase().with(FORCED).rollback(&xid.to_string());
        rolled_back.map(|_| ()).map_err(|error| self.undecided(xid, error, XaError::Unavailable))
    }

    /// `xa_recover`: branches that are prepared, in the order of their prepares, then those that rules have decided.
    ///
    /// # Errors
    /// `Failed`.
    pub fn recover(&self) -> Result<Vec<Xid>, XaError> {
        let prepared = self.database.two_phase().in_doubt().map_err(XaError::Failed)?;
        let decided = self.database.two_phase().automatic_decisions().map_err(XaError::Failed)?;
        let gids = prepared.iter().map(|one| &one.gid).chain(decided.iter().map(|one| &one.gid));
        let mut listed = HashSet::new();
        Ok(gids.filter(|gid| listed.insert(*gid)).filter_map(|gid| gid.parse().ok()).collect())
    }

    /// `xa_forget`: the transaction manager knows what became of a branch that a rule has decided.
    ///
    /// # Errors
    /// `Unknown` if no rule has decided it; `Unavailable`; `Failed`.
    pub fn forget(&self, xid: &Xid) -> Result<(), XaError> {
        match self.database.two_phase().forget_automatic_decision(&xid.to_string()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(XaError::Unknown { xid: xid.clone() }),
            Err(error) => Err(self.undecided(xid, error, XaError::Unavailable)),
        }
    }

    fn decisions_about(&self, xid: &Xid) -> Result<Vec<AutomaticDecision>, XaError> {
        self.database.two_phase().automatic_decisions_about(&xid.to_string()).map_err(XaError::Failed)
    }

    /// The error of a call about a prepared branch; `for_now` if it may succeed later.
    fn undecided(&self, xid: &Xid, error: Error, for_now: fn(Error) -> XaError) -> XaError {
        match error {
            Error::NotInDoubt { .. } => match self.decisions_about(xid) {
                Ok(all) => outcome(xid, all.last()),
                Err(error) => error,
            },
            Error::BeingDecided { .. }
            | Error::DiskFull { .. }
            | Error::CheckpointFailing { .. }
            | Error::Locked { .. } => for_now(error),
            error => XaError::Failed(error),
        }
    }
}

/// What became of a branch that is not in doubt.
fn outcome(xid: &Xid, decision: Option<&AutomaticDecision>) -> XaError {
    let xid = xid.clone();
    match decision {
        Some(one) if one.committed => XaError::HeuristicCommit { xid },
        Some(_) => XaError::HeuristicRollback { xid },
        None => XaError::Unknown { xid },
    }
}

/// The error of a transaction that has ended by it.
fn ended(error: Error) -> XaError {
    match error {
        Error::Stopped { .. } | Error::Closed | Error::ReadOnly | Error::Log { .. } | Error::Tree { .. } => {
            XaError::Failed(error)
        }
        error => XaError::RolledBack(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_gids_and_no_other_text_is_one() {
        for length in 0..=XID_PART_BYTES_MAX {
            let part: Vec<u8> = (0..length).map(|index| index.to_le_bytes()[0].wrapping_mul(37)).collect();
            let xid = Xid::new(131_077, &part, &[0xFF; 64]).unwrap();
            let gid = xid.to_string();
            assert!(gid.len() <= 200, "{gid}");
            assert_eq!(gid.parse(), Ok(xid));
        }
        // RFC 4648, section 10.
        assert_eq!(Xid::new(1, b"foobar", b"fooba").unwrap().to_string(), "1_Zm9vYmFy_Zm9vYmE=");
        assert_eq!(Xid::new(1, b"foob", b"").unwrap().to_string(), "1_Zm9vYg==_");
        for text in [
            "",
            "1",
            "1_Zm9v",
            "x_Zm9v_",
            "-1_Zm9v_",
            "1_Zm9vYh==_",
            "1_Zm9v_Z",
            "1_Zm9v=_",
            "01_Zm9v_",
            "1_Z!==_",
        ] {
            assert!(text.parse::<Xid>().is_err(), "{text}");
        }
        assert!(Xid::new(0, &[0; 65], b"").is_err() && Xid::new(-1, b"", b"").is_err());
    }
}

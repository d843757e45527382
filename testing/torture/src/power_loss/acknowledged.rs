//! What the writer was told, and what must therefore be there.

use std::collections::{BTreeMap, BTreeSet};

use super::gid::Gid;
use super::rows::Thread;

/// How many transactions of each thread there are.
pub(super) type Counts = BTreeMap<Thread, u64>;

/// The process that loads a file, as a thread: its transactions are counted in rows.
pub(super) const LOADER: Thread = Thread::MAX;

/// What becomes of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Commit,
    Rollback,
}

/// One line of a process that writes, written as soon as the database has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The first `count` transactions of the thread are committed; the last of them has this stamp.
    Committed { thread: Thread, count: u64, stamp: u64, is_durable: bool },
    /// The first `count` transactions of the thread are durable: a flush has returned.
    Flushed { thread: Thread, count: u64 },
    /// The transaction is in doubt.
    Prepared { gid: Gid, is_durable: bool },
    /// Is going to be decided so. Comes before the database is told.
    Deciding { gid: Gid, decision: Decision },
    /// Is decided.
    Decided { gid: Gid, is_durable: bool },
}

/// The word of a line whose fact the power cannot take, and of one where it can.
const DURABLE: &str = "durable";
const SOON: &str = "soon";

impl Line {
    pub(super) fn encode(&self) -> String {
        let durable = |is_durable: &bool| if *is_durable { DURABLE } else { SOON };
        match self {
            Line::Committed { thread, count, stamp, is_durable } => {
                format!("committed {thread} {count} {stamp} {}.\n", durable(is_durable))
            }
            Line::Flushed { thread, count } => format!("flushed {thread} {count}.\n"),
            Line::Prepared { gid, is_durable } => format!("prepared {gid} {}.\n", durable(is_durable)),
            Line::Deciding { gid, decision } => {
                format!(
                    "deciding {gid} {}.\n",
                    if *decision == Decision::Commit { "commit" } else { "rollback" }
                )
            }
            Line::Decided { gid, is_durable } => format!("decided {gid} {}.\n", durable(is_durable)),
        }
    }

    /// `None` for a line that a kill has cut.
    pub(super) fn decode(line: &str) -> Option<Line> {
        let words: Vec<&str> = line.strip_suffix('.')?.split(' ').collect();
        let is_durable = words.last() == Some(&DURABLE);
        match words[..] {
            ["committed", thread, count, stamp, DURABLE | SOON] => Some(Line::Committed {
                thread: thread.parse().ok()?,
                count: count.parse().ok()?,
                stamp: stamp.parse().ok()?,
                is_durable,
            }),
            ["flushed", thread, count] => {
                Some(Line::Flushed { thread: thread.parse().ok()?, count: count.parse().ok()? })
            }
            ["prepared", gid, DURABLE | SOON] => Some(Line::Prepared { gid: Gid::decode(gid)?, is_durable }),
            ["deciding", gid, "commit"] => {
                Some(Line::Deciding { gid: Gid::decode(gid)?, decision: Decision::Commit })
            }
            ["deciding", gid, "rollback"] => {
                Some(Line::Deciding { gid: Gid::decode(gid)?, decision: Decision::Rollback })
            }
            ["decided", gid, DURABLE | SOON] => Some(Line::Decided { gid: Gid::decode(gid)?, is_durable }),
            _ => None,
        }
    }
}

/// What a recovery has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) counts: Counts,
    /// The life in which the last transaction of each thread was written.
    pub(super) lives: BTreeMap<Thread, u64>,
    pub(super) in_doubt: BTreeSet<Gid>,
}

impl Found {
    /// Of a process that counts and nothing else.
    pub(super) fn counted(thread: Thread, count: u64) -> Found {
        Found { counts: Counts::from([(thread, count)]), ..Found::default() }
    }
}

/// A prepared transaction that is not known to be decided.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    is_durable: bool,
    decision: Option<Decision>,
}

/// What was told since the database was last found whole, and what was there then.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged {
    /// Survives a power loss.
    durable: Counts,
    /// Survives a kill.
    committed: Counts,
    /// Stamp and place of each.
    stamps: Vec<(u64, Thread, u64)>,
    doubts: BTreeMap<Gid, Doubt>,
    /// Decided, and whether durably.
    decided: BTreeMap<Gid, bool>,
    /// What was there at the last look, and in doubt: that is of an earlier life and may be committed in this one.
    seen: Counts,
    seen_in_doubt: BTreeSet<(Thread, u64)>,
    /// The process that has written since then.
    writer: Option<Writer>,
}

/// A process that writes.
#[derive(Clone, Copy, Debug)]
struct Writer {
    life: u64,
    /// How many transactions a thread may have under way.
    unacknowledged_max: u64,
}

/// What may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The process ended: nothing that was acknowledged.
    Kill,
    /// The power went: what was not yet durable, and of that the newest end only.
    PowerLoss,
}

impl Acknowledged {
    /// A process begins to write. `unacknowledged_max`: how many transactions a thread of it has under way at most,
    /// without being told.
    pub(super) fn begin(&mut self, life: u64, unacknowledged_max: u64) {
        self.writer = Some(Writer { life, unacknowledged_max });
    }

    pub(super) fn record(&mut self, line: Line) {
        match line {
            Line::Committed { thread, count, stamp, is_durable } => {
                raise(&mut self.committed, thread, count);
                self.stamps.push((stamp, thread, count));
                if is_durable {
                    raise(&mut self.durable, thread, count);
                }
            }
            Line::Flushed { thread, count } => {
                raise(&mut self.committed, thread, count);
                raise(&mut self.durable, thread, count);
            }
            Line::Prepared { gid, is_durable } => {
                self.doubts.insert(gid, Doubt { is_durable, decision: None });
            }
            Line::Deciding { gid, decision } => {
                let doubt = self.doubts.entry(gid).or_insert(Doubt { is_durable: false, decision: None });
                doubt.decision = Some(decision);
            }
            Line::Decided { gid, is_durable } => {
                self.doubts.remove(&gid);
                self.decided.insert(gid, is_durable);
            }
        }
    }

    /// How many transactions of a thread are known.
    pub(super) fn committed(&self, thread: Thread) -> u64 {
        count_of(&self.committed, thread)
    }

    /// How many acknowledged ones are not there.
    pub(super) fn lost(&self, found: &Found) -> u64 {
        let lost = |(thread, count): (&Thread, &u64)| count.saturating_sub(count_of(&found.counts, *thread));
        self.committed.iter().map(lost).sum()
    }

    /// What is wrong with what was found, if anything.
    pub(super) fn difference(&self, found: &Found, cut: Cut) -> Option<String> {
        self.missing(&found.counts, cut)
            .or_else(|| self.too_many(found))
            .or_else(|| self.gap(&found.counts))
            .or_else(|| self.decided_wrongly(found, cut))
            .or_else(|| self.in_doubt_wrongly(found, cut))
    }

    fn missing(&self, found: &Counts, cut: Cut) -> Option<String> {
        let (promised, why) = match cut {
            Cut::Kill => (&self.committed, "acknowledged before the kill"),
            Cut::PowerLoss => (&self.durable, "acknowledged as durable before the power loss"),
        };
        promised.iter().find_map(|(thread, &count)| {
            let there = count_of(found, *thread);
            (there < count)
                .then(|| format!("{count} transactions of thread {thread} were {why}, {there} are there"))
        })
    }

    /// More than was written, or what an earlier life had written and a recovery had given up.
    fn too_many(&self, found: &Found) -> Option<String> {
        found.counts.iter().find_map(|(thread, &there)| {
            let told = count_of(&self.committed, *thread);
            let unacknowledged_max = self.writer.map_or(0, |writer| writer.unacknowledged_max);
            if there > told + unacknowledged_max {
                return Some(format!("thread {thread} was told of {told} transactions, {there} are there"));
            }
            let written_in = found.lives.get(thread).copied();
            let was_in_doubt = self.seen_in_doubt.contains(&(*thread, there));
            let is_new = there > count_of(&self.seen, *thread) && !was_in_doubt;
            let writer = self.writer.filter(|writer| is_new && written_in.is_some_and(|life| life != writer.life))?;
            Some(format!(
                "transaction {there} of thread {thread} is of life {written_in:?}, and a recovery had given it up before \
                 life {} began",
                writer.life
            ))
        })
    }

    /// Whatever is lost is newer than all that is there.
    fn gap(&self, found: &Counts) -> Option<String> {
        let is_there = |&&(_, thread, count): &&(u64, Thread, u64)| count <= count_of(found, thread);
        let newest = self.stamps.iter().filter(is_there).max()?;
        let oldest_lost = self.stamps.iter().filter(|stamp| !is_there(stamp)).min()?;
        (oldest_lost < newest).then(|| {
            let name = |(stamp, thread, count): (u64, Thread, u64)| {
                format!("transaction {count} of thread {thread} with stamp {stamp}")
            };
            format!("{} is there, and the older {} is not", name(*newest), name(*oldest_lost))
        })
    }

    /// Prepared transactions that are neither in doubt nor what somebody has decided.
    fn decided_wrongly(&self, found: &Found, cut: Cut) -> Option<String> {
        self.doubts.iter().find_map(|(gid, doubt)| {
            let is_committed = count_of(&found.counts, gid.thread) >= gid.count;
            let fits = match doubt.decision {
                _ if found.in_doubt.contains(gid) => true,
                // Nobody was told that it is prepared, or the power took it, which is a rollback.
                None => cut == Cut::PowerLoss && !doubt.is_durable,
                Some(Decision::Commit) => is_committed || (cut == Cut::PowerLoss && !doubt.is_durable),
                Some(Decision::Rollback) => !is_committed,
            };
            (!fits)
                .then(|| format!("transaction {gid} was prepared ({doubt:?}) and is not in doubt any more"))
        })
    }

    /// Transactions in doubt that are decided, or have not been prepared behind what is there.
    fn in_doubt_wrongly(&self, found: &Found, cut: Cut) -> Option<String> {
        found.in_doubt.iter().find_map(|gid| {
            let is_decided = self.decided.get(gid).is_some_and(|is_durable| *is_durable || cut == Cut::Kill);
            let there = count_of(&found.counts, gid.thread);
            if is_decided {
                Some(format!("transaction {gid} was decided, and is in doubt again"))
            } else if gid.count != there + 1 {
                Some(format!("transaction {gid} is in doubt behind {there} committed ones of its thread"))
            } else {
                None
            }
        })
    }

    /// Somebody has seen this: from now on it may not be lost any more, by a kill or with the power.
    pub(super) fn settle(&mut self, found: Found) {
        let gone =
            std::mem::take(&mut self.doubts).into_keys().chain(std::mem::take(&mut self.decided).into_keys());
        self.decided = gone.filter(|gid| !found.in_doubt.contains(gid)).map(|gid| (gid, true)).collect();
        self.seen_in_doubt = found.in_doubt.iter().map(|gid| (gid.thread, gid.count)).collect();
        self.doubts =
            found.in_doubt.into_iter().map(|gid| (gid, Doubt { is_durable: true, decision: None })).collect();
        self.committed = found.counts.clone();
        self.durable = found.counts.clone();
        self.seen = found.counts;
        self.stamps.clear();
        self.writer = None;
    }
}

fn raise(counts: &mut Counts, thread: Thread, count: u64) {
    let known = counts.entry(thread).or_default();
    *known = count.max(*known);
}

fn count_of(counts: &Counts, thread: Thread) -> u64 {
    counts.get(&thread).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;

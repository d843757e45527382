//! What the writer was told, and what must therefore be there.

use std::collections::BTreeMap;

use super::rows::Thread;

/// How many transactions of each thread there are.
pub(super) type Counts = BTreeMap<Thread, u64>;

/// The process that loads a file, as a thread: its transactions are counted in rows.
pub(super) const LOADER: Thread = Thread::MAX;

/// One line of a process that writes, written as soon as the database has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The first `count` transactions of the thread are committed; the last of them has this stamp.
    Committed { thread: Thread, count: u64, stamp: u64, is_durable: bool },
    /// The first `count` transactions of the thread are durable: a flush has returned.
    Flushed { thread: Thread, count: u64 },
}

impl Line {
    pub(super) fn encode(&self) -> String {
        match self {
            Line::Committed { thread, count, stamp, is_durable } => {
                format!("{} {thread} {count} {stamp}\n", if *is_durable { "durable" } else { "committed" })
            }
            Line::Flushed { thread, count } => format!("flushed {thread} {count}\n"),
        }
    }

    /// `None` for a line that a kill has cut.
    pub(super) fn decode(line: &str) -> Option<Line> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [word @ ("durable" | "committed"), thread, count, stamp] => Some(Line::Committed {
                thread: thread.parse().ok()?,
                count: count.parse().ok()?,
                stamp: stamp.parse().ok()?,
                is_durable: word == "durable",
            }),
            ["flushed", thread, count] => {
                Some(Line::Flushed { thread: thread.parse().ok()?, count: count.parse().ok()? })
            }
            _ => None,
        }
    }
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
        }
    }

    /// How many transactions of a thread are known.
    pub(super) fn committed(&self, thread: Thread) -> u64 {
        count_of(&self.committed, thread)
    }

    /// How many acknowledged ones are not there.
    pub(super) fn lost(&self, found: &Counts) -> u64 {
        self.committed.iter().map(|(thread, count)| count.saturating_sub(count_of(found, *thread))).sum()
    }

    /// What is wrong with what was found, if anything. `unacknowledged_max`: how many transactions a thread may have had
    /// under way.
    pub(super) fn difference(&self, found: &Counts, cut: Cut, unacknowledged_max: u64) -> Option<String> {
        let (promised, why) = match cut {
            Cut::Kill => (&self.committed, "acknowledged before the kill"),
            Cut::PowerLoss => (&self.durable, "acknowledged as durable before the power loss"),
        };
        for (thread, &count) in promised {
            let there = count_of(found, *thread);
            if there < count {
                return Some(format!(
                    "{count} transactions of thread {thread} were {why}, {there} are there"
                ));
            }
        }
        for (thread, &there) in found {
            let told = count_of(&self.committed, *thread);
            if there > told + unacknowledged_max {
                return Some(format!("thread {thread} was told of {told} transactions, {there} are there"));
            }
        }
        self.gap(found)
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

    /// Somebody has seen this: from now on it may not be lost any more, by a kill or with the power.
    pub(super) fn settle(&mut self, found: Counts) {
        self.committed = found.clone();
        self.durable = found;
        self.stamps.clear();
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
mod tests {
    use super::*;

    fn committed(thread: Thread, count: u64, stamp: u64, is_durable: bool) -> Line {
        Line::Committed { thread, count, stamp, is_durable }
    }

    #[test]
    fn lines_come_back_as_they_were_and_cut_ones_do_not() {
        for line in
            [committed(3, 17, 99, true), committed(0, 1, 5, false), Line::Flushed { thread: 9, count: 4 }]
        {
            let text = line.encode();
            assert_eq!(Line::decode(text.trim_end()), Some(line));
            assert_eq!(Line::decode(&text[..4]), None);
        }
    }

    #[test]
    fn a_kill_may_take_nothing_and_a_power_loss_the_newest_end() {
        let mut acknowledged = Acknowledged::default();
        for line in [
            committed(0, 1, 10, true),
            committed(1, 1, 20, false),
            committed(0, 2, 30, false),
            committed(1, 2, 40, false),
        ] {
            acknowledged.record(line);
        }
        let wrong =
            |found: [(Thread, u64); 2], cut| acknowledged.difference(&Counts::from(found), cut, 1).is_some();
        assert!(!wrong([(0, 2), (1, 2)], Cut::Kill));
        assert!(!wrong([(0, 3), (1, 2)], Cut::Kill), "one may have been under way");
        assert!(wrong([(0, 4), (1, 2)], Cut::Kill), "nobody wrote that many");
        assert!(wrong([(0, 2), (1, 1)], Cut::Kill));
        assert!(!wrong([(0, 2), (1, 1)], Cut::PowerLoss));
        assert!(!wrong([(0, 1), (1, 1)], Cut::PowerLoss));
        assert!(!wrong([(0, 1), (1, 0)], Cut::PowerLoss));
        assert!(wrong([(0, 0), (1, 0)], Cut::PowerLoss), "the first was durable");
        assert!(wrong([(0, 2), (1, 0)], Cut::PowerLoss), "stamp 30 is there and 20 is not");
        assert_eq!(acknowledged.lost(&Counts::from([(0, 1), (1, 1)])), 2);
    }

    #[test]
    fn a_flush_makes_what_came_before_durable_and_so_does_being_seen() {
        let mut acknowledged = Acknowledged::default();
        acknowledged.record(committed(0, 1, 10, false));
        acknowledged.record(Line::Flushed { thread: 0, count: 1 });
        assert!(acknowledged.difference(&Counts::new(), Cut::PowerLoss, 1).is_some());
        acknowledged.settle(Counts::from([(0, 2)]));
        assert!(acknowledged.difference(&Counts::from([(0, 1)]), Cut::PowerLoss, 1).is_some());
        assert!(acknowledged.difference(&Counts::from([(0, 2)]), Cut::PowerLoss, 1).is_none());
    }
}

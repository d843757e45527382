//! The three servers between the lives of their primaries: who takes which place, who comes back how, and whether all have the same rows.

use std::collections::BTreeMap;

use seawall::{Database, Error, Table};
use seawall_io::{Clock, SystemClock};
use seawall_simulation::{SeededRandom, SimulatedDisk};

use super::member::{Came, Common, End, Member, PATIENCE, REST, Stopped};
use super::plan::Waits;
use crate::finding::Report;

const TABLE: &str = "lists";
/// Written last, so that all before is durable and sent.
const FLUSHED: &str = "flushed";

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All servers.
pub(super) struct Cluster {
    pub(super) common: Common,
    /// `None`: its life has ended.
    pub(super) primary: Option<Member>,
    pub(super) standbys: Vec<Member>,
    stopped: Vec<Stopped>,
    random: SeededRandom,
}

impl Cluster {
    /// A new primary, and two standbys that are made of it.
    pub(super) fn new(
        common: Common,
        mut random: SeededRandom,
        report: &mut Report,
    ) -> Result<Cluster, String> {
        let mut new = |number| Stopped { number, disk: SimulatedDisk::new(random.next_u64()) };
        let (first, stopped) = (new(0), vec![new(1), new(2)]);
        let primary = first.lead(&common)?;
        primary.database().create_table(TABLE).map_err(|error| failed("create a table", &error))?;
        let mut cluster = Cluster { common, primary: Some(primary), standbys: Vec::new(), stopped, random };
        cluster.bring_back(report)?;
        Ok(cluster)
    }

    pub(super) fn primary(&self) -> Result<&Member, String> {
        self.primary.as_ref().ok_or_else(|| "there is no primary".to_owned())
    }

    /// Ends the primary's life.
    pub(super) fn end_primary(&mut self, end: End) -> Result<(), String> {
        if let Some(primary) = self.primary.take() {
            self.stopped.push(primary.end(end, &mut self.random)?);
        }
        Ok(())
    }

    /// The primary that has ended starts again.
    pub(super) fn restart_primary(&mut self) -> Result<(), String> {
        let stopped = self.stopped.pop().ok_or("no server has ended")?;
        self.primary = Some(stopped.lead(&self.common)?);
        Ok(())
    }

    /// A standby takes the place of the primary that has ended: the one that has most, or any if commits may be lost.
    pub(super) fn promote(&mut self, waits: Waits) -> Result<(), String> {
        wait("the standbys notice that the primary is gone", || {
            self.standbys.iter().all(Member::is_disconnected)
        })?;
        let best = (0..self.standbys.len()).max_by_key(|place| self.standbys[*place].end_of_log());
        let any = self.random.index(self.standbys.len());
        let chosen = if waits == Waits::None { any } else { best.unwrap_or(any) };
        let promoted = self.standbys.remove(chosen);
        let outcome = promoted.sql.promote("a torture");
        outcome.map_err(|error| format!("{}: the promotion failed: {}", promoted.name(), error.message))?;
        self.primary = Some(promoted);
        Ok(())
    }

    /// Starts a standby again.
    pub(super) fn restart_standby(
        &mut self,
        place: usize,
        end: End,
        report: &mut Report,
    ) -> Result<(), String> {
        let stopped = self.standbys.remove(place).end(end, &mut self.random)?;
        let (member, came) = stopped.follow(&self.common)?;
        count(came, report);
        self.standbys.insert(place, member);
        Ok(())
    }

    /// All servers that have ended follow the primary, and all have everything.
    pub(super) fn bring_back(&mut self, report: &mut Report) -> Result<(), String> {
        for stopped in std::mem::take(&mut self.stopped) {
            let (member, came) = stopped.follow(&self.common)?;
            count(came, report);
            self.standbys.push(member);
        }
        for place in 0..self.standbys.len() {
            self.free_from_past(place, report)?;
        }
        Ok(())
    }

    /// A standby that has more than the primary is started again; one that has too little to go on is made anew.
    fn free_from_past(&mut self, place: usize, report: &mut Report) -> Result<(), String> {
        let begun = SystemClock.monotonic();
        while self.standbys[place].is_disconnected() {
            if SystemClock.monotonic() > begun + PATIENCE {
                let standby = &self.standbys[place];
                let receiver = standby.sql.replication.receiver();
                return Err(format!("{} does not connect again: {receiver:?}", standby.name()));
            }
            let Some(told) = self.standbys[place].is_left_behind() else {
                std::thread::park_timeout(REST);
                continue;
            };
            if told.contains("this server has the log of its timeline") {
                self.restart_standby(place, End::Close, report)?;
            } else {
                let stopped = self.standbys.remove(place).end(End::Close, &mut self.random)?;
                let disk = SimulatedDisk::new(self.random.next_u64());
                let (member, came) = Stopped { disk, ..stopped }.follow(&self.common)?;
                count(came, report);
                self.standbys.insert(place, member);
            }
        }
        Ok(())
    }

    /// Waits until each standby shows all that the primary has, and compares them row by row.
    pub(super) fn settle(&mut self, report: &mut Report) -> Result<(), String> {
        let primary = self.primary()?.database().clone();
        let table = primary.open_or_create_table(FLUSHED).map_err(|error| failed("write", &error))?;
        primary.put(&table, b"k", b"v").map_err(|error| failed("write", &error))?;
        let end = primary.log().flushed();
        let begun = SystemClock.monotonic();
        for place in 0..self.standbys.len() {
            loop {
                let member = &self.standbys[place];
                let waited = member.database().standby().map(|standby| standby.wait_applied(end, REST));
                match waited {
                    Some(Ok(())) => break,
                    Some(Err(Error::NotApplied { .. })) if SystemClock.monotonic() < begun + PATIENCE => {}
                    ended => {
                        let receiver = member.sql.replication.receiver();
                        return Err(format!(
                            "{} does not catch up to {end}: {ended:?}, {receiver:?}",
                            member.name()
                        ));
                    }
                }
                if self.standbys[place].is_left_behind().is_some() {
                    self.free_from_past(place, report)?;
                }
            }
        }
        let read = |database| all_rows(database).map_err(|error| failed("read all rows", &error));
        let expected = read(&primary)?;
        for standby in &self.standbys {
            if let Some(table) = difference(&expected, &read(standby.database())?) {
                return Err(format!("{} and its primary have other rows in {table}", standby.name()));
            }
        }
        report.count("comparisons row by row", self.standbys.len() as u64);
        Ok(())
    }

    /// Looks at every page of each server, and closes it.
    pub(super) fn finish(mut self) -> Result<(), String> {
        for member in self.standbys.drain(..).chain(self.primary.take()) {
            let mut damage = Vec::new();
            let checked = member.database().check(&mut |found| damage.push(found.to_string()));
            checked.map_err(|error| failed("check", &error))?;
            if !damage.is_empty() {
                return Err(format!("{}: `check` found {}", member.name(), damage.join("; ")));
            }
            member.end(End::Close, &mut self.random)?;
        }
        Ok(())
    }
}

/// The table of lists, as `database` opens it.
pub(super) fn lists(database: &Database) -> Result<Table, String> {
    database.table(TABLE).map_err(|error| failed("open the table", &error))
}

fn failed(what: &str, error: &Error) -> String {
    format!("cannot {what}: {error}")
}

fn count(came: Came, report: &mut Report) {
    let what = match came {
        Came::AsItWas => "servers that followed as they were",
        Came::Cut => "logs cut",
        Came::Copied => "copies",
    };
    report.count(what, 1);
}

/// Waits, but not for ever.
pub(super) fn wait(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let begun = SystemClock.monotonic();
    while !is_so() {
        if SystemClock.monotonic() > begun + PATIENCE {
            return Err(format!("never so: {what}"));
        }
        std::thread::park_timeout(REST / 10);
    }
    Ok(())
}

/// Each table with its rows, and what is in doubt.
fn all_rows(database: &Database) -> Result<BTreeMap<String, Rows>, Error> {
    let mut all = BTreeMap::new();
    let tables = database.tables().list()?;
    let snapshot = database.snapshot();
    for info in tables {
        let table = snapshot.table(&info.name)?;
        let rows = snapshot.range::<&[u8]>(&table, ..);
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
        all.insert(info.name, rows.collect::<Result<Rows, Error>>()?);
    }
    let in_doubt = database.two_phase().in_doubt()?;
    let in_doubt = in_doubt.into_iter().map(|prepared| (prepared.gid.into_bytes(), Vec::new()));
    all.insert("(in doubt)".to_owned(), in_doubt.collect());
    Ok(all)
}

/// The first table that differs.
fn difference(one: &BTreeMap<String, Rows>, other: &BTreeMap<String, Rows>) -> Option<String> {
    let mut names = one.keys().chain(other.keys());
    names.find(|name| one.get(*name) != other.get(*name)).cloned()
}

//! A round: lives of primaries, with clients on all servers, and what happens to these meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use seawall::Error;
use seawall_io::{Clock, SystemClock};
use seawall_simulation::SeededRandom;

use super::super::clients::{Client, Recorder, decide_what_is_in_doubt, look_at_everything};
use super::super::gone;
use super::super::history::{History, Place};
use super::cluster::{Cluster, lists, wait};
use super::member::{Common, End, Member, NAMES};
use super::network::Network;
use super::plan::{LifePlan, Plan, Then, Waits};
use super::readers::{Life, Reader};
use crate::finding::Report;
use crate::panics::{caught, said};

/// Clients of each standby.
const READERS: u32 = 2;
/// The main thread looks so often at what it does to the servers.
const TICK: Duration = Duration::from_millis(1);
/// In one of so many of these looks something begins to happen.
const HAPPENS_ONE_IN: u64 = 12;
/// What happens lasts so many looks.
const LASTS: std::ops::Range<u64> = 3..60;
/// Clients of the primary that work for longer wait for what does not come. Far more than they need on a machine that is busy.
const LIFE_MAX: Duration = Duration::from_secs(180);
/// Standbys that are restarted in a life.
const RESTARTS_MAX: u32 = 2;

/// Runs the round of a seed; what its clients saw: up to each failover or power loss that took something, and at the end.
pub(super) fn run(seed: u64, report: &mut Report) -> Result<Vec<History>, String> {
    caught(|| run_lives(&Plan::new(seed), report))
}

fn run_lives(plan: &Plan, report: &mut Report) -> Result<Vec<History>, String> {
    let mut random = plan.random.clone();
    let network = Network::new(random.fork());
    let common =
        Common { options: plan.options.clone(), network: Arc::clone(&network), quorum: plan.quorum() };
    let mut cluster = Cluster::new(common, random.fork(), report)?;
    cluster.settle(report)?;
    let recorder = Recorder::default();
    let mut histories = Vec::new();
    for life in &plan.lives {
        live(plan, *life, &mut cluster, &recorder, &mut random, report)?;
        network.be_bad(false);
        let checkpoints = cluster.primary()?.database().statistics().checkpoints.completed;
        report.count("checkpoints", checkpoints);
        go_on(plan, *life, &mut cluster, &recorder, &mut random, &mut histories, report)?;
    }
    cluster.finish()?;
    network.struck().for_each(|(what, count)| report.count(what, count));
    histories.push(recorder.into_history());
    Ok(histories)
}

/// After the end of a life: everybody comes back, and everything is looked at.
fn go_on(
    plan: &Plan,
    life: LifePlan,
    cluster: &mut Cluster,
    recorder: &Recorder,
    random: &mut SeededRandom,
    histories: &mut Vec<History>,
    report: &mut Report,
) -> Result<(), String> {
    cluster.bring_back(report)?;
    let failed = |error: Error| format!("looking at the primary failed: {error}");
    let may_lose = plan.waits == Waits::None && (life.then == Then::Promote || life.end == End::PowerLoss);
    let primary = cluster.primary()?;
    let (database, table) = (primary.database().clone(), lists(primary.database())?);
    if life.then == Then::Promote && may_lose {
        recorder.nothing_is_durable();
    }
    // A restart shows what a quorum has, when that is connected.
    wait("all commits are visible", || database.quorum().newest_waiting().is_none())?;
    let before = recorder.so_far();
    let decided = decide_what_is_in_doubt(&database, recorder, random).map_err(failed)?;
    report.count("transactions decided after a life", decided);
    recorder.recovered();
    let place = Place { server: number(primary), ..Place::default() };
    look_at_everything(&database, &table, recorder, u32::MAX, place).map_err(failed)?;
    if may_lose {
        let gone = recorder.lose_what_is_gone()?;
        report.count("commits lost", gone);
        if life.then == Then::Restart {
            gone::check_standbys(&before, &recorder.so_far())?;
        }
        if gone > 0 {
            histories.push(before);
        }
    }
    cluster.settle(report)?;
    for standby in &cluster.standbys {
        let awaited = recorder.last_commit().map(|(begin, _)| begin);
        let place = Place { server: number(standby), is_standby: true, position: None, awaited };
        let table = lists(standby.database())?;
        look_at_everything(standby.database(), &table, recorder, u32::MAX, place).map_err(failed)?;
    }
    Ok(())
}

fn number(member: &Member) -> u32 {
    u32::try_from(member.number).unwrap_or(u32::MAX)
}

type Ended = Result<(), Error>;

/// The clients of one standby, until it ends.
struct Readers<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Ended>>,
    is_gone: Arc<AtomicBool>,
}

impl<'scope> Readers<'scope> {
    fn begin(
        scope: &'scope Scope<'scope, '_>,
        standby: &Member,
        recorder: &'scope Recorder,
        life: &'scope Life,
        random: &mut SeededRandom,
    ) -> Result<Readers<'scope>, String> {
        let is_gone = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for reader in 0..READERS {
            let server = number(standby);
            let reader = Reader {
                number: 100 * (1 + server) + reader,
                server,
                database: standby.database().new_session(),
                table: lists(standby.database())?,
                recorder,
                life,
                random: random.fork(),
            };
            let is_gone = Arc::clone(&is_gone);
            threads.push(scope.spawn(move || reader.run(&is_gone)));
        }
        Ok(Readers { threads, is_gone })
    }

    fn end(self, is_gone: bool) -> Result<(), String> {
        self.is_gone.fetch_or(is_gone, Ordering::SeqCst);
        self.threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("a reader of a standby was refused: {error}")),
            Err(panic) => Err(format!("a reader of a standby ended with a {}", said(&*panic))),
        })
    }
}

/// One life of a primary, with clients on all servers.
fn live(
    plan: &Plan,
    life_plan: LifePlan,
    cluster: &mut Cluster,
    recorder: &Recorder,
    random: &mut SeededRandom,
    report: &mut Report,
) -> Result<(), String> {
    let is_applied_everywhere = plan.waits == Waits::AllToApply;
    let life = Life { is_applied_everywhere, ..Life::default() };
    let primary = cluster.primary()?;
    let (server, database, disk) = (number(primary), primary.database().clone(), primary.disk.clone());
    let table = lists(&database)?;
    cluster.common.network.be_bad(life_plan.is_network_bad);
    if life_plan.end != End::Close {
        disk.crash_at(disk.calls() + life_plan.calls);
    }
    let is_dead = || disk.crashed();
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for standby in &cluster.standbys {
            readers.push(Readers::begin(scope, standby, recorder, &life, random)?);
        }
        let begin = |number| {
            let (work, random, database) = (plan.work, random.fork(), database.new_session());
            let (table, is_dead) = (&table, &is_dead);
            scope.spawn(move || {
                Client { number, server, database: &database, table, recorder, work, random, is_dead }.run()
            })
        };
        let writers: Vec<_> = (0..plan.clients).map(begin).collect();
        let mut random = random.fork();
        let mut happenings = Happenings::default();
        let happened = happenings.go_on_until(
            scope,
            cluster,
            &mut readers,
            recorder,
            &life,
            &mut random,
            report,
            || writers.iter().all(ScopedJoinHandle::is_finished),
        );
        let ended = happened.and_then(|()| {
            all_right(writers.into_iter().map(ScopedJoinHandle::join).collect(), disk.crashed())?;
            // A commit that was acknowledged and not received is lost with the primary.
            life.may_lose.store(plan.waits == Waits::None, Ordering::SeqCst);
            cluster.end_primary(life_plan.end)?;
            report.count(life_plan.end.name(), 1);
            match life_plan.then {
                Then::Promote => {
                    report.count("promotions", 1);
                    cluster.promote(plan.waits)?;
                }
                Then::Restart => cluster.restart_primary()?,
            }
            for place in 0..cluster.standbys.len() {
                end(Happening::Pause(place), cluster);
            }
            Ok(())
        });
        if ended.is_err() {
            // Clients may wait for a standby that does not come back. What this says of the primary is not what was found.
            drop(cluster.end_primary(End::Kill));
        }
        life.is_over.store(true, Ordering::SeqCst);
        let read = readers.into_iter().try_for_each(|readers| readers.end(false));
        ended.and(read)
    })
}

/// Without power a client is refused; nothing lets it panic.
fn all_right(ended: Vec<thread::Result<Ended>>, has_crashed: bool) -> Result<(), String> {
    for ended in ended {
        match ended {
            Err(panic) => return Err(format!("a client ended with a {}", said(&*panic))),
            Ok(Err(error)) if !has_crashed => return Err(format!("a client was refused: {error}")),
            Ok(Ok(()) | Err(_)) => {}
        }
    }
    Ok(())
}

/// What happens to the servers while clients work.
#[derive(Default)]
struct Happenings {
    now: Option<(Happening, u64)>,
    restarts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    /// Nobody reaches the server.
    Cut(usize),
    /// The standby receives, and applies nothing.
    Pause(usize),
}

impl Happenings {
    #[expect(clippy::too_many_arguments, reason = "all that a life has")]
    fn go_on_until<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        cluster: &mut Cluster,
        readers: &mut Vec<Readers<'scope>>,
        recorder: &'scope Recorder,
        life: &'scope Life,
        random: &mut SeededRandom,
        report: &mut Report,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let begun = SystemClock.monotonic();
        while !is_over() {
            thread::park_timeout(TICK);
            if SystemClock.monotonic() > begun + LIFE_MAX {
                return Err(format!("the clients of the primary have not ended within {LIFE_MAX:?}"));
            }
            match &mut self.now {
                Some((_, left @ 1..)) => *left -= 1,
                Some((happening, 0)) => {
                    let happening = *happening;
                    self.now = None;
                    end(happening, cluster);
                }
                None if random.chance(1, HAPPENS_ONE_IN) => {
                    let place = random.index(cluster.standbys.len());
                    match random.below(6) {
                        0 | 1 => self.begin(
                            Happening::Cut(cluster.standbys[place].number),
                            cluster,
                            random,
                            report,
                        ),
                        2 => {
                            let number = cluster.primary()?.number;
                            self.begin(Happening::Cut(number), cluster, random, report);
                        }
                        3 => self.begin(Happening::Pause(place), cluster, random, report),
                        4 if self.restarts < RESTARTS_MAX => {
                            self.restarts += 1;
                            let how = *random.pick(&[End::Close, End::Kill, End::PowerLoss]);
                            report.count("standbys restarted", 1);
                            let before = readers.remove(place);
                            before.is_gone.store(true, Ordering::SeqCst);
                            cluster.restart_standby(place, how, report)?;
                            before.end(true)?;
                            let after =
                                Readers::begin(scope, &cluster.standbys[place], recorder, life, random)?;
                            readers.insert(place, after);
                        }
                        _ => {
                            let standby = cluster.standbys[place].database().clone();
                            if let Some(standby) = standby.standby() {
                                let checkpoint = standby.checkpoint();
                                checkpoint
                                    .map_err(|error| format!("a checkpoint of a standby failed: {error}"))?;
                                report.count("checkpoints of standbys", 1);
                            }
                        }
                    }
                }
                None => {}
            }
        }
        // A promotion applies what a standby has received, though it is paused.
        if let Some((happening @ Happening::Cut(_), _)) = self.now.take() {
            end(happening, cluster);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        happening: Happening,
        cluster: &Cluster,
        random: &mut SeededRandom,
        report: &mut Report,
    ) {
        match happening {
            Happening::Cut(number) => {
                report.count("servers cut off", 1);
                cluster.common.network.cut(NAMES[number], true);
            }
            Happening::Pause(place) => {
                report.count("standbys paused", 1);
                if let Some(standby) = cluster.standbys[place].database().standby() {
                    standby.pause_applying();
                }
            }
        }
        self.now = Some((happening, random.range(LASTS)));
    }
}

fn end(happening: Happening, cluster: &Cluster) {
    match happening {
        Happening::Cut(number) => cluster.common.network.cut(NAMES[number], false),
        Happening::Pause(place) => {
            if let Some(standby) = cluster.standbys[place].database().standby() {
                standby.resume_applying();
            }
        }
    }
}

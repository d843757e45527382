//! A standby at work, with an upstream whose connections are scripts.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{
    Background, Database, DatabaseDirectory, Environment, HoldKind, HoldLifetime, HoldOptions, LogHold,
    Options,
};
use seawall_io::SystemClock;
use seawall_replication::message::{FromSender, put_data_head};
use seawall_replication::{Dial, Follower, Replication, Sender, Step, UpstreamHost, Wire, system_identifier};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::Lsn;

const SOON: Duration = Duration::from_secs(60);
/// Kind and length.
const FRAME_HEAD_BYTES: usize = 5;

/// What an upstream says on one connection, whatever it is asked, and whether the connection ends then or is silent.
struct Script {
    says: Cursor<Vec<u8>>,
    ends: bool,
    limit: Mutex<Duration>,
}

impl Script {
    fn new(says: Vec<u8>, ends: bool) -> Script {
        Script { says: Cursor::new(says), ends, limit: Mutex::default() }
    }
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.says.read(buffer)? {
            0 if !self.ends => {
                // As a socket that nothing comes from.
                std::thread::sleep(*self.limit.lock().unwrap());
                Err(io::ErrorKind::TimedOut.into())
            }
            bytes => Ok(bytes),
        }
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Script {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        *self.limit.lock().unwrap() = limit;
        Ok(())
    }
}

/// One script for each connection; then none is let in.
struct Scripts(Mutex<VecDeque<Script>>);

impl Dial for Scripts {
    fn dial(&self, _host: &UpstreamHost) -> io::Result<Box<dyn Wire>> {
        let next = self.0.lock().unwrap().pop_front();
        next.map(|script| Box::new(script) as Box<dyn Wire>).ok_or(io::ErrorKind::ConnectionRefused.into())
    }
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

fn row(columns: &[&str]) -> Vec<u8> {
    let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
    for column in columns {
        body.extend_from_slice(&u32::try_from(column.len()).unwrap().to_be_bytes());
        body.extend_from_slice(column.as_bytes());
    }
    [frame(b'D', &body), frame(b'Z', b"I")].concat()
}

/// Lets in, says who it is and that it has the slot, and begins a stream.
fn until_stream(system: &str) -> Vec<u8> {
    [welcome(), identity(system, 1), frame(b'W', &[0, 0, 0])].concat()
}

fn welcome() -> Vec<u8> {
    [frame(b'R', &[0; 4]), frame(b'Z', b"I")].concat()
}

/// Who it is, on which timeline, and that it has the slot.
fn identity(system: &str, timeline: u32) -> Vec<u8> {
    identity_at(system, timeline, "0/1000000")
}

/// As `identity`, where the log ends at `end`.
fn identity_at(system: &str, timeline: u32, end: &str) -> Vec<u8> {
    let slot = row(&["physical", "0/1000000", "1"]);
    [row(&[system, &timeline.to_string(), end]), slot].concat()
}

/// All that a sender has now, as messages of a stream; whether its timeline ends there.
fn messages(sender: &mut Sender) -> (Vec<u8>, bool) {
    let (mut says, mut message) = (Vec::new(), Vec::new());
    loop {
        message.clear();
        match sender.next(&mut message, 0).unwrap() {
            Step::Sent => says.extend_from_slice(&frame(b'd', &message)),
            Step::Idle => return (says, false),
            Step::TimelineEnded { .. } => return (says, true),
        }
    }
}

fn threads() -> Options {
    Options { background: Background::Threads, ..small_options() }
}

/// A standby that has what `disk` has.
fn standby_of(disk: &SimulatedDisk) -> Database {
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let environment = Environment { clock: Arc::new(SystemClock), ..environment(Arc::new(disk)) };
    DatabaseDirectory::at(environment).follow(threads()).unwrap()
}

/// Keeps the log that the standby of a test lacks.
fn hold_of_standby(primary: &Database) -> LogHold {
    let options =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    primary.log().hold("standby", options, None).unwrap()
}

fn follow(standby: &Database, scripts: impl Into<VecDeque<Script>>) -> Follower {
    Follower::start(
        Replication::new(standby.clone()),
        "host=upstream".parse().unwrap(),
        Box::new(Scripts(Mutex::new(scripts.into()))),
        None,
        || 0,
        Box::new(|| ()),
    )
    .unwrap()
}

#[test]
fn the_next_timeline_comes_over_the_connection_of_the_one_before() {
    let disk = template(&small_options());
    let system = system_identifier(&open(&disk, &small_options())).unwrap();
    let (upstream, standby) = (standby_of(&disk), standby_of(&disk));
    let from = standby.standby().unwrap().wanted().unwrap();
    let mut sender = Sender::begin(&upstream, from, None).unwrap();
    let promoted = upstream.standby().unwrap().promote("a test").unwrap();
    let table = upstream.create_table("t").unwrap();
    upstream.put(&table, "key", "value").unwrap();
    let (old, has_ended) = messages(&mut sender);
    assert!(has_ended);
    let (new, _) = messages(&mut Sender::begin(&upstream, promoted.fork, Some(promoted.timeline)).unwrap());
    let history = upstream.log().timeline_history(promoted.timeline).unwrap().encode();
    let next = [frame(b'T', &[0, 0]), row(&["2", "0/0"])].concat();
    let second = [identity(&system, 2), row(&["00000002.history", &history])].concat();
    let says = [
        until_stream(&system),
        old,
        frame(b'c', &[]),
        next,
        // The history is asked for once more, before the stream.
        second.clone(),
        second,
        frame(b'W', &[0, 0, 0]),
        new,
    ];
    let follower = follow(&standby, [Script::new(says.concat(), false)]);
    let end = upstream.log().flushed();
    standby.standby().unwrap().wait_applied(end, SOON).unwrap();
    assert_eq!(standby.log().timeline(), promoted.timeline);
    assert_eq!(standby.get(&standby.table("t").unwrap(), "key").unwrap().as_deref(), Some(&b"value"[..]));
    follower.end();
}

/// All that a sender has now, a message each; and the same with one byte of the length of the first record changed, and with the end of the
/// log that each message tells as `told` makes it. A changed length makes a record of all that follows: nothing is refused, and no end comes.
fn data_and_changed(sender: &mut Sender, told: impl Fn(Lsn) -> Lsn) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut old, mut changed, mut message) = (Vec::new(), Vec::new(), Vec::new());
    while sender.next(&mut message, 0).unwrap() != Step::Idle {
        let FromSender::Data { start, end, bytes, .. } = FromSender::parse(&message).unwrap() else {
            panic!("no data")
        };
        let mut other = Vec::new();
        put_data_head(&mut other, start, told(end), 0);
        let head = other.len();
        other.extend_from_slice(bytes);
        if old.is_empty() {
            // The third byte of the length that the first record's header begins with.
            other[head + 2] ^= 1;
        }
        changed.push(frame(b'd', &other));
        old.push(frame(b'd', &message));
        message.clear();
    }
    (old, changed)
}

/// The log in messages of `data_and_changed`, and its positions.
fn data_of(messages: &[Vec<u8>]) -> Vec<(Lsn, Vec<u8>)> {
    let data = |message: &Vec<u8>| match FromSender::parse(&message[FRAME_HEAD_BYTES..]).unwrap() {
        FromSender::Data { start, bytes, .. } => (start, bytes.to_vec()),
        FromSender::KeepAlive { .. } => panic!("no data"),
    };
    messages.iter().map(data).collect()
}

#[test]
fn a_record_that_was_changed_on_the_way_is_asked_for_again_where_the_timeline_ends() {
    let disk = template(&small_options());
    let primary = open(&disk, &small_options());
    let system = system_identifier(&primary).unwrap();
    let _hold = hold_of_standby(&primary);
    let (upstream, standby) = (standby_of(&disk), standby_of(&disk));
    let from = standby.standby().unwrap().wanted().unwrap();
    // Of the old timeline both lack something, which the one that is promoted gets whole.
    let mut sender = Sender::begin(&primary, from, None).unwrap();
    let table = primary.create_table("t").unwrap();
    primary.put(&table, "key", "value").unwrap();
    let (old, changed) = data_and_changed(&mut sender, |end| Lsn::new(end.get() + (1 << 20)));
    for (start, bytes) in data_of(&old) {
        upstream.standby().unwrap().receive(start, &bytes).unwrap();
    }
    let promoted = upstream.standby().unwrap().promote("a test").unwrap();
    upstream.put(&upstream.table("t").unwrap(), "key", "newer").unwrap();
    let (new, _) = messages(&mut Sender::begin(&upstream, promoted.fork, Some(promoted.timeline)).unwrap());
    let history = upstream.log().timeline_history(promoted.timeline).unwrap().encode();
    let next = [frame(b'c', &[]), frame(b'T', &[0, 0]), row(&["2", "0/0"])].concat();
    let second = [identity(&system, 2), row(&["00000002.history", &history])].concat();
    let begins = frame(b'W', &[0, 0, 0]);
    let says = [
        [until_stream(&system), changed.concat(), next.clone()].concat(),
        [second.clone(), begins.clone(), old.concat(), next].concat(),
        [second.clone(), second, begins, new].concat(),
    ];
    let follower = follow(&standby, [Script::new(says.concat(), false)]);
    standby.standby().unwrap().wait_applied(upstream.log().flushed(), SOON).unwrap();
    assert_eq!(standby.log().timeline(), promoted.timeline);
    assert_eq!(standby.get(&standby.table("t").unwrap(), "key").unwrap().as_deref(), Some(&b"newer"[..]));
    follower.end();
}

/// The primary may wait for this very standby, and write nothing more.
#[test]
fn a_record_that_was_changed_on_the_way_is_asked_for_again_where_the_log_ends() {
    for end_is_changed in [false, true] {
        let disk = template(&small_options());
        let primary = open(&disk, &small_options());
        let system = system_identifier(&primary).unwrap();
        let _hold = hold_of_standby(&primary);
        let standby = standby_of(&disk);
        let from = standby.standby().unwrap().wanted().unwrap();
        let mut sender = Sender::begin(&primary, from, None).unwrap();
        let table = primary.create_table("t").unwrap();
        primary.put(&table, "key", "value").unwrap();
        let end = primary.log().flushed();
        let told = |end: Lsn| if end_is_changed { Lsn::new(end.get() + (1 << 20)) } else { end };
        let (old, changed) = data_and_changed(&mut sender, told);
        // Where the end was changed as well, the next connection says where the log ends.
        let first = Script::new([until_stream(&system), changed.concat()].concat(), end_is_changed);
        let second =
            [welcome(), identity_at(&system, 1, &end.to_string()), frame(b'W', &[0, 0, 0]), old.concat()];
        let follower = follow(&standby, [first, Script::new(second.concat(), false)]);
        standby.standby().unwrap().wait_applied(end, SOON).unwrap();
        assert_eq!(standby.get(&standby.table("t").unwrap(), "key").unwrap().as_deref(), Some(&b"value"[..]));
        follower.end();
    }
}

/// Two hosts: the first sends the same damaged log on each connection.
struct OneDamagedHost {
    damaged: Vec<u8>,
    right: Vec<u8>,
    dialed: Arc<Mutex<Vec<String>>>,
}

impl Dial for OneDamagedHost {
    fn dial(&self, host: &UpstreamHost) -> io::Result<Box<dyn Wire>> {
        self.dialed.lock().unwrap().push(host.name.clone());
        let says = if host.name == "damaged" { &self.damaged } else { &self.right };
        Ok(Box::new(Script::new(says.clone(), false)))
    }
}

#[test]
fn another_host_is_asked_where_one_gives_log_that_is_refused_each_time() {
    let disk = template(&small_options());
    let primary = open(&disk, &small_options());
    let system = system_identifier(&primary).unwrap();
    let _hold = hold_of_standby(&primary);
    let standby = standby_of(&disk);
    let from = standby.standby().unwrap().wanted().unwrap();
    let mut sender = Sender::begin(&primary, from, None).unwrap();
    let table = primary.create_table("t").unwrap();
    primary.put(&table, "key", "value").unwrap();
    let end = primary.log().flushed();
    let (old, changed) = data_and_changed(&mut sender, |end| end);
    let dialed = Arc::new(Mutex::new(Vec::new()));
    let hosts = OneDamagedHost {
        damaged: [until_stream(&system), changed.concat()].concat(),
        right: [until_stream(&system), old.concat()].concat(),
        dialed: Arc::clone(&dialed),
    };
    let follower = Follower::start(
        Replication::new(standby.clone()),
        "host=damaged,right".parse().unwrap(),
        Box::new(hosts),
        None,
        || 0,
        Box::new(|| ()),
    )
    .unwrap();
    standby.standby().unwrap().wait_applied(end, SOON).unwrap();
    follower.end();
    // Once more, as what was changed on the way is right the next time.
    assert_eq!(*dialed.lock().unwrap(), ["damaged", "damaged", "right"]);
}

#[test]
fn what_came_before_a_connection_ended_is_durable_though_nothing_follows() {
    let primary_disk = template(&small_options());
    let primary = open(&primary_disk, &small_options());
    let _hold = hold_of_standby(&primary);
    let standby = standby_of(&primary_disk);
    let from = standby.standby().unwrap().wanted().unwrap();
    let mut sender = Sender::begin(&primary, from, None).unwrap();
    let table = primary.create_table("t").unwrap();
    primary.put(&table, "key", "value").unwrap();
    let (mut says, mut end) = (until_stream(&system_identifier(&primary).unwrap()), from);
    let mut message = Vec::new();
    while sender.next(&mut message, 0).unwrap() != Step::Idle {
        let FromSender::Data { start, bytes, .. } = FromSender::parse(&message).unwrap() else {
            panic!("no data")
        };
        end = Lsn::new(start.get() + bytes.len() as u64);
        let mut data = Vec::new();
        // More is on the way, so the standby waits for that before it syncs.
        put_data_head(&mut data, start, Lsn::new(end.get() + (1 << 20)), 0);
        data.extend_from_slice(bytes);
        says.extend_from_slice(&frame(b'd', &data));
        message.clear();
    }
    assert!(end > from);
    let cut_off = Script::new(says, true);
    let silent = Script::new(until_stream(&system_identifier(&primary).unwrap()), false);
    let follower = follow(&standby, [cut_off, silent]);
    standby.standby().unwrap().wait_applied(end, SOON).unwrap();
    assert_eq!(standby.log().flushed(), end);
    assert_eq!(standby.get(&standby.table("t").unwrap(), "key").unwrap().as_deref(), Some(&b"value"[..]));
    follower.end();
}

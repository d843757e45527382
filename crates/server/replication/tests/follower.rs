//! A standby at work, with an upstream whose connections are scripts.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{
    Background, DatabaseDirectory, Environment, HoldKind, HoldLifetime, HoldOptions, Options,
};
use seawall_io::SystemClock;
use seawall_replication::message::{FromSender, put_data_head};
use seawall_replication::{Dial, Follower, Replication, Sender, Step, UpstreamHost, Wire, system_identifier};
use seawall_simulation::PowerLoss;
use seawall_types::Lsn;

const SOON: Duration = Duration::from_secs(60);

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
    let welcome = [frame(b'R', &[0; 4]), frame(b'Z', b"I")].concat();
    let identity = row(&[system, "1", "0/1000000"]);
    [welcome, identity, row(&["physical", "0/1000000", "1"]), frame(b'W', &[0, 0, 0])].concat()
}

#[test]
fn what_came_before_a_connection_ended_is_durable_though_nothing_follows() {
    let primary_disk = template(&small_options());
    let primary = open(&primary_disk, &small_options());
    let options =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let _hold = primary.log().hold("standby", options, None).unwrap();
    let standby_disk = primary_disk.after_power_loss(PowerLoss::LoseAll);
    let threads = Options { background: Background::Threads, ..small_options() };
    let of_standby = Environment { clock: Arc::new(SystemClock), ..environment(Arc::new(standby_disk)) };
    let standby = DatabaseDirectory::at(of_standby).follow(threads).unwrap();
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
    let scripts = Scripts(Mutex::new(VecDeque::from([cut_off, silent])));
    let follower = Follower::start(
        Replication::new(standby.clone()),
        "host=upstream".parse().unwrap(),
        Box::new(scripts),
        None,
        || 0,
        Box::new(|| ()),
    )
    .unwrap();
    standby.standby().unwrap().wait_applied(end, SOON).unwrap();
    assert_eq!(standby.log().flushed(), end);
    assert_eq!(standby.get(&standby.table("t").unwrap(), "key").unwrap().as_deref(), Some(&b"value"[..]));
    follower.end();
}

//! Two servers exchange their roles, under load, and when one of them is killed, or the network between them fails, on the way.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_testing::{SetWhenDropped, wait_until};

use crate::client::{Client, VERSION, startup};
use crate::process::{Failure, Place, Serving, answered, rows, value};
use crate::standbys::{WRITTEN, follow, followed, wait_for};

const WRITERS: u64 = 3;
/// So many of the pages and segments that checkpoints run meanwhile.
const SMALL: [&str; 2] = ["--memtable-mib", "8"];

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

/// A client of a server that may not be there, or not take logins.
pub(crate) fn connect(port: u16) -> Option<Client> {
    let mut client = Client::of(TcpStream::connect(("127.0.0.1", port)).ok()?);
    client.try_send(&startup(VERSION, &[("user", "postgres"), ("database", "postgres")])).ok()?;
    loop {
        match client.receive()?.kind {
            b'Z' => return Some(client),
            b'E' => return None,
            _ => {}
        }
    }
}

/// Rows that were written, by writers that go to the other server when one does not take them.
struct Load {
    ports: [AtomicU16; 2],
    acknowledged: Mutex<BTreeSet<(u64, u64)>>,
    is_over: AtomicBool,
}

impl Load {
    fn new(ports: [u16; 2]) -> Load {
        Load {
            ports: ports.map(AtomicU16::new),
            acknowledged: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn write(&self, writer: u64) {
        let mut client = None;
        let mut turn = 0;
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Some(connected) = client.as_mut() else {
                turn += 1;
                client = connect(self.ports[turn % 2].load(Ordering::SeqCst));
                if client.is_none() {
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                continue;
            };
            let text = "x".repeat(usize::try_from(number % 700).unwrap());
            match answered(connected, &format!("insert into t values ({writer}, {number}, '{text}')")) {
                Ok(_) => drop(self.acknowledged.lock().unwrap().insert((writer, number))),
                Err(failure) => {
                    if let Failure::Told { code, line } = &failure {
                        // 57P01 and 57P03 while a server ends, 25006 on a standby.
                        assert!(["25006", "57P01", "57P03", "57014"].contains(&&code[..]), "{line}");
                    }
                    client = None;
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            }
        }
    }

    fn more_rows(&self, count: usize) {
        let before = self.count();
        wait_until("rows are written", || self.count() >= before + count);
    }

    /// All that was acknowledged is there.
    fn is_in(&self, serving: &Serving) {
        let found: BTreeSet<(u64, u64)> = rows(&mut serving.client(), "select writer, number from t")
            .into_iter()
            .map(|row| {
                let number = |column: usize| row[column].as_ref().unwrap().parse().unwrap();
                (number(0), number(1))
            })
            .collect();
        let lost: Vec<_> = self.acknowledged.lock().unwrap().difference(&found).copied().collect();
        assert!(lost.is_empty(), "{} rows are lost, such as {:?}", lost.len(), lost.first());
    }
}

fn fingerprint(serving: &Serving) -> String {
    ask(
        serving,
        "select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by writer, number)), '') from t t",
    )
}

fn switch_over(place: &Place, directory: &str, more: &[&str]) -> Output {
    place.command(&[&["--json", "switchover", directory], more].concat()).output().unwrap()
}

/// Milliseconds for which writes waited.
fn parked(output: &Output) -> u64 {
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["parked_milliseconds"].as_u64().unwrap()
}

fn create(primary: &Serving) {
    rows(
        &mut primary.client(),
        "create table t (writer bigint, number bigint, text text, primary key (writer, number))",
    );
}

fn is_primary(serving: &Serving) -> bool {
    let mut client = connect(serving.port);
    let asked = client.as_mut().map(|client| answered(client, "select pg_is_in_recovery()"));
    matches!(asked, Some(Ok(rows)) if rows == [[Some("f".to_owned())]])
}

fn becomes_standby(serving: &Serving) {
    wait_until("the old primary is a standby", || {
        let mut client = connect(serving.port);
        let asked = client.as_mut().map(|client| answered(client, "select status from pg_stat_wal_receiver"));
        matches!(asked, Some(Ok(rows)) if rows == [[Some("streaming".to_owned())]])
    });
}

#[test]
fn roles_are_exchanged_under_load_there_and_back() {
    let place = Place::new();
    let first = place.serve(&SMALL);
    create(&first);
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    let load = Load::new([first.port, second.port]);
    let servers = [("db", &first), ("second", &second)];
    std::thread::scope(|scope| {
        let _is_over = SetWhenDropped(&load.is_over);
        for writer in 0..WRITERS {
            let load = &load;
            scope.spawn(move || load.write(writer));
        }
        for round in 0..4 {
            let [(directory, primary), (_, standby)] = [servers[round % 2], servers[(round + 1) % 2]];
            load.more_rows(200);
            let mut reader = standby.client();
            rows(&mut reader, "begin; select count(*) from t");
            let milliseconds = parked(&switch_over(&place, directory, &[]));
            println!("round {round}: writes waited for {milliseconds} ms");
            // The standby's sessions go on, with their transactions, and write from their next one on.
            rows(&mut reader, "select count(*) from t; commit");
            assert_eq!(value(&mut reader, "select pg_is_in_recovery()"), "f");
            rows(&mut reader, &format!("insert into t values (100, {round}, 'by a reader')"));
            load.more_rows(200);
            becomes_standby(primary);
            assert!(is_primary(standby) && !is_primary(primary));
        }
    });
    wait_for(&second, &first, WRITTEN);
    for serving in [&first, &second] {
        load.is_in(serving);
        serving.panics_nowhere();
    }
    assert_eq!(fingerprint(&first), fingerprint(&second));
    // Each switchover makes a slot on the one side and drops that on the other.
    let slots = "select coalesce(string_agg(slot_name, ', '), 'none') from pg_replication_slots";
    assert_eq!((ask(&first, slots), ask(&second, slots)), ("second".to_owned(), "none".to_owned()));
    second.end();
    first.end();
    place.check();
}

/// On a pair that is idle, in the best of some rounds: other tests run beside this one.
#[test]
fn writes_wait_for_a_moment_and_the_old_command_lines_serve_the_new_roles() {
    let place = Place::new();
    let mut first = place.serve(&[]);
    create(&first);
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    let mut best = u64::MAX;
    for round in 0..3 {
        let switched = switch_over(&place, "db", &["--to", "second"]);
        best = best.min(parked(&switched));
        becomes_standby(&first);
        rows(&mut second.client(), &format!("insert into t values (1, {round}, 'there')"));
        wait_for(&first, &second, WRITTEN);
        let refused = answered(&mut first.client(), "insert into t values (2, 2, 'here')").unwrap_err();
        assert!(matches!(&refused, Failure::Told { code, .. } if code == "25006"), "{refused:?}");
        if round == 1 {
            // The file in the directory says whom it follows.
            first.kill();
            first = place.start_on(0, "db", &[]).serving().unwrap_or_else(|_| panic!("it does not start"));
            becomes_standby(&first);
        }
        if round < 2 {
            best = best.min(parked(&switch_over(&place, "second", &[])));
            becomes_standby(&second);
            rows(&mut first.client(), &format!("insert into t values (3, {round}, 'back')"));
        }
    }
    assert!(best < 200, "{best} ms");
    assert_eq!(fingerprint(&first), fingerprint(&second));
    // A standby is no primary that could hand anything over.
    let refused = switch_over(&place, "db", &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    first.end();
    second.end();
    let refused = switch_over(&place, "db", &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn a_standby_that_is_late_or_cannot_be_followed_leaves_the_primary() {
    let place = Place::new();
    let first = place.serve(&[]);
    create(&first);
    let refused = |more: &[&str], expected: &str| {
        let refused = switch_over(&place, "db", more);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(expected), "{said}");
        rows(&mut first.client(), "insert into t select 1, count(*), 'after' from t");
    };
    refused(&[], "no standby");
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    refused(&["--to", "third"], "no standby third streams from this server; these do: second");
    let own = format!("host=localhost port={}", first.port);
    refused(&["--follow", &own], "is no standby on timeline 1");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap().port();
    drop(nobody);
    refused(
        &["--follow", &format!("host=localhost port={closed}")],
        "this server could not follow the standby",
    );

    rows(&mut second.client(), "select pg_wal_replay_pause()");
    // It receives, and does not apply: a write that is parked goes on.
    let (is_over, longest) = (AtomicBool::new(false), Mutex::new(0));
    std::thread::scope(|scope| {
        let _is_over = SetWhenDropped(&is_over);
        scope.spawn(|| {
            let mut client = first.client();
            for number in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    *longest.lock().unwrap() = number;
                    return;
                }
                rows(&mut client, &format!("insert into t values (7, {number}, 'parked')"));
            }
        });
        refused(&["--wait", "1"], "has not come to");
    });
    assert!(*longest.lock().unwrap() > 0);
    rows(&mut second.client(), "select pg_wal_replay_resume()");
    parked(&switch_over(&place, "db", &[]));
    becomes_standby(&first);
    wait_for(&first, &second, WRITTEN);
    assert_eq!(fingerprint(&first), fingerprint(&second));
    first.end();
    second.end();
}

/// What a network does with orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Good,
    /// The order does not arrive, and the connection is cut.
    LosesOrder,
    /// It arrives, and the answer does not.
    LosesAnswer,
    /// It arrives when it was cancelled already.
    DelaysOrder,
    /// It does not arrive, and nothing does any more.
    Breaks,
    Broken,
}

struct Link {
    port: u16,
    network: Mutex<Network>,
    /// What is to arrive late.
    late: Mutex<Vec<(TcpStream, Vec<u8>)>>,
}

impl Link {
    fn begin(upstream: u16) -> Arc<Link> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let link = Arc::new(Link { port, network: Mutex::new(Network::Good), late: Mutex::default() });
        let accepting = Arc::clone(&link);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if *accepting.network.lock().unwrap() == Network::Broken {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)) else { continue };
                let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(from_server, to_client, |_| true));
                let link = Arc::clone(&accepting);
                let to_server = server.try_clone().unwrap();
                std::thread::spawn(move || {
                    pass(client, server, |bytes| link.lets_through(bytes, &to_server))
                });
            }
        });
        link
    }

    fn set(&self, network: Network) {
        *self.network.lock().unwrap() = network;
    }

    fn lets_through(&self, bytes: &[u8], server: &TcpStream) -> bool {
        let is_order = bytes.windows(18).any(|word| word == b"SEAWALL_TAKE_OVER ");
        let mut network = self.network.lock().unwrap();
        if !is_order {
            return *network != Network::Broken;
        }
        match *network {
            Network::Good | Network::Broken => return true,
            Network::LosesOrder => {}
            Network::LosesAnswer => {
                (&*server).write_all(bytes).unwrap();
            }
            Network::DelaysOrder => {
                self.late.lock().unwrap().push((server.try_clone().unwrap(), bytes.to_vec()));
            }
            Network::Breaks => {
                *network = Network::Broken;
                return false;
            }
        }
        *network = Network::Good;
        false
    }
}

/// Passes bytes on until one side ends or `lets_through` says so: then the sender is cut off, and the receiver hears nothing.
fn pass(mut from: TcpStream, mut to: TcpStream, lets_through: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if !lets_through(&buffer[..bytes]) {
            from.shutdown(Shutdown::Both).unwrap_or_default();
            return;
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).unwrap_or_default();
    to.shutdown(Shutdown::Both).unwrap_or_default();
}

#[test]
fn an_order_that_is_lost_late_or_not_answered_leaves_one_primary() {
    let place = Place::new();
    let mut first = place.serve(&[]);
    create(&first);
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    let link = Link::begin(second.port);
    let by_link = format!("host=127.0.0.1 port={} user=postgres slot=back application_name=back", link.port);

    for network in [Network::LosesOrder, Network::DelaysOrder] {
        link.set(network);
        let refused = switch_over(&place, "db", &["--follow", &by_link]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("has not taken over") && said.contains("goes on as the primary"), "{said}");
        // Nothing was written since: only its name keeps the late order from being followed.
        for (mut server, order) in link.late.lock().unwrap().drain(..) {
            server.write_all(&order).unwrap();
        }
        wait_until("the late order is refused", || {
            network != Network::DelaysOrder || second.said().contains("was cancelled")
        });
        rows(&mut first.client(), "insert into t select 1, count(*), 'goes on' from t");
        assert!(is_primary(&first) && !is_primary(&second));
    }

    // Nothing is known: no writes, also after a restart, until the standby answers.
    link.set(Network::Breaks);
    let unknown = switch_over(&place, "db", &["--follow", &by_link, "--wait", "1"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("does not answer"), "{unknown:?}");
    for _ in 0..2 {
        let refused = answered(&mut first.client(), "insert into t values (2, 2, 'unknown')").unwrap_err();
        assert!(matches!(&refused, Failure::Told { code, .. } if code == "25006"), "{refused:?}");
        assert!(!ask(&first, "select count(*) from t").is_empty());
        let port = first.port;
        first.kill();
        first = place.start_on(port, "db", &[]).serving().unwrap_or_else(|_| panic!("it does not start"));
    }
    link.set(Network::Good);
    let takes_writes = || {
        let mut client = connect(first.port);
        let asked = client.as_mut().map(|client| answered(client, "insert into t values (3, 3, 'known')"));
        matches!(asked, Some(Ok(_)))
    };
    wait_until("the primary goes on", takes_writes);
    wait_for(&second, &first, WRITTEN);

    // The standby has taken over, and the old primary finds out.
    link.set(Network::LosesAnswer);
    parked(&switch_over(&place, "db", &["--follow", &by_link]));
    becomes_standby(&first);
    rows(&mut second.client(), "insert into t values (4, 4, 'taken over')");
    wait_for(&first, &second, WRITTEN);
    assert_eq!(fingerprint(&first), fingerprint(&second));
    first.panics_nowhere();
    second.end();
    first.end();
}

/// One of the two is killed at some moment of a switchover, and started again as its command line says.
#[test]
fn a_kill_on_either_side_loses_nothing_and_leaves_one_primary() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(19);
    let first = place.serve(&SMALL);
    create(&first);
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    let directories = ["db", "second"];
    let ports = [first.port, second.port];
    let mut servers = [Some(first), Some(second)];
    let load = Load::new(ports);
    let is_primary_at = |port: u16| {
        let asked = connect(port).map(|mut client| answered(&mut client, "select pg_is_in_recovery()"));
        matches!(asked, Some(Ok(rows)) if rows == [[Some("f".to_owned())]])
    };
    let streams_at = |port: u16| {
        let sql = "select status from pg_stat_wal_receiver";
        let asked = connect(port).map(|mut client| answered(&mut client, sql));
        matches!(asked, Some(Ok(rows)) if rows == [[Some("streaming".to_owned())]])
    };
    std::thread::scope(|scope| {
        let _is_over = SetWhenDropped(&load.is_over);
        for writer in 0..WRITERS {
            let load = &load;
            scope.spawn(move || load.write(writer));
        }
        for _round in 0..8 {
            load.more_rows(50);
            let primary = usize::from(!is_primary_at(ports[0]));
            let switching = place
                .command(&["switchover", directories[primary], "--wait", "2"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            std::thread::park_timeout(Duration::from_millis(random.u64(..80)));
            let killed = random.usize(..2);
            servers[killed].take().unwrap().kill();
            // As its unit would start it, and if that is refused, because it was promoted, without `--follow`.
            let (port, directory) = (ports[killed], directories[killed]);
            let settings = followed(directory, ports[1 - killed]);
            let follows = ["--follow", &settings[..]];
            let more: &[&str] = if killed == primary { &[] } else { &follows };
            let again = match place.start_on(port, directory, more).serving() {
                Ok(serving) => serving,
                Err(_) => place.start_on(port, directory, &[]).serving().unwrap_or_else(|ended| {
                    panic!("{directory}: {}", std::fs::read_to_string(ended.log).unwrap())
                }),
            };
            servers[killed] = Some(again);
            let said = switching.wait_with_output().unwrap();
            println!("{directory} was killed: {}", String::from_utf8_lossy(&said.stderr));
            wait_until("one of them is the primary, and the other one follows it", || {
                let [first, second] = ports.map(is_primary_at);
                first != second && streams_at(ports[usize::from(first)])
            });
        }
        load.more_rows(50);
    });
    let [first, second] = servers.map(Option::unwrap);
    let (primary, standby) = if is_primary(&first) { (&first, &second) } else { (&second, &first) };
    wait_for(standby, primary, WRITTEN);
    for serving in [primary, standby] {
        load.is_in(serving);
        serving.panics_nowhere();
    }
    assert_eq!(fingerprint(primary), fingerprint(standby));
    first.end();
    second.end();
}

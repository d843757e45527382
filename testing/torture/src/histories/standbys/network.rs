//! The network between the servers: connections that are cut, and messages of a stream that are lost, repeated, late, out of order or
//! changed.
//!
//! ```text
//!   server's socket --> Frames: one message after the other --> Fault? --> what the standby reads, in pieces of any size
//!   standby's acknowledgements --> the same, but for changed bits --> server's socket
//! ```
//! A fault is one of messages of a stream (`CopyData`). A message that is lost leaves a gap, and the connection ends when nothing more
//! comes: otherwise nobody would know. Acknowledgements are repeated, late ones after newer ones. In bodies any bit may be changed on the way to a standby, which verifies
//! what it gets. What it says of itself has no checksum, so nothing is changed there: a network that does that needs TLS.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_replication::{Dial, UpstreamHost, Wire};
use seawall_simulation::SeededRandom;

/// Of so many messages of a stream one meets a fault, while there are any.
const FAULT_ONE_IN: u64 = 60;
/// Kind and length.
const HEAD_BYTES: usize = 5;
const READ_BYTES: usize = 64 << 10;
/// A message that is late is so for at most so many reads.
const LATE_READS_MAX: u64 = 4;

/// What may happen to a message.
const FAULTS: [&str; 8] = [
    "connections cut",
    "connections cut in a message",
    "messages lost",
    "messages repeated",
    "messages out of order",
    "messages late",
    "messages changed",
    "messages in small pieces",
];

/// All connections. See the module.
#[derive(Debug)]
pub(super) struct Network {
    state: Mutex<State>,
    /// How often each fault has struck.
    struck: [AtomicU64; FAULTS.len()],
}

#[derive(Debug)]
struct State {
    ports: BTreeMap<String, u16>,
    /// Servers that reach nobody, and whom nobody reaches.
    cut: BTreeSet<String>,
    is_bad: bool,
    random: SeededRandom,
}

impl Network {
    pub(super) fn new(random: SeededRandom) -> Arc<Network> {
        let (ports, cut) = (BTreeMap::new(), BTreeSet::new());
        let state = Mutex::new(State { ports, cut, is_bad: false, random });
        Arc::new(Network { state, struck: Default::default() })
    }

    /// A server listens there.
    pub(super) fn listens(&self, server: &str, port: u16) {
        self.state.lock().ports.insert(server.to_owned(), port);
    }

    /// Whether messages meet faults from now on.
    pub(super) fn be_bad(&self, is_bad: bool) {
        self.state.lock().is_bad = is_bad;
    }

    /// Whether a server reaches nobody from now on.
    pub(super) fn cut(&self, server: &str, is_cut: bool) {
        let cut = &mut self.state.lock().cut;
        if is_cut {
            cut.insert(server.to_owned())
        } else {
            cut.remove(server)
        };
    }

    /// How often each fault has struck.
    pub(super) fn struck(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FAULTS.into_iter().zip(self.struck.iter().map(|struck| struck.load(Ordering::SeqCst)))
    }

    /// Connections of `server` to others.
    pub(super) fn of(self: &Arc<Network>, server: &str) -> Line {
        Line { network: Arc::clone(self), server: server.to_owned() }
    }

    fn is_cut(&self, one: &str, other: &str) -> bool {
        let cut = &self.state.lock().cut;
        cut.contains(one) || cut.contains(other)
    }
}

/// How one server reaches the others.
#[derive(Debug)]
pub(super) struct Line {
    network: Arc<Network>,
    server: String,
}

impl Dial for Line {
    fn dial(&self, host: &UpstreamHost) -> io::Result<Box<dyn Wire>> {
        let (port, random) = {
            let mut state = self.network.state.lock();
            (state.ports.get(&host.name).copied(), state.random.fork())
        };
        let port = port.filter(|_| !self.network.is_cut(&self.server, &host.name));
        let stream = TcpStream::connect(("127.0.0.1", port.ok_or(ErrorKind::ConnectionRefused)?))?;
        stream.set_nodelay(true)?;
        Ok(Box::new(Connection {
            network: Arc::clone(&self.network),
            ends: (self.server.clone(), host.name.clone()),
            stream,
            random: Mutex::new(random),
            incoming: Frames::default(),
            outgoing: Frames::default(),
            ready: VecDeque::new(),
            piece_bytes: usize::MAX,
            is_streaming: false,
            is_over: false,
            has_lost: false,
            late_reads: 0,
        }))
    }
}

struct Connection {
    network: Arc<Network>,
    ends: (String, String),
    stream: TcpStream,
    random: Mutex<SeededRandom>,
    incoming: Frames,
    outgoing: Frames,
    /// Bytes for the standby.
    ready: VecDeque<u8>,
    /// So many are read at a time, at most.
    piece_bytes: usize,
    is_streaming: bool,
    /// It ends when what is ready was read.
    is_over: bool,
    has_lost: bool,
    late_reads: u64,
}

/// Messages of one direction.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Held back until the next one has passed, or none comes; of acknowledgements, the last one.
    held: Option<Vec<u8>>,
}

impl Frames {
    /// The next whole message.
    fn next(&mut self) -> Option<Vec<u8>> {
        let length = self.bytes.get(1..HEAD_BYTES)?.try_into().ok().map(u32::from_be_bytes)?;
        let end = 1 + usize::try_from(length).ok()?;
        if self.bytes.len() < end {
            return None;
        }
        let rest = self.bytes.split_off(end);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

impl Connection {
    /// The fault that the next message meets.
    fn fault(&self) -> Option<&'static str> {
        let is_bad = self.network.state.lock().is_bad;
        let mut random = self.random.lock();
        if !is_bad || !random.chance(1, FAULT_ONE_IN) {
            return None;
        }
        let fault = random.index(FAULTS.len());
        self.network.struck[fault].fetch_add(1, Ordering::SeqCst);
        Some(FAULTS[fault])
    }

    fn check(&self) -> io::Result<()> {
        let is_cut = self.network.is_cut(&self.ends.0, &self.ends.1);
        if is_cut { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// A whole message has come from the server.
    fn take(&mut self, mut frame: Vec<u8>) {
        let is_of_stream = self.is_streaming && frame[0] == b'd';
        self.is_streaming |= frame[0] == b'W' || frame[0] == b'H';
        let fault = if is_of_stream { self.fault() } else { None };
        match fault.unwrap_or_default() {
            "connections cut" => return self.is_over = true,
            "connections cut in a message" => {
                let bytes = self.random.lock().index(frame.len());
                frame.truncate(bytes);
                self.is_over = true;
            }
            "messages lost" => return self.has_lost = true,
            "messages repeated" => self.ready.extend(&frame),
            "messages out of order" if self.incoming.held.is_none() => {
                return self.incoming.held = Some(frame);
            }
            "messages late" => self.late_reads = self.random.lock().range(1..LATE_READS_MAX),
            "messages changed" if frame.len() > HEAD_BYTES => {
                let random = self.random.get_mut();
                let at = HEAD_BYTES + random.index(frame.len() - HEAD_BYTES);
                frame[at] ^= 1 << random.below(8);
            }
            "messages in small pieces" => self.piece_bytes = 1 + self.random.lock().index(100),
            _ => {}
        }
        self.ready.extend(frame);
        self.ready.extend(self.incoming.held.take().unwrap_or_default());
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.check()?;
            if self.late_reads > 0 {
                self.late_reads -= 1;
                return Err(ErrorKind::WouldBlock.into());
            }
            if !self.ready.is_empty() {
                let piece = buffer.len().min(self.piece_bytes);
                return self.ready.read(&mut buffer[..piece]);
            }
            if self.is_over {
                self.stream.shutdown(Shutdown::Both).unwrap_or_default();
                return Ok(0);
            }
            self.piece_bytes = usize::MAX;
            let before = self.incoming.bytes.len();
            self.incoming.bytes.resize(before + READ_BYTES, 0);
            let read = self.stream.read(&mut self.incoming.bytes[before..]);
            self.incoming.bytes.truncate(before + read.as_ref().map_or(0, |bytes| *bytes));
            match read {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(error) => {
                    self.ready.extend(self.incoming.held.take().unwrap_or_default());
                    self.is_over |= self.has_lost;
                    if self.ready.is_empty() && !self.is_over {
                        return Err(error);
                    }
                }
            }
            while let Some(frame) = self.incoming.next().filter(|_| !self.is_over) {
                self.take(frame);
            }
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        if !self.is_streaming {
            self.stream.write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.outgoing.bytes.extend_from_slice(bytes);
        while let Some(frame) = self.outgoing.next() {
            match self.fault().unwrap_or_default() {
                "connections cut" | "connections cut in a message" => {
                    self.stream.shutdown(Shutdown::Both).unwrap_or_default();
                    return Err(ErrorKind::ConnectionReset.into());
                }
                "messages repeated" => self.stream.write_all(&frame)?,
                "messages out of order" => {
                    self.stream.write_all(&frame)?;
                    self.stream.write_all(self.outgoing.held.as_deref().unwrap_or_default())?;
                }
                _ => {}
            }
            self.stream.write_all(&frame)?;
            self.outgoing.held = Some(frame);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Wire for Connection {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))
    }
}

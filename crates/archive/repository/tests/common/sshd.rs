//! A real SSH server, OpenSSH's, for this user, on the loopback address: with keys of its own and a directory for repositories.
#![allow(dead_code, reason = "no test needs all of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_testing::{Need, Port, wait_until};

pub(crate) struct Sshd {
    child: Child,
    pub(crate) port: u16,
    pub(crate) directory: tempfile::TempDir,
    _reserved: Port,
}

/// Where the program `name` is: in the PATH, or where systems keep programs of administrators.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = places.find(|place| place.join(name).is_file());
    found.map(|place| place.join(name)).ok_or_else(|| format!("there is no {name}: install OpenSSH"))
}

fn make_key(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

impl Sshd {
    /// Starts one; `None` if there is none, which is said.
    pub(crate) fn start() -> Option<Sshd> {
        Sshd::start_with("internal-sftp")
    }

    /// One whose subsystem is this program.
    pub(crate) fn start_with(subsystem: &str) -> Option<Sshd> {
        let programs = ["sshd", "ssh", "ssh-keygen"].map(program);
        if let Some(reason) = programs.iter().find_map(|program| program.as_ref().err()) {
            Need::Sshd.skip(reason);
            return None;
        }
        // Not below /tmp: archive agents refuse some settings with a spool there.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["host_key", "user_key", "stranger_key"] {
            make_key(&at(name));
        }
        std::fs::copy(at("user_key.pub"), at("authorized_keys")).unwrap();
        std::fs::create_dir(at("files")).unwrap();
        // As root it separates its privileges in this directory, which the system's own server makes.
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let reserved = Port::reserve();
        let port = reserved.number;
        let shown = |name: &str| at(name).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n\
             Subsystem sftp {subsystem}\n",
            shown("host_key"),
            shown("authorized_keys"),
        );
        std::fs::write(at("sshd_config"), config).unwrap();
        write_known_hosts(&at("known_hosts"), &at("host_key.pub"), port);
        let log = std::fs::File::create(at("log")).unwrap();
        let mut child = Command::new(programs[0].as_ref().unwrap())
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("sshd to listen", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("sshd ended with {status}: {}", std::fs::read_to_string(at("log")).unwrap());
            }
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Sshd { child, port, directory, _reserved: reserved })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A repository's directory on the server.
    pub(crate) fn files(&self, name: &str) -> PathBuf {
        self.path("files").join(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        self.url_at(self.port, name, "user_key", "known_hosts")
    }

    /// Through another port, with a key of the user and a list of hosts in the server's directory.
    pub(crate) fn url_at(&self, port: u16, name: &str, key: &str, known_hosts: &str) -> String {
        format!(
            "sftp://127.0.0.1:{port}{}?identity_file={}&known_hosts={}",
            self.files(name).display(),
            self.path(key).display(),
            self.path(known_hosts).display()
        )
    }

    /// A list of hosts that has this key for the server at `port`.
    pub(crate) fn know(&self, known_hosts: &str, key: &str, port: u16) {
        write_known_hosts(&self.path(known_hosts), &self.path(key), port);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

fn write_known_hosts(path: &Path, public_key: &Path, port: u16) {
    let key = std::fs::read_to_string(public_key).unwrap();
    std::fs::write(path, format!("[127.0.0.1]:{port} {key}")).unwrap();
}

/// A network between a client and a server, that may break or fall silent.
pub(crate) struct Network {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    streams: Mutex<Vec<TcpStream>>,
    connections: AtomicU64,
    /// Bytes to the server until the connection that they go over breaks; 0: it does not.
    cut_after: AtomicU64,
    is_silent: AtomicBool,
    is_ending: AtomicBool,
}

impl Network {
    pub(crate) fn to(server: u16) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_ending.load(Ordering::SeqCst) {
                    break;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { break };
                shared
                    .streams
                    .lock()
                    .unwrap()
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let pairs = [
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), true),
                    (server, client, false),
                ];
                for (from, to, is_to_server) in pairs {
                    let state = Arc::clone(&shared);
                    std::thread::spawn(move || pass_on(from, to, is_to_server, &state));
                }
            }
        });
        Network { port, state }
    }

    /// Connections that were made so far.
    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Breaks a connection when so many more bytes have gone to the server.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.state.cut_after.store(bytes, Ordering::SeqCst);
    }

    /// Whether the cut has come.
    pub(crate) fn is_cut(&self) -> bool {
        self.state.cut_after.load(Ordering::SeqCst) == 0
    }

    /// Breaks all connections.
    pub(crate) fn cut_all(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Nothing arrives any more, on connections that stay; or does again.
    pub(crate) fn silence(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::SeqCst);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.state.is_ending.store(true, Ordering::SeqCst);
        self.cut_all();
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, is_to_server: bool, state: &State) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let mut sent = length;
        if is_to_server {
            let left = state.cut_after.load(Ordering::SeqCst);
            if left > 0 {
                sent = usize::try_from(left).map_or(length, |left| left.min(length));
                state.cut_after.store(left - sent as u64, Ordering::SeqCst);
            }
            if left > 0 && sent as u64 == left {
                drop(to.write_all(&piece[..sent]));
                break;
            }
        }
        if !state.is_silent.load(Ordering::SeqCst) && to.write_all(&piece[..sent]).is_err() {
            break;
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

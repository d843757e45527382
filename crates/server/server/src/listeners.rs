//! Where clients connect: addresses of TCP, and the Unix socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use crate::configuration::Configuration;

/// The longest path of a Unix socket.
const PATH_BYTES_MAX: usize = 107;
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A name stands for no address.
    #[error("cannot listen on {address:?}: {source}")]
    Name {
        /// The name.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; is another server running there?")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error("cannot make the Unix socket {path}: {source}")]
    Socket {
        /// The socket.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Another server has the Unix socket.
    #[error(
        "another server listens on the Unix socket {path}: choose another port or another socket_directory"
    )]
    InUse {
        /// The socket.
        path: String,
    },
    /// Its name does not fit.
    #[error(
        "the name of the Unix socket {path} is longer than {PATH_BYTES_MAX} bytes: choose another socket_directory"
    )]
    TooLong {
        /// The socket.
        path: String,
    },
}

/// All places where clients connect.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) tcp: Vec<std::net::TcpListener>,
    pub(crate) unix: Option<UnixSocket>,
    /// The port of all of them.
    pub(crate) port: u16,
}

/// The Unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked as long as the socket is ours.
    _lock: File,
}

impl Listeners {
    pub(crate) fn bind(configuration: &Configuration) -> Result<Listeners, ListenError> {
        let mut port = configuration.port;
        let mut tcp = Vec::new();
        for address in addresses(configuration)? {
            let address = SocketAddr::new(address.ip(), port);
            let listener = listen(address).map_err(|source| ListenError::Address { address, source })?;
            if port == 0 {
                port = listener.local_addr().map_or(0, |bound| bound.port());
            }
            tcp.push(listener);
        }
        let unix = configuration.socket_directory.as_deref();
        let unix = unix
            .map(|directory| UnixSocket::bind(directory, port, configuration.socket_permissions))
            .transpose()?;
        Ok(Listeners { tcp, unix, port })
    }
}

/// All addresses that the names stand for. Of a name with addresses of several kinds, those count that this machine has.
fn addresses(configuration: &Configuration) -> Result<Vec<SocketAddr>, ListenError> {
    let mut addresses = Vec::new();
    for name in &configuration.listen {
        let found = match name.as_str() {
            "*" => vec![any_address()],
            name => {
                let failed = |source| ListenError::Name { address: name.to_owned(), source };
                (name, 0).to_socket_addrs().map_err(failed)?.collect()
            }
        };
        let is_of_machine = |address: &&SocketAddr| found.len() == 1 || listen(**address).is_ok();
        let usable: Vec<SocketAddr> = found.iter().filter(is_of_machine).copied().collect();
        for address in if usable.is_empty() { found } else { usable } {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    Ok(addresses)
}

/// That of IPv6 takes clients of IPv4, too; a machine may not have it.
fn any_address() -> SocketAddr {
    let [of_both, of_ipv4] = [SocketAddr::from(([0_u16; 8], 0)), SocketAddr::from(([0_u8; 4], 0))];
    if listen(of_both).is_ok() { of_both } else { of_ipv4 }
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl UnixSocket {
    fn bind(directory: &Path, port: u16, permissions: u32) -> Result<UnixSocket, ListenError> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let lock_path = directory.join(format!(".s.PGSQL.{port}.lock"));
        let shown = || path.display().to_string();
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(ListenError::TooLong { path: shown() });
        }
        let failed = |source| ListenError::Socket { path: shown(), source };
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            // In a directory where everybody may write, somebody else's link could lead to any file.
            .custom_flags(NO_FOLLOW)
            .open(&lock_path)
            .map_err(failed)?;
        // PostgreSQL holds no lock, but listens: what answers is in use, whoever it is. What does not was left by a crash.
        let is_locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err();
        // The server that had it may have removed it just now, and the next one may have made its own.
        let is_removed = lock.metadata().map_err(failed)?.nlink() == 0;
        if is_locked || is_removed || UnixStream::connect(&path).is_ok() {
            return Err(ListenError::InUse { path: shown() });
        }
        lock.set_len(0).map_err(failed)?;
        writeln!(lock, "{}", std::process::id()).map_err(failed)?;
        remove(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(permissions)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(UnixSocket { listener, path, lock_path, _lock: lock })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        remove(&self.path);
        remove(&self.lock_path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = rustix::fs::unlink(path)
        && error != rustix::io::Errno::NOENT
    {
        tracing::warn!(path = %path.display(), %error, "a file of the Unix socket is not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(directory: &Path) -> Configuration {
        Configuration {
            listen: vec!["127.0.0.1".to_owned()],
            port: 0,
            socket_directory: Some(directory.to_owned()),
            ..Configuration::default()
        }
    }

    #[test]
    fn a_socket_belongs_to_one_server_and_is_removed_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let listeners = Listeners::bind(&configuration(directory.path())).unwrap();
        let socket = directory.path().join(format!(".s.PGSQL.{}", listeners.port));
        UnixStream::connect(&socket).unwrap();
        let second = UnixSocket::bind(directory.path(), listeners.port, 0o777);
        assert!(matches!(second, Err(ListenError::InUse { .. })), "{second:?}");
        drop(listeners);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_that_a_crash_left_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(directory.path().join(".s.PGSQL.7")).unwrap());
        std::fs::write(directory.path().join(".s.PGSQL.7.lock"), "12345678\n").unwrap();
        let socket = UnixSocket::bind(directory.path(), 7, 0o700).unwrap();
        UnixStream::connect(&socket.path).unwrap();
        assert_eq!(std::fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// As PostgreSQL's, which locks nothing.
    #[test]
    fn a_socket_that_answers_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let _other = UnixListener::bind(directory.path().join(".s.PGSQL.7")).unwrap();
        let refused = UnixSocket::bind(directory.path(), 7, 0o777);
        assert!(matches!(refused, Err(ListenError::InUse { .. })), "{refused:?}");
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        std::fs::write(&precious, "content").unwrap();
        std::os::unix::fs::symlink(&precious, directory.path().join(".s.PGSQL.7.lock")).unwrap();
        let refused = UnixSocket::bind(directory.path(), 7, 0o777);
        assert!(matches!(refused, Err(ListenError::Socket { .. })), "{refused:?}");
        assert_eq!(std::fs::read(&precious).unwrap(), b"content");
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let refused = UnixSocket::bind(Path::new(&format!("/tmp/{}", "x".repeat(100))), 5432, 0o777);
        assert!(matches!(refused, Err(ListenError::TooLong { .. })), "{refused:?}");
    }
}

//! A connection's socket: TCP or Unix. `Read` and `Write` never block; whoever waits says how long.
//!
//! The socket itself is one that blocks, and each call says whether it may: so a thread that waits for a client's next message waits in
//! the call that reads it, which costs half of the system calls of a `poll` with a read before and after it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client of this machine, by the Unix socket.
    Local,
    /// A client by TCP: its address and port.
    Host(IpAddr, u16),
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Local => formatter.write_str("local"),
            Peer::Host(address, port) => SocketAddr::new(*address, *port).fmt(formatter),
        }
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Readable,
    Writable,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// How long a read waits that may wait.
pub(crate) const LINGER: Duration = Duration::from_millis(20);

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    pub(crate) peer: Peer,
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        set_socket_timeout(&stream, Timeout::Recv, Some(LINGER))?;
        // An answer is one write, and nothing comes after it that it could wait for.
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        let address = stream.peer_addr()?;
        let peer = Peer::Host(address.ip().to_canonical(), address.port());
        Ok(Socket { stream: Stream::Tcp(stream), peer })
    }

    pub(crate) fn unix(stream: UnixStream) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        set_socket_timeout(&stream, Timeout::Recv, Some(LINGER))?;
        Ok(Socket { stream: Stream::Unix(stream), peer: Peer::Local })
    }

    /// Reads what is there, or what comes within `LINGER`; `WouldBlock`: nothing.
    pub(crate) fn read_lingering(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self, buffer, RecvFlags::empty())?.1)
    }

    /// Waits; `false`: not within `limit`. A socket that has failed is ready: the next call says why.
    pub(crate) fn wait(&self, readiness: Readiness, limit: Duration) -> io::Result<bool> {
        let flags = match readiness {
            Readiness::Readable => PollFlags::IN,
            Readiness::Writable => PollFlags::OUT,
        };
        self.poll(flags, limit).map(|found| !found.is_empty())
    }

    /// Waits until this or `other` can be read, at most for `limit`.
    pub(crate) fn wait_readable_or(&self, other: &impl AsFd, limit: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(limit).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut waited = [PollFd::new(self, PollFlags::IN), PollFd::new(other, PollFlags::IN)];
        match rustix::event::poll(&mut waited, Some(&limit)) {
            // The caller looks again.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits as a task. The runtime knows the socket only here: a session at work wakes none of its threads.
    pub(crate) async fn ready(self: &Arc<Self>, readiness: Readiness) -> io::Result<()> {
        match readiness {
            Readiness::Readable => drop(self.registered(Interest::READABLE)?.readable().await?),
            Readiness::Writable => drop(self.registered(Interest::WRITABLE)?.writable().await?),
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "the runtime asks for a promise about the file descriptor")]
    fn registered(self: &Arc<Self>, interest: Interest) -> io::Result<AsyncFd<Arc<Socket>>> {
        // SAFETY: the descriptor is that of `stream`, which is never replaced, and open as long as this `Arc` of it.
        Ok(unsafe { AsyncFd::register_with_interest(Arc::clone(self), interest) }?)
    }

    /// Whether the client has closed its end, or is known to be gone. What it sent before may still wait to be read.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        matches!(self.poll(PollFlags::RDHUP, Duration::ZERO), Ok(found) if found.intersects(gone))
    }

    fn poll(&self, flags: PollFlags, limit: Duration) -> io::Result<PollFlags> {
        let limit = Timespec::try_from(limit).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut waited = [PollFd::new(self, flags)];
        loop {
            match rustix::event::poll(&mut waited, Some(&limit)) {
                Ok(_) => return Ok(waited[0].revents()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the connection, whatever thread waits for it.
    pub(crate) fn end(&self) {
        let ended = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
        // It may be gone already.
        ended.unwrap_or_default();
    }
}

/// A client whose machine has died says nothing: after a minute of silence it is asked, and given up after another one.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, Duration::from_secs(60))?;
    set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    Ok(set_tcp_keepcnt(stream, 6)?)
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self, buffer, RecvFlags::DONTWAIT)?.1)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_says_nothing_is_asked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::tcp(listener.accept().unwrap().0).unwrap();
        assert!(rustix::net::sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(rustix::net::sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(60));
    }
}

//! Connections of a standby to its upstream, by TCP or a Unix socket.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use seawall_replication::{Dial, UpstreamSettings, Wire};

/// Connects to where the settings say.
#[derive(Clone, Debug)]
pub struct UpstreamDial {
    settings: UpstreamSettings,
}

/// A socket that blocks up to its time-out.
#[derive(Debug)]
enum Connected {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl UpstreamDial {
    /// To where `settings` say.
    pub fn new(settings: UpstreamSettings) -> UpstreamDial {
        UpstreamDial { settings }
    }
}

impl Dial for UpstreamDial {
    fn dial(&self) -> io::Result<Box<dyn Wire>> {
        let UpstreamSettings { host, port, connect_timeout, .. } = &self.settings;
        if host.starts_with('/') {
            let stream = UnixStream::connect(format!("{host}/.s.PGSQL.{port}"))?;
            stream.set_write_timeout(Some(*connect_timeout))?;
            return Ok(Box::new(Connected::Unix(stream)));
        }
        let mut refused = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, *connect_timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(*connect_timeout))?;
                    return Ok(Box::new(Connected::Tcp(stream)));
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Wire for Connected {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Connected::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Connected::Unix(stream) => stream.set_read_timeout(Some(limit)),
        }
    }
}

impl Read for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connected::Tcp(stream) => stream.read(buffer),
            Connected::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connected::Tcp(stream) => stream.write(bytes),
            Connected::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Connected::Tcp(stream) => stream.flush(),
            Connected::Unix(stream) => stream.flush(),
        }
    }
}

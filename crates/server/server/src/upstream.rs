//! Connections of a standby to its upstream, by TCP or a Unix socket, in clear or through TLS.

mod tls;

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use seawall_replication::{Dial, TlsMode, UpstreamHost, UpstreamSettings, Wire};

use crate::tls::TlsError;

/// Asks whether the server speaks TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Connects to where the settings say.
#[derive(Clone, Debug)]
pub struct UpstreamDial {
    settings: UpstreamSettings,
    /// `None`: no TLS is asked for.
    tls: Option<Arc<ClientConfig>>,
}

/// A socket that blocks up to its time-out.
enum Connected {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl UpstreamDial {
    /// To where `settings` say.
    ///
    /// # Errors
    /// The file of the root certificates cannot be read.
    pub fn new(settings: UpstreamSettings) -> Result<UpstreamDial, TlsError> {
        let tls = match settings.tls_mode {
            TlsMode::Disable => None,
            TlsMode::Prefer | TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => {
                Some(tls::client_config(&settings)?)
            }
        };
        Ok(UpstreamDial { settings, tls })
    }

    fn connect(&self, stream: TcpStream, host: &str) -> io::Result<Connected> {
        let UpstreamSettings { connect_timeout, tls_mode, .. } = &self.settings;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(*connect_timeout))?;
        stream.set_write_timeout(Some(*connect_timeout))?;
        let Some(config) = &self.tls else { return Ok(Connected::Tcp(stream)) };
        (&stream).write_all(&SSL_REQUEST)?;
        let mut answer = [0];
        (&stream).read_exact(&mut answer)?;
        match (answer, tls_mode) {
            ([b'S'], _) => {}
            ([b'N'], TlsMode::Prefer) => return Ok(Connected::Tcp(stream)),
            ([b'N'], _) => {
                let problem = format!("{host} does not speak TLS, and sslmode={tls_mode} asks for it");
                return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
            }
            ([byte], _) => {
                let problem = format!("{host} answers the request for TLS with byte {byte:#04x}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        let connection = ClientConnection::new(Arc::clone(config), tls::server_name(host)?);
        let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connected::Tls(Box::new(stream)))
    }
}

impl Dial for UpstreamDial {
    fn dial(&self, host: &UpstreamHost) -> io::Result<Box<dyn Wire>> {
        let connect_timeout = &self.settings.connect_timeout;
        let UpstreamHost { name: host, port } = host;
        if host.starts_with('/') {
            let stream = UnixStream::connect(format!("{host}/.s.PGSQL.{port}"))?;
            stream.set_write_timeout(Some(*connect_timeout))?;
            return Ok(Box::new(Connected::Unix(stream)));
        }
        let mut refused = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, *connect_timeout) {
                Ok(stream) => return Ok(Box::new(self.connect(stream, host)?)),
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
            Connected::Tls(stream) => stream.sock.set_read_timeout(Some(limit)),
        }
    }
}

impl Read for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connected::Tcp(stream) => stream.read(buffer),
            Connected::Unix(stream) => stream.read(buffer),
            Connected::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connected::Tcp(stream) => stream.write(bytes),
            Connected::Unix(stream) => stream.write(bytes),
            Connected::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Connected::Tcp(stream) => stream.flush(),
            Connected::Unix(stream) => stream.flush(),
            Connected::Tls(stream) => stream.flush(),
        }
    }
}

//! Bytes to and from a client, in clear or through TLS, with the buffers of both directions.
//!
//! ```text
//!                 fill                            flush
//!   socket --[TLS]--> input       output --[TLS]--> socket
//! ```
//! Neither `fill` nor `flush_some` waits. A thread of the pool waits with `poll`, a task with the runtime: the same connection does both, one
//! after the other.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use rustls::{ServerConfig, ServerConnection};
use seawall_values::SqlError;

use crate::protocol::backend::{Messages, Severity};
use crate::socket::{LINGER, Readiness, Socket};

/// A read takes this much at most.
const READ_BYTES: usize = 64 << 10;
/// An output buffer that grew beyond this is given back when it is empty.
const KEPT_BYTES: usize = 64 << 10;

/// For each part of the last words to a client.
const LAST_WAIT: Duration = Duration::from_millis(20);

thread_local! {
    /// What a read goes to. Only what reads have filled takes memory.
    static CHUNK: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Bytes of all connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
}

/// What a `fill` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// More input.
    Bytes,
    /// Nothing at present.
    Nothing,
    /// The client has closed its end.
    End,
}

#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Arc<Socket>,
    tls: Option<Box<ServerConnection>>,
    pub(crate) input: BytesMut,
    pub(crate) output: Messages,
    /// How much of the output TLS or the socket has taken.
    taken: usize,
    traffic: Arc<Traffic>,
}

impl Transport {
    pub(crate) fn new(socket: Socket, traffic: Arc<Traffic>) -> Transport {
        Transport {
            socket: Arc::new(socket),
            tls: None,
            input: BytesMut::new(),
            output: Messages::default(),
            taken: 0,
            traffic,
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The protocol that the client asked for in the handshake, if any.
    pub(crate) fn application_protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn_protocol())
    }

    /// From here on all bytes go through TLS; those that were read already are its first ones.
    pub(crate) fn begin_tls(&mut self, config: Arc<ServerConfig>) -> io::Result<()> {
        let mut tls = Box::new(ServerConnection::new(config).map_err(io::Error::other)?);
        let early = self.input.split();
        let mut rest = &early[..];
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            tls.process_new_packets().map_err(invalid)?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// Whether the handshake goes on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads what is there.
    pub(crate) fn fill(&mut self) -> io::Result<Filled> {
        CHUNK.with_borrow_mut(|chunk| self.fill_by(chunk, |mut socket, chunk| socket.read(chunk)))
    }

    /// As `fill`; if nothing is there, waits a moment for something.
    pub(crate) fn fill_lingering(&mut self) -> io::Result<Filled> {
        if self.tls.is_none() {
            return CHUNK.with_borrow_mut(|chunk| self.fill_by(chunk, Socket::read_lingering));
        }
        match self.fill()? {
            Filled::Nothing if self.socket.wait(Readiness::Readable, LINGER)? => self.fill(),
            filled => Ok(filled),
        }
    }

    fn fill_by(
        &mut self,
        chunk: &mut [u8],
        read: impl Fn(&Socket, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Filled> {
        let Some(tls) = &mut self.tls else {
            let count = match retried(|| read(&self.socket, chunk)) {
                Ok(0) => return Ok(Filled::End),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Filled::Nothing),
                Err(error) => return Err(error),
            };
            self.input.extend_from_slice(&chunk[..count]);
            add(&self.traffic.received, count);
            return Ok(Filled::Bytes);
        };
        match retried(|| tls.read_tls(&mut &*self.socket)) {
            Ok(0) => return Ok(Filled::End),
            Ok(count) => add(&self.traffic.received, count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Filled::Nothing),
            Err(error) => return Err(error),
        }
        let processed = tls.process_new_packets();
        loop {
            match tls.reader().read(chunk) {
                Ok(0) => return Ok(Filled::End),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        // An alert says why, if it gets there.
        if let Err(error) = processed {
            write_tls(tls, &self.socket, &self.traffic).unwrap_or_default();
            return Err(invalid(error));
        }
        Ok(Filled::Bytes)
    }

    /// Writes what the socket takes; `true`: all is written.
    pub(crate) fn flush_some(&mut self) -> io::Result<bool> {
        loop {
            let rest = self.output.bytes.get(self.taken..).unwrap_or_default();
            if let Some(tls) = &mut self.tls {
                let count = if rest.is_empty() { 0 } else { tls.writer().write(rest)? };
                self.taken += count;
                if !write_tls(tls, &self.socket, &self.traffic)? {
                    return Ok(false);
                }
                if self.taken == self.output.bytes.len() {
                    self.forget_output();
                    return Ok(true);
                }
                continue;
            }
            if rest.is_empty() {
                self.forget_output();
                return Ok(true);
            }
            match retried(|| (&*self.socket).write(rest)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.taken += count;
                    add(&self.traffic.sent, count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn forget_output(&mut self) {
        self.taken = 0;
        self.output.bytes.clear();
        if self.output.bytes.capacity() > KEPT_BYTES {
            self.output.bytes = Vec::new();
        }
    }

    /// Gives buffers back: an idle connection has none.
    pub(crate) fn release_buffers(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        if self.output.bytes.is_empty() {
            self.output.bytes = Vec::new();
        }
    }

    /// Says why the connection ends, and that it ends. A client that does not take that at once goes without.
    pub(crate) fn end(&mut self, error: &SqlError) {
        self.output.error(Severity::Fatal, error);
        if let Err(error) = self.flush_last() {
            tracing::debug!(%error, "a client is not told why its connection ends");
        }
    }

    fn flush_last(&mut self) -> io::Result<()> {
        while !self.flush_some()? {
            if !self.socket.wait(Readiness::Writable, LAST_WAIT)? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        let Some(tls) = &mut self.tls else { return Ok(()) };
        tls.send_close_notify();
        write_tls(tls, &self.socket, &self.traffic).map(drop)
    }

    /// Writes all of the output; the calling task waits.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while !self.flush_some()? {
            self.socket.ready(Readiness::Writable).await?;
        }
        Ok(())
    }

    /// Reads something; the calling task waits.
    pub(crate) async fn filled(&mut self) -> io::Result<Filled> {
        loop {
            match self.fill()? {
                Filled::Nothing => self.socket.ready(Readiness::Readable).await?,
                found => return Ok(found),
            }
        }
    }
}

/// `true`: all of it is written.
fn write_tls(tls: &mut ServerConnection, socket: &Arc<Socket>, traffic: &Traffic) -> io::Result<bool> {
    while tls.wants_write() {
        match retried(|| tls.write_tls(&mut &**socket)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => add(&traffic.sent, count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

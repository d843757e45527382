//! A store on the loopback interface whose every answer a test decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// As Google says the same: `x-goog-if-generation-match: 0`.
    pub(crate) if_none_match: bool,
    pub(crate) body: Vec<u8>,
    range: Option<(usize, usize)>,
}

/// How it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status and a body.
    Status(u16, Vec<u8>),
    /// The connection is closed without an answer.
    Cut,
    /// The first half of the body comes, then the connection is closed.
    CutBody(Vec<u8>),
    /// The first half of the body comes, and nothing more until the server goes.
    HangBody(Vec<u8>),
    /// No answer comes until the server goes.
    Hang,
    /// The body comes, then as many bytes more every few milliseconds, until the client goes.
    Endless(Vec<u8>, usize),
}

type Answer = dyn Fn(&Request) -> Reply + Send + Sync;

pub(crate) struct StoreServer {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    is_stopping: Arc<AtomicBool>,
}

impl StoreServer {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> StoreServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = StoreServer {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
            is_stopping: Arc::default(),
        };
        let (requests, is_stopping) = (server.requests.clone(), server.is_stopping.clone());
        let answer: Arc<Answer> = Arc::new(answer);
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for connection in listener.incoming() {
                if is_stopping.load(Ordering::SeqCst) {
                    break;
                }
                let mut connection = connection.unwrap();
                let Some(request) = read(&connection) else { continue };
                requests.lock().unwrap().push(request.clone());
                match answer(&request) {
                    Reply::Hang => hanging.push(connection),
                    reply @ Reply::HangBody(_) => {
                        write(&mut connection, &request, reply);
                        hanging.push(connection);
                    }
                    Reply::Endless(body, bytes) => {
                        std::thread::spawn(move || pour(connection, &request, &body, bytes));
                    }
                    reply => write(&mut connection, &request, reply),
                }
            }
        });
        server
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("s3://bucket/prefix?endpoint=http://127.0.0.1:{}&region=here&timeout=1", self.port)
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn read(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let method = words.next()?.to_owned();
    let (path, query) = words.next().map(|target| target.split_once('?').unwrap_or((target, "")))?;
    let (path, query) = (path.to_owned(), query.to_owned());
    let (mut length, mut if_none_match, mut range) = (0, false, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        match header.split_once(':') {
            None => break,
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(("if-none-match", value)) => if_none_match = value.trim() == "*",
            Some(("x-goog-if-generation-match", value)) => if_none_match = value.trim() == "0",
            Some(("range", value)) => {
                let (first, last) = value.trim().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                range = Some((first.parse().unwrap(), last.parse().unwrap()));
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, query, if_none_match, body, range })
}

fn write(connection: &mut TcpStream, request: &Request, reply: Reply) {
    let (status, body, sent) = match reply {
        Reply::Cut | Reply::Hang | Reply::Endless(..) => return,
        Reply::Status(status, body) => {
            let length = body.len();
            (status, body, length)
        }
        Reply::CutBody(body) | Reply::HangBody(body) => {
            let half = body.len() / 2;
            (200, body, half)
        }
    };
    if let (200, Some((first, last))) = (status, request.range) {
        let end = body.len().min(last + 1);
        let head = format!(
            "HTTP/1.1 206 X\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{}/{}\r\nETag: \"1\"\r\nLast-Modified: Sat, 21 \
             Nov 2026 10:00:00 GMT\r\nConnection: close\r\n\r\n",
            end - first,
            end - 1,
            body.len()
        );
        let sent =
            connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body[first..end]));
        return sent.unwrap_or(());
    }
    let is_get = request.method == "GET";
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nETag: \"1\"\r\nx-goog-generation: 1\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 \
         GMT\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The client may be gone.
    let sent = if is_get || status >= 300 { &body[..sent] } else { &[] };
    connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(sent)).unwrap_or(());
}

/// Slow enough that whoever keeps all of it fills no memory before a test has noticed.
const BETWEEN_PIECES: Duration = Duration::from_millis(10);

fn pour(mut connection: TcpStream, request: &Request, body: &[u8], bytes: usize) {
    let (status, (first, last)) = match request.range {
        Some((first, last)) => ("206", (first, last.min(body.len() - 1))),
        None => ("200", (0, body.len() - 1)),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: 1000000000000000\r\nContent-Range: bytes {first}-{last}/{}\r\nETag: \"1\"\r\n\
         Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let more = vec![b' '; bytes];
    let mut sent =
        connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body[first..=last]));
    while sent.is_ok() {
        std::thread::sleep(BETWEEN_PIECES);
        sent = connection.write_all(&more);
    }
}

//! Metrics and health by HTTP.
//!
//! * `/metrics`: OpenMetrics text of the engine and of the server.
//! * `/health/live`: 200 as long as the process answers.
//! * `/health/primary`: 200 if clients are served and may write, else 503 and why. For load balancers.
//! * `/health/standby`: 200 if a standby serves reads, else 503 and why. With `?lag=BYTES`, at most so far behind its upstream.
//! * `/health/ready`: 200 if clients are served, else 503 and why; while the database recovers, how far it is; while another server refuses
//!   what this one needs to start, why.
//!
//! A connection serves one request and ends. It has `CONNECTION_TIME` for that, and `HEADER_BYTES_MAX` for its head. When there are
//! `CONNECTIONS_MAX`, a new one takes the place of the oldest: clients that send or read slowly keep no other client out.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::context::{Context, Phase};
use crate::metrics::{Metrics, open_metrics};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const STOPPED: &str =
    "the database takes no more writes after one that failed: start the server again, which recovers\n";

/// Connections at a time, at most.
pub(crate) const CONNECTIONS_MAX: usize = 32;
/// From the beginning of a connection to the end of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// A request line with its headers; a longer head is answered with 431.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 32;
/// Answers that are made at a time: each takes a thread, and a connection that ends leaves none behind that waits for one.
const ANSWERS_MAX: usize = 2;
/// After an error of `accept`, such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// What the handlers share.
#[derive(Clone)]
struct Pages {
    context: Arc<Context>,
    answers: Arc<Semaphore>,
}

/// Serves until the listener's runtime ends.
pub(crate) async fn serve(context: Arc<Context>, listener: tokio::net::TcpListener) {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/health/live", get(async || "live\n"))
        .route("/health/ready", get(ready))
        .route("/health/primary", get(primary))
        .route("/health/standby", get(standby))
        .with_state(Pages { context: Arc::clone(&context), answers: Arc::new(Semaphore::new(ANSWERS_MAX)) });
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if connections.make_room() {
                    Metrics::add(&context.metrics.displaced_http_connections);
                }
                connections
                    .oldest_first
                    .push_back(tokio::spawn(answer(stream, routes.clone())).abort_handle());
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of HTTP is not taken");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// The connections that may still be served.
#[derive(Default)]
struct Connections {
    oldest_first: VecDeque<AbortHandle>,
}

impl Connections {
    /// Leaves room for one more; whether the oldest had to go for it.
    fn make_room(&mut self) -> bool {
        self.oldest_first.retain(|connection| !connection.is_finished());
        let is_full = self.oldest_first.len() >= CONNECTIONS_MAX;
        if is_full && let Some(oldest) = self.oldest_first.pop_front() {
            oldest.abort();
        }
        is_full
    }
}

/// Serves one request.
async fn answer(stream: TcpStream, routes: Router) {
    let service = TowerToHyperService::new(routes);
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIME, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of HTTP broke"),
        Err(_) => tracing::debug!("a connection of HTTP took too long"),
    }
}

async fn metrics(State(pages): State<Pages>) -> impl IntoResponse {
    let text = pages.make(open_metrics).await;
    match text {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}

async fn primary(State(pages): State<Pages>) -> impl IntoResponse {
    let answer = pages.make(|context| match role(context) {
        Role::Primary => readiness(context),
        Role::Standby(_) => unavailable("a standby\n"),
    });
    answer.await.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

async fn standby(State(pages): State<Pages>, uri: Uri) -> impl IntoResponse {
    let lag_max = uri.query().and_then(|query| query.split('&').find_map(|part| part.strip_prefix("lag=")));
    let lag_max = match lag_max.map(str::parse::<u64>).transpose() {
        Ok(lag_max) => lag_max,
        Err(_) => return (StatusCode::BAD_REQUEST, "lag is a number of bytes\n".to_owned()),
    };
    let answer = pages.make(move |context| match (role(context), lag_max) {
        (Role::Primary, _) => unavailable("a primary\n"),
        (Role::Standby(None), Some(_)) => unavailable("not connected: the lag is not known\n"),
        (Role::Standby(Some(lag)), Some(lag_max)) if lag > lag_max => {
            unavailable(&format!("{lag} bytes behind\n"))
        }
        (Role::Standby(_), _) => readiness(context),
    });
    answer.await.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn unavailable(why: &str) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
}

/// What the server is.
enum Role {
    /// It writes its log, or does not say otherwise.
    Primary,
    /// It follows another server: bytes of its upstream's log that readers do not see; `None`: it is not connected.
    Standby(Option<u64>),
}

fn role(context: &Context) -> Role {
    let Some(replication) = context.replication() else { return Role::Primary };
    if replication.database().standby().is_none() {
        return Role::Primary;
    }
    let applied = replication.database().snapshot().lsn();
    let connected = replication.receiver().filter(|receiver| receiver.state == "streaming");
    Role::Standby(connected.map(|receiver| receiver.upstream_end.bytes_since(applied)))
}

async fn ready(State(pages): State<Pages>) -> impl IntoResponse {
    let answer = pages.make(readiness).await;
    answer.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

impl Pages {
    /// Makes an answer on a thread that may wait: the engine may wait for its own locks.
    async fn make<T: Send + 'static>(
        &self,
        page: impl FnOnce(&Context) -> T + Send + 'static,
    ) -> io::Result<T> {
        let permit = Arc::clone(&self.answers).acquire_owned().await.map_err(io::Error::other)?;
        let context = Arc::clone(&self.context);
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            page(&context)
        });
        made.await.map_err(io::Error::other)
    }
}

fn readiness(context: &Context) -> (StatusCode, String) {
    match context.phase() {
        Phase::Serving if context.is_stopped() => (StatusCode::SERVICE_UNAVAILABLE, STOPPED.to_owned()),
        Phase::Serving => (StatusCode::OK, "ready\n".to_owned()),
        Phase::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned()),
        Phase::Starting => {
            let status = context.obstacle().or_else(|| context.recovery());
            let status = status.unwrap_or_else(|| "starting".to_owned());
            (StatusCode::SERVICE_UNAVAILABLE, format!("{status}\n"))
        }
    }
}

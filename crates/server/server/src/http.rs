//! Metrics and health by HTTP.
//!
//! * `/metrics`: OpenMetrics text of the engine and of the server.
//! * `/health/live`: 200 as long as the process answers.
//! * `/health/primary`: 200 if clients are served and may write, else 503 and why. For load balancers.
//! * `/health/standby`: 200 if a standby serves reads, else 503 and why. With `?lag=BYTES`, at most so far behind its upstream.
//! * `/health/ready`: 200 if clients are served, else 503 and why; while the database recovers, how far it is.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::context::{Context, Phase};
use crate::metrics::open_metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const STOPPED: &str =
    "the database takes no more writes after one that failed: start the server again, which recovers\n";

/// Serves until the listener's runtime ends.
pub(crate) async fn serve(context: Arc<Context>, listener: tokio::net::TcpListener) {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/health/live", get(async || "live\n"))
        .route("/health/ready", get(ready))
        .route("/health/primary", get(primary))
        .route("/health/standby", get(standby))
        .with_state(context);
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "metrics and health are not served any more");
    }
}

async fn metrics(State(context): State<Arc<Context>>) -> impl IntoResponse {
    // The engine may wait for its own locks.
    let text = tokio::task::spawn_blocking(move || open_metrics(&context)).await;
    match text {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}

async fn primary(State(context): State<Arc<Context>>) -> impl IntoResponse {
    let answer = tokio::task::spawn_blocking(move || match role(&context) {
        Role::Primary => readiness(&context),
        Role::Standby(_) => unavailable("a standby\n"),
    });
    answer.await.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

async fn standby(State(context): State<Arc<Context>>, uri: Uri) -> impl IntoResponse {
    let lag_max = uri.query().and_then(|query| query.split('&').find_map(|part| part.strip_prefix("lag=")));
    let lag_max = match lag_max.map(str::parse::<u64>).transpose() {
        Ok(lag_max) => lag_max,
        Err(_) => return (StatusCode::BAD_REQUEST, "lag is a number of bytes\n".to_owned()),
    };
    let answer = tokio::task::spawn_blocking(move || match (role(&context), lag_max) {
        (Role::Primary, _) => unavailable("a primary\n"),
        (Role::Standby(None), Some(_)) => unavailable("not connected: the lag is not known\n"),
        (Role::Standby(Some(lag)), Some(lag_max)) if lag > lag_max => {
            unavailable(&format!("{lag} bytes behind\n"))
        }
        (Role::Standby(_), _) => readiness(&context),
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

async fn ready(State(context): State<Arc<Context>>) -> impl IntoResponse {
    let answer = tokio::task::spawn_blocking(move || readiness(&context)).await;
    answer.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn readiness(context: &Context) -> (StatusCode, String) {
    match context.phase() {
        Phase::Serving if context.is_stopped() => (StatusCode::SERVICE_UNAVAILABLE, STOPPED.to_owned()),
        Phase::Serving => (StatusCode::OK, "ready\n".to_owned()),
        Phase::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned()),
        Phase::Starting => {
            let status = context.recovery().unwrap_or_else(|| "starting".to_owned());
            (StatusCode::SERVICE_UNAVAILABLE, format!("{status}\n"))
        }
    }
}

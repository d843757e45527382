//! Metrics and health by HTTP.
//!
//! * `/metrics`: OpenMetrics text of the engine and of the server.
//! * `/health/live`: 200 as long as the process answers.
//! * `/health/ready`: 200 if clients are served, else 503 and why; while the database recovers, how far it is.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
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

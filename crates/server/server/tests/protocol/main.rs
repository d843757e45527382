//! The server with clients of all kinds: right and wrong ones, slow ones, and such that vanish. The database is a fake.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod cancelling;
mod client;
mod fake;
mod hostile;
mod http;
mod logins;
mod scripts;
mod shutdown;

use std::sync::Arc;

use seawall_server::{Configuration, Server};

use crate::fake::Fake;

/// Listens on a port of its own, and has no Unix socket.
fn configuration() -> Configuration {
    Configuration {
        listen: vec!["127.0.0.1".to_owned()],
        port: 0,
        socket_directory: None,
        ..Configuration::default()
    }
}

fn running_with(configuration: &Configuration) -> Server {
    let server = Server::start(configuration).unwrap();
    server.serve(Arc::new(Fake::default()));
    server
}

fn running() -> Server {
    running_with(&configuration())
}

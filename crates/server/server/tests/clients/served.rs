//! A server with a database that is empty, on a port of its own.

use std::path::Path;
use std::sync::Arc;

use seawall_engine::{Database, FormatOptions, Options};
use seawall_server::{Configuration, Server, Shutdown};
use seawall_sql::session::SqlDatabase;

pub(crate) struct Served {
    server: Option<Server>,
    directory: tempfile::TempDir,
}

impl Served {
    /// With a database.
    pub(crate) fn new() -> Served {
        Served::with(|configuration, _| configuration)
    }

    /// With a database, and a configuration that is changed; its files may be in the directory.
    pub(crate) fn with(change: impl FnOnce(Configuration, &Path) -> Configuration) -> Served {
        let served = Served::starting_with(change);
        let options = Options {
            format: FormatOptions { segment_bytes: 1 << 20, ..FormatOptions::default() },
            ..Options::default()
        };
        let database = Database::open(served.path().join("db"), options).unwrap();
        served.server().serve(Arc::new(SqlDatabase::new(database).unwrap()));
        served
    }

    /// Without a database: clients are told to wait.
    pub(crate) fn starting() -> Served {
        Served::starting_with(|configuration, _| configuration)
    }

    pub(crate) fn starting_with(change: impl FnOnce(Configuration, &Path) -> Configuration) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let configuration = Configuration {
            listen: vec!["127.0.0.1".to_owned()],
            port: 0,
            socket_directory: Some(directory.path().to_owned()),
            ..Configuration::default()
        };
        let configuration = change(configuration, directory.path());
        Served { server: Some(Server::start(&configuration).unwrap()), directory }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Ends the server, and leaves the database as it is.
    pub(crate) fn end(&mut self, shutdown: Shutdown) {
        if let Some(server) = self.server.take() {
            server.end(shutdown);
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server().port()
    }

    /// Of the Unix socket, and for files of a test.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end(Shutdown::Fast);
        }
    }
}

//! What several tests need.
#![allow(dead_code, reason = "no test needs all of it")]

#[path = "object_server.rs"]
pub(crate) mod object_server;
#[path = "postgresql_log.rs"]
pub(crate) mod postgresql_log;
#[path = "store_server.rs"]
pub(crate) mod store_server;

use std::sync::Arc;

use seawall_archive::{
    Compression, Description, Expected, Header, LogFileName, Packed, Packer, Packing, RepositoryOptions,
    RetryPolicy, System, identify,
};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{SimulatedClock, SimulatedRandom};

use postgresql_log::PostgreSqlLog;

pub(crate) const SYSTEM: u64 = 7_301_234_567_890_123_456;

/// Options that repeat with `seed`; encrypted, if there is a master key.
pub(crate) fn options(seed: u64, master_key: Option<u8>) -> RepositoryOptions {
    RepositoryOptions {
        master_key: master_key.map(master),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(seed)),
        retry: RetryPolicy::default(),
        ..RepositoryOptions::default()
    }
}

pub(crate) fn master(byte: u8) -> MasterKey {
    MasterKey::Bytes(SecretKey::from_bytes([byte; 32]))
}

/// Segments of a log, with their names.
pub(crate) fn segments(count: usize) -> Vec<(String, Vec<u8>)> {
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(count, 300);
    (0..count).map(|index| (log.name(index), log.segment(index))).collect()
}

pub(crate) fn describe(name: &str, content: &[u8]) -> Description {
    identify(name, content, &Expected { system: Some(System::PostgreSql(SYSTEM)), fork: None }).unwrap()
}

pub(crate) fn pack(name: &str, content: &[u8], compression: Compression) -> Packed {
    let packing = Packing { compression, ..Packing::default() };
    Packer::new(packing).pack(describe(name, content).header(1), content)
}

/// A history of timeline 2 with this reason.
pub(crate) fn history(reason: &str) -> (String, Vec<u8>) {
    ("00000002.history".to_owned(), format!("1\t0/3000158\t{reason}\n").into_bytes())
}

pub(crate) fn name(text: &str) -> LogFileName {
    LogFileName::parse(text).unwrap()
}

/// A header with nothing in it that matters, for content of any kind.
pub(crate) fn any_header() -> Header {
    let (name, content) = history("x");
    describe(&name, &content).header(7)
}

//! `seawall serve` as a process: under clients that send garbage or vanish, killed, on a full disk. One binary, because linking it is what
//! takes time.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod archived;
#[path = "../../../server/server/tests/protocol/client.rs"]
#[allow(dead_code, reason = "the tests of the protocol use all of it")]
mod client;
mod full_disk;
mod fuzz;
mod grammar;
mod hostile;
#[path = "../common/installed.rs"]
mod installed;
mod kill_pgbench;
mod kill_two_phase;
mod killed_standbys;
mod memory;
#[path = "../common/own_mounts.rs"]
mod own_mounts;
mod process;
#[path = "../../../server/server/tests/clients/program.rs"]
#[allow(dead_code, reason = "the tests of clients use all of it")]
mod program;
mod quorum;
mod reading_own_writes;
mod reference;
mod rewinding;
mod standby_cases;
mod standbys;
mod switchover;
mod vanishing;

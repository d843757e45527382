//! PostgreSQL's own programs, and drivers, as clients of the server with a database of its own. Where one is not installed, its tests
//! say so, and are skipped.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod coordinator;
mod copying;
mod drivers;
mod pg_isready;
mod pg_receivewal;
mod pgbench;
mod primary;
mod program;
mod psql;
mod served;
mod several_hosts;
mod standby;
mod synchronous;

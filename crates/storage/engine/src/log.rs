//! The engine and its log, beside commits: whether the engine writes it (`engine_log`), holds of those who need old log
//! (`hold`), flushes in time and spare segments (`keeper`), the removal of segments that nobody needs (`cleaner`), the reaction to the log's news (`observer`), and
//! the door that writers wait at while another server takes over (`parking`). Records, segments and flushes are in crate `wal`.

pub(crate) mod cleaner;
pub(crate) mod engine_log;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod observer;
pub(crate) mod parking;
pub(crate) mod setup;

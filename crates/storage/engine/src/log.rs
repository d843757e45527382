//! The engine's work on its log beside commits: holds of those who need old log, flushes in time and spare segments
//! (`keeper`), and the removal of segments that nobody needs (`cleaner`). Records, segments and flushes are in crate `wal`.

pub(crate) mod cleaner;
pub(crate) mod hold;
pub(crate) mod keeper;

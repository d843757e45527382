//! The vocabulary of Seawall. A number with a meaning is a type, so that no page id can stand where a log sequence
//! number belongs. No IO here.

mod lsn;
mod names;
mod time;
mod timeline;

pub use lsn::{Lsn, ParseLsnError};
pub use names::{DatabaseId, PageId, ParseTimelineMarkError, TableId, TimelineId, TimelineMark};
pub use time::utc;
pub use timeline::Timeline;

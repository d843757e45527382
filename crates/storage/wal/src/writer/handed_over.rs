//! What a log that has ended hands over to the next log of this process.

use super::buffers::LogBuffers;
use crate::holds::Holds;

/// `None` of what the next log has to make or read itself.
#[derive(Default)]
pub(crate) struct HandedOver {
    /// They go on, as they are.
    pub(crate) holds: Option<Holds>,
    /// Used if they are large enough.
    pub(crate) buffers: Option<LogBuffers>,
}

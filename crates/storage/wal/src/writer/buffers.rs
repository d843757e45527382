//! The memory of a log that is written: one buffer takes records while the other one is flushed.

use seawall_io::AppendBuffer;

use super::appender::buffer_capacity;

/// Two buffers, whose memory is there. To get it takes milliseconds, so a log that is received has them ready for a promotion.
pub(crate) struct LogBuffers {
    /// Takes the first records.
    pub(crate) first: AppendBuffer,
    /// Takes records while the first one is flushed.
    pub(crate) second: AppendBuffer,
}

impl LogBuffers {
    /// For batches of `buffer_bytes`, as the options say.
    pub(crate) fn new(buffer_bytes: usize) -> LogBuffers {
        let capacity = buffer_capacity(buffer_bytes);
        LogBuffers { first: AppendBuffer::new(capacity), second: AppendBuffer::new(capacity) }
    }
}

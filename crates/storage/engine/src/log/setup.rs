//! Derives the settings of the log and the tree from the settings of the database.

use std::sync::Arc;

use seawall_keys::DatabaseKeys;
use seawall_tree::{Superblock, TreeOptions};
use seawall_wal::{FlushBy, LogObserver, LogOptions, TimelineHistory};

use crate::encryption::log_cipher;
use crate::environment::Environment;
use crate::options::{Background, Options};

pub(crate) fn tree_options(
    environment: &Environment,
    options: &Options,
    keys: Option<DatabaseKeys>,
) -> TreeOptions {
    TreeOptions {
        cache_bytes: usize::try_from(options.memory.cache_bytes).unwrap_or(usize::MAX),
        compression: options.checkpoint.page_image_compression,
        recovery_file_bytes: options.checkpoint.chunk_bytes,
        threads: options.checkpoint.threads,
        clock: Some(Arc::clone(&environment.clock)),
        keys,
    }
}

/// What a log is opened with, whatever timeline it is on.
pub(crate) struct LogSetup<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) options: &'a Options,
    pub(crate) keys: Option<&'a DatabaseKeys>,
    /// `None` for a log that is made and let go.
    pub(crate) observer: Option<Arc<dyn LogObserver>>,
}

impl LogSetup<'_> {
    /// The options of a log on the timeline of `superblock`.
    pub(crate) fn log_options(&self, superblock: &Superblock, history: TimelineHistory) -> LogOptions {
        let options = self.options;
        LogOptions {
            ancestors: history.forks,
            segment_bytes: superblock.segment_bytes,
            spare_segments: u64::try_from(options.log.spare_segments).unwrap_or(u64::MAX),
            // A checkpoint starts when so much was logged, or earlier.
            expected_cycle_bytes: options.checkpoint.log_bytes,
            keep_bytes: options.log.keep_bytes,
            flush_by: match options.background {
                Background::Threads => FlushBy::Thread,
                Background::Manual => FlushBy::Caller,
            },
            clock: Some(Arc::clone(&self.environment.clock)),
            cipher: log_cipher(self.keys),
            // In proportion where little memory is given: the log has several such buffers.
            buffer_bytes: usize::try_from(options.memory.memtable_bytes / 16)
                .unwrap_or(usize::MAX)
                .clamp(64 << 10, 4 << 20),
            observer: self.observer.clone(),
            ..LogOptions::new(superblock.database, superblock.timeline)
        }
    }
}

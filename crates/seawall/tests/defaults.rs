//! The defaults of the options: what an operator reads in the documentation is what a database does.

use std::time::Duration;

use seawall::{
    Background, Durability, ImageCompression, Isolation, LockWait, OpenMode, Options, PageProtection,
    PublishStatistics,
};

#[test]
fn options_have_the_documented_defaults() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options::default();
    assert_eq!(options.mode, OpenMode::CreateIfMissing);
    assert_eq!(options.page_bytes, 8 << 10);
    assert_eq!(options.segment_bytes, 16 << 20);
    assert_eq!(options.memtable_bytes, 256 << 20);
    assert_eq!(options.snapshot_memory_bytes, 256 << 20);
    assert_eq!(options.cache_bytes, 256 << 20);
    assert_eq!(options.checkpoint_log_bytes, 256 << 20);
    assert_eq!(options.recovery_target, Some(Duration::from_secs(5)));
    assert_eq!(options.checkpoint_interval, Duration::from_secs(5 * 60));
    assert_eq!(options.checkpoint_chunk_bytes, 16 << 20);
    assert_eq!(options.checkpoint_io_limit, 0);
    assert_eq!(options.checkpoint_threads, processors.min(2));
    assert_eq!(options.page_protection, PageProtection::RecoveryFile);
    assert_eq!(options.page_image_compression, ImageCompression::Lz4);
    assert_eq!(options.recovery_threads, processors.min(8));
    assert_eq!(options.isolation, Isolation::Snapshot);
    assert_eq!(options.durability, Durability::Sync);
    assert_eq!(options.lock_wait, LockWait::Timeout(Duration::from_secs(10)));
    assert_eq!(options.max_transaction_bytes, 256 << 20);
    assert_eq!(options.transaction_memory_bytes, 1 << 30);
    assert_eq!(options.flush_interval, Duration::from_millis(10));
    assert_eq!(options.spare_segments, 2);
    assert_eq!(options.log_keep_bytes, 0);
    assert_eq!(options.publish_statistics, PublishStatistics::EverySecond);
    assert_eq!(options.background, Background::Threads);
    assert!(options.in_doubt_rules.is_empty() && options.archives.is_empty());
    assert!(options.master_key.is_none());
}

//! The defaults of the options: what an operator reads in the documentation is what a database does.

use std::time::Duration;

use seawall::{
    Background, Durability, ImageCompression, Isolation, LockWait, OpenMode, Options, PageProtection,
    PublishStatistics, RunOptions,
};

#[test]
fn options_have_the_documented_defaults() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options::default();
    assert_eq!(options.mode, OpenMode::CreateIfMissing);
    assert_eq!(options.format.page_bytes, 8 << 10);
    assert_eq!(options.format.segment_bytes, 16 << 20);
    assert_eq!(options.memory.memtable_bytes, 256 << 20);
    assert_eq!(options.memory.snapshot_bytes, 256 << 20);
    assert_eq!(options.memory.cache_bytes, 256 << 20);
    assert_eq!(options.checkpoint.log_bytes, 256 << 20);
    assert_eq!(options.recovery.target, Some(Duration::from_secs(5)));
    assert_eq!(options.checkpoint.interval, Duration::from_secs(5 * 60));
    assert_eq!(options.checkpoint.chunk_bytes, 16 << 20);
    assert_eq!(options.checkpoint.io_limit, 0);
    assert_eq!(options.checkpoint.threads, processors.min(2));
    assert_eq!(options.checkpoint.page_protection, PageProtection::RecoveryFile);
    assert_eq!(options.checkpoint.page_image_compression, ImageCompression::Lz4);
    let runs = RunOptions { run_percent: 25, leaves_min: 64, fan_in: 8, run_count: 32, filter_bits: 10 };
    assert_eq!(options.checkpoint.runs, runs);
    assert_eq!(options.recovery.threads, processors.min(8));
    assert_eq!(options.transaction.isolation, Isolation::Snapshot);
    assert_eq!(options.transaction.durability, Durability::Sync);
    assert_eq!(options.transaction.lock_wait, LockWait::Timeout(Duration::from_secs(10)));
    assert_eq!(options.transaction.retry_for, Duration::from_secs(60));
    assert_eq!(options.memory.transaction_bytes, 256 << 20);
    assert_eq!(options.memory.all_transactions_bytes, 1 << 30);
    assert_eq!(options.log.flush_interval, Duration::from_millis(10));
    assert_eq!(options.log.spare_segments, 2);
    assert_eq!(options.log.keep_bytes, 0);
    assert_eq!(options.publish_statistics, PublishStatistics::EverySecond);
    assert_eq!(options.background, Background::Threads);
    assert!(options.in_doubt_rules.is_empty() && options.archives.is_empty());
    assert!(options.master_key.is_none());
}

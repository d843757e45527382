//! Options of the databases under test.

use std::fmt;

use seawall::{
    Background, ImageCompression, LockWait, MasterKey, Options, PageProtection, RunOptions, SecretKey,
};
use seawall_simulation::SeededRandom;

/// Options as small as they can be, so that a short workload meets every border.
pub fn small_options() -> Options {
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 512 << 10;
    options.memory.cache_bytes = 256 << 10;
    options.checkpoint.log_bytes = 400 << 10;
    options.checkpoint.chunk_bytes = 24 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    // The clock of these tests stands still.
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

/// Small options with less room for spare segments than a plan's holds keep: of what they let go, some is recycled and the rest removed.
pub fn plan_options() -> Options {
    small_options().with(|options| options.checkpoint.log_bytes = 128 << 10)
}

/// Room for what `plan::wide` changes, and chunks that hold all of it.
pub fn wide_options(options: Options) -> Options {
    options.with(|options| {
        options.memory.memtable_bytes = 8 << 20;
        options.checkpoint.log_bytes = 8 << 20;
        options.checkpoint.chunk_bytes = 16 << 20;
        options.format.segment_bytes = 1 << 20;
        options.format.page_bytes = 4096;
    })
}

/// Options of a plan with one of the ways to protect pages, encrypted or not.
pub fn protected_options(number: u64) -> Options {
    let nth = |count: usize| usize::try_from(number % count as u64).expect("it is below a usize");
    let mut options = Options { master_key: (number % 4 >= 2).then(master_key), ..plan_options() };
    options.checkpoint.page_protection = PageProtection::ALL[nth(PageProtection::ALL.len())];
    options.checkpoint.page_image_compression = ImageCompression::ALL[nth(ImageCompression::ALL.len())];
    options
}

/// The same options with the second copy of pages in the other place, as the next process may be started.
pub fn other_place(options: &Options) -> Options {
    let mut options = options.clone();
    options.checkpoint.page_protection = match options.checkpoint.page_protection {
        PageProtection::RecoveryFile => PageProtection::LogImages,
        PageProtection::LogImages => PageProtection::RecoveryFile,
    };
    options
}

/// The same options where only the calling thread works, so that the calls of a seed repeat.
pub fn without_threads(options: &Options) -> Options {
    let mut options = Options { background: Background::Manual, ..options.clone() };
    options.checkpoint.threads = 1;
    options
}

/// Sorted runs: none, those of the defaults, or ones so small that a short workload has several and merges them.
pub fn draw_runs(random: &mut SeededRandom) -> RunOptions {
    RunOptions {
        run_percent: *random.pick(&[0, 5, 25, 25, 100]),
        leaves_min: *random.pick(&[1, 1, 4, 64]),
        fan_in: *random.pick(&[2, 2, 4, 8]),
        run_count: *random.pick(&[2, 3, 24]),
        filter_bits: *random.pick(&[0, 10]),
    }
}

/// The master key of encrypted databases.
pub fn master_key() -> MasterKey {
    MasterKey::Bytes(SecretKey::from_bytes([7; 32]))
}

/// A way to keep the second copy of pages.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Where it is kept.
    pub protection: PageProtection,
    /// How it is compressed.
    pub compression: ImageCompression,
}

impl Cell {
    /// Every combination.
    pub fn all() -> Vec<Cell> {
        let of = |protection| ImageCompression::ALL.map(|compression| Cell { protection, compression });
        PageProtection::ALL.into_iter().flat_map(of).collect()
    }

    /// The place of this combination in [`Cell::all`].
    pub fn number(self) -> u64 {
        let protection = PageProtection::ALL.iter().position(|other| *other == self.protection);
        let compression = ImageCompression::ALL.iter().position(|other| *other == self.compression);
        let number = |index: Option<usize>| index.expect("all are in the list") as u64;
        number(protection) * ImageCompression::ALL.len() as u64 + number(compression)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", self.protection.name(), self.compression.name())
    }
}

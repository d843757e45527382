//! How a backup is taken, and what it builds on, for the program that asks for one.

use seawall_archive::Packing;

/// How a backup is taken.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Take what has changed since the newest backup of the database's timeline that the repository has; everything, if there is
    /// none. Default: everything.
    pub is_incremental: bool,
    /// An increment is a full backup instead if a restore would have to read more than so many backups. Default 32.
    pub chain_max: usize,
    /// Rows of about so many bytes make one object. Default 8 MiB.
    pub run_bytes: usize,
    /// Leaves of so many bytes are read between two looks at the rate and two reports. Default 1 MiB.
    pub range_bytes: u64,
    /// Threads that compress and put. Default 2.
    pub threads: usize,
    /// Bytes of leaves a second that are read at most, on average. Default: no limit.
    pub bytes_per_second: Option<u64>,
    /// How runs are compressed.
    pub packing: Packing,
    /// Go on with the newest backup of the same kind that was cut short. Default: yes.
    pub resumes: bool,
    /// When so many bytes of runs were made, or a sixty-fourth of all so far if that is more, the repository hears how far the
    /// backup is: one that is cut short is resumed from there. Default 32 MiB.
    pub progress_bytes: u64,
}

impl Default for BackupOptions {
    fn default() -> BackupOptions {
        BackupOptions {
            is_incremental: false,
            chain_max: 32,
            run_bytes: 8 << 20,
            range_bytes: 1 << 20,
            threads: 2,
            bytes_per_second: None,
            packing: Packing::default(),
            resumes: true,
            progress_bytes: 32 << 20,
        }
    }
}

/// What a backup builds on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupStart {
    /// The backup that it is an increment of; `None`: it is a full one.
    pub parent: Option<String>,
    /// The one that was cut short and that it goes on with.
    pub goes_on_with: Option<String>,
    /// Why it does not build on something that it might have built on. Sentences.
    pub notes: Vec<String>,
}

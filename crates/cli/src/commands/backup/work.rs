//! How backups and restores are made, of databases and of clusters: as the command line says, or else the settings.

use seawall_archive::Packing;
use seawall_engine::ArchiveMode;

use crate::arguments::{BackupArguments, RestoreArguments, RestoredArchiveMode, Shared};

/// What is the same for backups of databases and of clusters: given, or else set.
pub(in crate::commands) struct Work {
    pub(in crate::commands) threads: usize,
    pub(in crate::commands) bytes_per_second: Option<u64>,
    pub(in crate::commands) packing: Packing,
}

impl Work {
    pub(in crate::commands) fn of(shared: &Shared, arguments: &BackupArguments) -> Work {
        let settings = &shared.settings;
        let threads = arguments.threads.unwrap_or_else(|| settings.require("backup.threads"));
        let rate = arguments.rate.or_else(|| settings.get("backup.rate"));
        Work {
            threads: usize::from(threads),
            bytes_per_second: rate.map(|mib| mib.saturating_mul(1 << 20)),
            packing: arguments
                .compression
                .or_else(|| settings.packing("backup.compression"))
                .unwrap_or_default(),
        }
    }
}

/// Objects that are fetched at a time.
pub(in crate::commands) fn restore_threads(shared: &Shared, arguments: &RestoreArguments) -> usize {
    usize::from(arguments.threads.unwrap_or_else(|| shared.settings.require("restore.threads")))
}

/// A standby archives nothing before it is promoted, and then it is production.
pub(in crate::commands) fn archive_mode_of(arguments: &RestoreArguments) -> ArchiveMode {
    match arguments.archive_mode {
        Some(RestoredArchiveMode::Off) => ArchiveMode::Off,
        Some(RestoredArchiveMode::Preserve) => ArchiveMode::Preserve,
        None if arguments.postgresql.standby => ArchiveMode::Preserve,
        None => ArchiveMode::Off,
    }
}

pub(in crate::commands) fn archive_mode_word(mode: ArchiveMode) -> &'static str {
    match mode {
        ArchiveMode::Off => "off",
        ArchiveMode::Preserve => "preserve",
    }
}

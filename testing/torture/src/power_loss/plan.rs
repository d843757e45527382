//! What a seed means: the options of a database, its lives, and how each of them ends.

use std::ffi::OsString;
use std::time::Duration;

use seawall::{MasterKey, Options, PageProtection, RunOptions};
use seawall_crash_harness::draw_runs;
use seawall_simulation::{PowerLoss, SeededRandom};
use serde::{Deserialize, Serialize};

/// The environment variable with the master key of encrypted databases, and its value.
pub(super) const KEY_VARIABLE: &str = "SEAWALL_TORTURE_KEY";
pub(super) const KEY: &str = "5ea3a115ea3a115ea3a115ea3a115ea3a115ea3a115ea3a115ea3a115ea3a115";

/// How a writer writes. Given to it as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) seed: u64,
    /// Number of the life; written with each transaction.
    pub(super) life: u64,
    pub(super) threads: u16,
    /// Each thread ends after so many, if nobody kills it before.
    pub(super) transactions: u64,
    /// Of a hundred transactions, how many wait until they are durable.
    sync_percent: u64,
    page_bytes: u32,
    segment_bytes: u64,
    memtable_bytes: u64,
    checkpoint_log_bytes: u64,
    checkpoint_chunk_bytes: u64,
    checkpoint_threads: usize,
    recovery_threads: usize,
    spare_segments: usize,
    has_log_images: bool,
    is_encrypted: bool,
    compression: String,
    flush_interval_ms: u64,
    /// `checkpoint.runs`.
    run_percent: u32,
    run_leaves_min: u32,
    run_fan_in: u32,
    run_count: u32,
}

/// How many of its commits a writing thread does not wait for.
pub(super) const IN_FLIGHT_MAX: usize = 4;

/// What a transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until it is durable.
    Durable,
    /// Not now: until some later ones are on their way.
    Later,
    /// For nothing.
    Nothing,
}

impl Settings {
    fn draw(random: &mut SeededRandom) -> Settings {
        let segment_bytes = *random.pick(&[64 << 10, 256 << 10, 1 << 20]);
        let runs = draw_runs(random);
        Settings {
            seed: random.next_u64(),
            life: 0,
            threads: *random.pick(&[1, 2, 4, 8]),
            transactions: 3_000,
            sync_percent: *random.pick(&[100, 50, 10, 0]),
            page_bytes: *random.pick(&[4096, 8192, 16384]),
            segment_bytes,
            memtable_bytes: *random.pick(&[1 << 20, 4 << 20, 64 << 20]),
            checkpoint_log_bytes: *random.pick(&[256 << 10, 1 << 20, 8 << 20]).max(&(2 * segment_bytes)),
            checkpoint_chunk_bytes: *random.pick(&[256 << 10, 1 << 20]),
            checkpoint_threads: *random.pick(&[1, 2]),
            recovery_threads: *random.pick(&[1, 2, 4]),
            spare_segments: *random.pick(&[1, 2, 4]),
            has_log_images: random.chance(1, 2),
            is_encrypted: random.chance(1, 4),
            compression: random.pick(&["none", "skip-garbage", "lz4", "zstd", "snappy"]).to_string(),
            flush_interval_ms: *random.pick(&[1, 10, 100]),
            run_percent: runs.run_percent,
            run_leaves_min: runs.leaves_min,
            run_fan_in: runs.fan_in,
            run_count: runs.run_count,
        }
    }

    /// Those of the next life: what a database cannot change stays.
    fn next_life(&self, random: &mut SeededRandom) -> Settings {
        let (page_bytes, segment_bytes, is_encrypted) =
            (self.page_bytes, self.segment_bytes, self.is_encrypted);
        let drawn = Settings::draw(random);
        let checkpoint_log_bytes = drawn.checkpoint_log_bytes.max(2 * segment_bytes);
        Settings {
            life: self.life + 1,
            page_bytes,
            segment_bytes,
            is_encrypted,
            checkpoint_log_bytes,
            ..drawn
        }
    }

    /// The options that the database is opened with.
    pub(super) fn options(&self) -> Options {
        let mut options = Options {
            master_key: self.is_encrypted.then(|| MasterKey::Environment(KEY_VARIABLE.to_owned())),
            ..Options::default()
        };
        options.format.page_bytes = self.page_bytes;
        options.format.segment_bytes = self.segment_bytes;
        options.memory.memtable_bytes = self.memtable_bytes;
        options.memory.cache_bytes = 4 << 20;
        options.checkpoint.log_bytes = self.checkpoint_log_bytes;
        options.checkpoint.chunk_bytes = self.checkpoint_chunk_bytes;
        options.checkpoint.threads = self.checkpoint_threads;
        options.recovery.threads = self.recovery_threads;
        options.log.spare_segments = self.spare_segments;
        options.checkpoint.page_protection =
            if self.has_log_images { PageProtection::LogImages } else { PageProtection::RecoveryFile };
        options.checkpoint.page_image_compression =
            self.compression.parse().expect("one of the names of this file");
        options.log.flush_interval = Duration::from_millis(self.flush_interval_ms);
        options.checkpoint.runs = RunOptions {
            run_percent: self.run_percent,
            leaves_min: self.run_leaves_min,
            fan_in: self.run_fan_in,
            run_count: self.run_count,
            ..RunOptions::default()
        };
        options
    }

    /// The same, as far as the command has them for an existing database.
    pub(super) fn command_line(&self) -> Vec<OsString> {
        let protection = if self.has_log_images { "log-images" } else { "recovery-file" };
        let options = ["--memtable-mib", "1", "--cache-mib", "4", "--page-protection", protection];
        let compression = ["--page-image-compression", self.compression.as_str()];
        let key: &[&str] = if self.is_encrypted { &["--master-key-env", KEY_VARIABLE] } else { &[] };
        options.iter().chain(&compression).chain(key).map(OsString::from).collect()
    }

    /// What the next transaction of a thread waits for.
    pub(super) fn wait(&self, random: &mut SeededRandom) -> Wait {
        if !random.chance(self.sync_percent, 100) {
            return Wait::Nothing;
        }
        if random.chance(1, 3) { Wait::Later } else { Wait::Durable }
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The power goes during the disk call so many calls from its beginning.
    PowerLoss { calls: u64 },
    /// The process is killed after so many acknowledgements.
    Kill { acknowledgements: u64 },
    /// The same, and then the power goes before anybody opens the database again.
    KillAndPowerLoss { acknowledgements: u64 },
}

/// What runs in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Threads with transactions of all kinds.
    Writer,
    /// `seawall load`.
    Load,
}

/// From opening to the end, and the recoveries after it.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) program: Program,
    pub(super) settings: Settings,
    pub(super) end: End,
    /// After how many disk calls the power goes in each recovery but the last one.
    pub(super) recoveries_cut_at: Vec<u64>,
}

/// One database from its beginning.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) lives: Vec<Life>,
    /// Draws what each power loss takes.
    pub(super) random: SeededRandom,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Plan {
        let mut random = SeededRandom::new(seed);
        let mut settings = Settings::draw(&mut random);
        let lives = (0..random.range(2..6))
            .map(|number| {
                // The first one makes the database with its options, which `load` does not have.
                let is_load = number > 0 && random.chance(1, 4);
                let life = Life {
                    program: if is_load { Program::Load } else { Program::Writer },
                    settings: settings.clone(),
                    end: end(&mut random),
                    recoveries_cut_at: recoveries_cut_at(&mut random),
                };
                settings = settings.next_life(&mut random);
                life
            })
            .collect();
        Plan { seed, lives, random }
    }

    /// What the next power loss takes.
    pub(super) fn power_loss(&mut self) -> PowerLoss {
        match self.random.below(8) {
            0 => PowerLoss::LoseAll,
            1 => PowerLoss::KeepAll,
            _ => PowerLoss::Random(self.random.next_u64()),
        }
    }
}

fn end(random: &mut SeededRandom) -> End {
    match random.below(6) {
        0 => End::Kill { acknowledgements: any_scale(random, 2_000) },
        1 => End::KillAndPowerLoss { acknowledgements: any_scale(random, 2_000) },
        _ => End::PowerLoss { calls: any_scale(random, 4_000) },
    }
}

/// At most three recoveries in a row are cut short.
fn recoveries_cut_at(random: &mut SeededRandom) -> Vec<u64> {
    let mut cuts = Vec::new();
    while cuts.len() < 3 && random.chance(1, 3) {
        cuts.push(any_scale(random, 200));
    }
    cuts
}

/// From 1 to `max`, small numbers as often as large ones.
fn any_scale(random: &mut SeededRandom, max: u64) -> u64 {
    let bits = u64::from(max.ilog2());
    let top = 1 << random.below(bits + 1);
    random.range(top..2 * top).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_plan_and_every_end_comes_up() {
        let describe = |seed| format!("{:?}", Plan::new(seed));
        assert_eq!(describe(7), describe(7));
        assert_ne!(describe(7), describe(8));
        let ends: Vec<End> = (0..50).flat_map(|seed| Plan::new(seed).lives).map(|life| life.end).collect();
        assert!(ends.iter().any(|end| matches!(end, End::Kill { .. })));
        assert!(ends.iter().any(|end| matches!(end, End::KillAndPowerLoss { .. })));
        assert!(ends.iter().any(|end| matches!(end, End::PowerLoss { calls } if *calls < 10)));
        assert!(ends.iter().any(|end| matches!(end, End::PowerLoss { calls } if *calls > 1_000)));
    }
}

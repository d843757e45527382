//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall::Isolation;

/// Tries to lose Seawall's data, and says how to see it again if it can.
///
/// Exit codes: 0 nothing found, 1 something found, 2 the chamber itself failed, 3 this machine lacks what the torture
/// needs.
#[derive(Debug, Parser)]
#[command(name = "seawall-torture", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Report in JSON, on one line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Tell of each seed and finding at once, a line of JSON each; end with the process that started this one.
    #[arg(long, global = true, hide = true)]
    pub(crate) progress: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run real processes on a mounted disk that loses power, and compare what was acknowledged with what is left.
    PowerLoss(PowerLossOptions),
    /// Run clients at once, and check by what they saw what isolation they had.
    Histories(HistoriesOptions),
    /// Run a primary and two standbys on a bad network, with clients on all of them, over promotions, cuts and restarts, and check by what
    /// clients saw that all servers agree on the order of commits.
    Standbys(StandbysOptions),
    /// Let disk calls fail, fill the disk, slow it down, turn bits over and move the clock, and hold the database to what it
    /// promises then.
    Faults(FaultsOptions),
    /// Lose power in the disk calls of workloads, and try the states that this may leave: all where they are few.
    Crashes(CrashesOptions),
    /// Run random histories of everything a program can do, and compare each answer with a plain model.
    Model(ModelOptions),
    /// Run databases of several lives, each ended by a power loss or a kill in a disk call, an equal share for each page
    /// protection and compression.
    Lives(LivesOptions),
    /// Run random histories under many option sets: each must give the same answers.
    Options(OptionsOptions),
    /// Run all tortures in turn, with new seeds each time; started again, go on.
    Campaign(CampaignOptions),
    /// Break the engine in one place after the other, and see which torture or test notices.
    Sabotage(SabotageOptions),
    /// The process that writes until it is killed.
    #[command(hide = true)]
    Writer { directory: PathBuf, settings: String },
    /// The process that recovers and says what is there.
    #[command(hide = true)]
    Reader { directory: PathBuf, settings: String },
    /// The `seawall` command.
    #[command(hide = true)]
    Seawall {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PowerLossOptions {
    /// How many databases are made, each with a seed of its own and several lives.
    #[arg(long, default_value_t = 20)]
    pub(crate) runs: u64,
    /// The first seed; the others follow.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Mount a disk that lies: of so many syncs one, or each, makes nothing durable. Rows must be found missing.
    #[arg(long, value_name = "ONE_IN", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lose_syncs: Option<u64>,
    /// Mount a disk that lies about the syncs of directories only.
    #[arg(long, value_name = "ONE_IN", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "lose_syncs")]
    pub(crate) lose_directory_syncs: Option<u64>,
    /// Go on after the first finding.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HistoriesOptions {
    /// No round begins after so many seconds; each level has at least one.
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Rounds of so many seeds, however long they take.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// The first seed; the others follow, one a round.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The level at which the clients work.
    #[arg(long, value_enum, default_value_t = Level::All)]
    pub(crate) isolation: Level,
    /// Hold the histories to another level: a stronger one must be found broken.
    #[arg(long, value_enum)]
    pub(crate) check_as: Option<Level>,
    /// Go on after the first finding.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct StandbysOptions {
    /// No round begins after so many seconds; there is at least one.
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Rounds of so many seeds, however long they take.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// The first seed; the others follow, one a round.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Hold the histories to a promise that is not made: a standby shows at once what was acknowledged. It must be found broken.
    #[arg(long)]
    pub(crate) check_as_one_server: bool,
    /// Go on after the first finding.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CrashesOptions {
    /// How many workloads.
    #[arg(long, default_value_t = 1)]
    pub(crate) seeds: u64,
    /// The first seed; the others follow, one a workload.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Disk calls of each workload in which the power goes, each kind of call as often as any other.
    #[arg(long, default_value_t = 40)]
    pub(crate) points: usize,
    /// States tried after each of these; an eighth of it after a crash in the recovery, and so on.
    #[arg(long, default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) states: u64,
    /// Crashes in a row: 1 for those in workloads only, 3 for those in recoveries from crashes in recoveries.
    #[arg(long, default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(crate) depth: u32,
    /// Let the disk lie: of so many syncs one makes nothing durable. Something must be found.
    #[arg(long, value_name = "ONE_IN")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lose_syncs: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ModelOptions {
    /// How many histories.
    #[arg(long, default_value_t = 1000)]
    pub(crate) histories: u64,
    /// The first seed; the others follow, one a history.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LivesOptions {
    /// How many databases.
    #[arg(long, default_value_t = 200)]
    pub(crate) histories: u64,
    /// The first seed; the others follow, one a database.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CampaignOptions {
    /// How long, with what the directory says that was done before.
    #[arg(long, default_value_t = 60)]
    pub(crate) minutes: u64,
    /// Where it writes how far it is, and its report.
    #[arg(long, default_value = "seawall-campaign")]
    pub(crate) directory: PathBuf,
    /// The first seed of each torture. Default: one that comes from the clock.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct OptionsOptions {
    /// How many histories.
    #[arg(long, default_value_t = 100)]
    pub(crate) histories: u64,
    /// The first seed; the others follow, one a history.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Option sets under which each history runs.
    #[arg(long, default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) sets: u64,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SabotageOptions {
    /// Plant this defect only; can be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) defect: Vec<String>,
    /// Only hunters with this in their names; can be given several times.
    #[arg(long, value_name = "PART")]
    pub(crate) hunter: Vec<String>,
    /// Name all defects, and plant none.
    #[arg(long)]
    pub(crate) list: bool,
    /// Report as a table for documents.
    #[arg(long)]
    pub(crate) markdown: bool,
    /// The first seed of the tortures.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often each hunter has to find nothing on the healthy engine before the first defect is planted; slow ones once.
    #[arg(long, default_value_t = 3)]
    pub(crate) controls: u32,
    /// Leave hunters out that find something on the healthy engine, instead of stopping.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FaultsOptions {
    /// How many databases are made, each with a seed of its own, several lives and many faults.
    #[arg(long, default_value_t = 100)]
    pub(crate) runs: u64,
    /// The first seed; the others follow.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Give the database a disk that lies: of so many calls that fail one, or each, says that all is well. Rows must be
    /// found missing.
    #[arg(long, value_name = "ONE_IN", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) swallow: Option<u64>,
    /// Threads of the checkpoints of each database. With 1 a seed repeats everything. Default: drawn, 1 to 3.
    #[arg(long, value_name = "COUNT")]
    pub(crate) checkpoint_threads: Option<usize>,
    /// Go on after the first finding.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

/// Isolation levels, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    ReadCommitted,
    Snapshot,
    Serializable,
    /// One after another; to be held to, the strongest.
    All,
}

impl Level {
    pub(crate) fn levels(self) -> Vec<Isolation> {
        match self {
            Level::All => vec![Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable],
            Level::ReadCommitted | Level::Snapshot | Level::Serializable => vec![self.single()],
        }
    }

    pub(crate) fn single(self) -> Isolation {
        match self {
            Level::ReadCommitted => Isolation::ReadCommitted,
            Level::Snapshot => Isolation::Snapshot,
            Level::Serializable | Level::All => Isolation::Serializable,
        }
    }

    pub(crate) fn of(isolation: Isolation) -> Level {
        match isolation {
            Isolation::ReadCommitted => Level::ReadCommitted,
            Isolation::Snapshot => Level::Snapshot,
            Isolation::Serializable => Level::Serializable,
        }
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

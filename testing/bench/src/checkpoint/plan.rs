//! From arguments to tables: which loads, on which configurations, with what around them.

use super::arguments::{Common, Loads, Test};
use super::cell::Kind;
use super::configuration::{COMPRESSIONS, Choice, Configuration, PROTECTIONS, names};
use super::load::{Durability, Load, Operation};

/// One table: a row of columns, one for each configuration.
#[derive(Clone, Debug)]
pub(super) struct PlannedTable {
    pub(super) title: String,
    pub(super) kind: Kind,
    pub(super) load: Load,
    pub(super) seconds: f64,
    pub(super) runs: u64,
    pub(super) rate: Rate,
}

/// How fast writers go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    Full,
    /// Rows a second.
    Fixed(f64),
    /// This share of the slowest configuration's full speed, which is a table of its own.
    ShareOfFull(f64),
}

/// What all cells of a command have in common besides `Common`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) cache_bytes: u64,
    pub(super) memtable_bytes: u64,
    pub(super) chunk_bytes: Option<u64>,
    pub(super) recovery_target: f64,
}

const SECONDS: f64 = 40.0;
const SECONDS_EXTREME: f64 = 600.0;
const SECONDS_OF_CHECKPOINTS: f64 = 10.0;
const SECONDS_UNTIL_KILLED: f64 = 30.0;
const KILLS: u64 = 5;
const KILLS_AT_ANY_MOMENT: u64 = 20;
const RECOVERY_TARGET: f64 = 5.0;
const CACHE_MIB: u64 = 256;
const MEMTABLE_BYTES_MIN: u64 = 1 << 30;
/// An upper bound of what a row costs in a memtable beyond its value.
const ROW_OVERHEAD_BYTES: u64 = 160;
const CHUNK_BYTES_OF_READERS: u64 = 64 << 20;

/// The loads of the published tables.
const PUBLISHED: [Load; 5] = [
    load(Operation::Put, Durability::Async, 8),
    load(Operation::Transaction, Durability::Async, 8),
    load(Operation::Batch, Durability::Async, 8),
    load(Operation::Put, Durability::Sync, 32),
    load(Operation::Transaction, Durability::Sync, 32),
];

const fn load(operation: Operation, durability: Durability, threads: usize) -> Load {
    Load { operation, durability, threads }
}

/// The tables that `test` asks for, and what is around them; `None` if it asks for none.
pub(super) fn plan(test: &Test) -> Option<(&Common, Limits, Vec<PlannedTable>)> {
    let (common, tables) = match test {
        Test::FullSpeed { common, loads } => {
            (common, of_loads(common, chosen(loads, &PUBLISHED), Rate::Full))
        }
        Test::FixedRate { common, loads, rate, percent } => {
            let share = Rate::ShareOfFull(*percent as f64 / 100.0);
            (common, of_loads(common, chosen(loads, &PUBLISHED), rate.map_or(share, Rate::Fixed)))
        }
        Test::Extreme { common, loads, .. } => (common, extreme(common, loads)),
        Test::Readers { common, threads } => (common, readers(common, threads)),
        Test::Kill { common, loads } => (common, kill(common, loads)),
        Test::RecoveryTarget { common, loads, .. } => (common, recovery_target(common, loads)),
        #[cfg(feature = "plot")]
        Test::Plot { .. } => return None,
    };
    Some((common, limits(test, common), tables))
}

/// Every combination of what was asked for, or `published` if nothing was.
fn chosen(loads: &Loads, published: &[Load]) -> Vec<Load> {
    if loads.operations.is_empty() && loads.durabilities.is_empty() && loads.threads.is_empty() {
        return published.to_vec();
    }
    let mut chosen = Vec::new();
    for operation in or(&loads.operations, &[Operation::Put]) {
        for durability in or(&loads.durabilities, &[Durability::Async]) {
            for threads in or(&loads.threads, &[1, 8, 32]) {
                chosen.push(load(operation, durability, threads.max(1)));
            }
        }
    }
    chosen
}

fn or<T: Copy>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

fn of_loads(common: &Common, loads: Vec<Load>, rate: Rate) -> Vec<PlannedTable> {
    let table = |load: Load, rate: Rate| {
        let what = if rate == Rate::Full { "Full speed" } else { "Fixed rate" };
        PlannedTable {
            title: format!("{what}: {}, values of {} bytes", load.label(), common.value_bytes),
            kind: Kind::Overwrite,
            load,
            seconds: common.seconds.unwrap_or(SECONDS),
            runs: common.runs.unwrap_or(1),
            rate,
        }
    };
    let first = |load| matches!(rate, Rate::ShareOfFull(_)).then(|| table(load, Rate::Full));
    loads.into_iter().flat_map(|load| first(load).into_iter().chain([table(load, rate)])).collect()
}

fn tables(
    common: &Common,
    kind: Kind,
    what: &str,
    loads: Vec<Load>,
    seconds: f64,
    runs: u64,
) -> Vec<PlannedTable> {
    let table = |load: Load| PlannedTable {
        title: format!("{what}: {}, values of {} bytes", load.label(), common.value_bytes),
        kind,
        load,
        seconds: common.seconds.unwrap_or(seconds),
        runs: common.runs.unwrap_or(runs),
        rate: Rate::Full,
    };
    loads.into_iter().map(table).collect()
}

fn extreme(common: &Common, loads: &Loads) -> Vec<PlannedTable> {
    let loads = chosen(loads, &[load(Operation::Batch, Durability::Async, 8)]);
    tables(common, Kind::Extreme, "Extreme, unique keys", loads, SECONDS_EXTREME, 1)
}

fn readers(common: &Common, threads: &[usize]) -> Vec<PlannedTable> {
    let table = |threads: &usize| PlannedTable {
        title: format!("Point reads: reading threads {threads}, values of {} bytes", common.value_bytes),
        kind: Kind::Readers,
        load: load(Operation::Put, Durability::Async, (*threads).max(1)),
        seconds: common.seconds.unwrap_or(SECONDS_OF_CHECKPOINTS),
        runs: common.runs.unwrap_or(1),
        rate: Rate::Full,
    };
    threads.iter().map(table).collect()
}

/// Stamped commits write two rows, whatever the operation.
fn kill(common: &Common, loads: &Loads) -> Vec<PlannedTable> {
    let [buffered, synced] =
        [Durability::Async, Durability::Sync].map(|one| load(Operation::Transaction, one, 8));
    let loads = chosen(loads, &[buffered, synced]);
    tables(common, Kind::Kill, "kill -9 in a checkpoint", loads, common.interval, KILLS)
}

fn recovery_target(common: &Common, loads: &Loads) -> Vec<PlannedTable> {
    let loads = chosen(loads, &[load(Operation::Transaction, Durability::Async, 8)]);
    let what = "kill -9 at any moment";
    tables(common, Kind::RecoveryTarget, what, loads, SECONDS_UNTIL_KILLED, KILLS_AT_ANY_MOMENT)
}

fn limits(test: &Test, common: &Common) -> Limits {
    // Half of it takes what arrives: every row, while every row is being merged.
    let all_rows = common.rows.saturating_mul(u64::from(common.value_bytes) + ROW_OVERHEAD_BYTES);
    let twice_all_rows = all_rows.saturating_mul(2).max(MEMTABLE_BYTES_MIN);
    let mut limits = Limits {
        cache_bytes: common.cache_mib.unwrap_or(CACHE_MIB) << 20,
        memtable_bytes: common.memtable_mib.map_or(twice_all_rows, |mebibytes| mebibytes << 20),
        chunk_bytes: common.chunk_mib.map(|mebibytes| mebibytes << 20),
        recovery_target: RECOVERY_TARGET,
    };
    match test {
        Test::Extreme { memory_mib, .. } => {
            limits.memtable_bytes = common.memtable_mib.map_or(memory_mib << 19, |mebibytes| mebibytes << 20);
            limits.cache_bytes = common.cache_mib.map_or(memory_mib << 19, |mebibytes| mebibytes << 20);
        }
        Test::Readers { .. } => limits.chunk_bytes = limits.chunk_bytes.or(Some(CHUNK_BYTES_OF_READERS)),
        Test::RecoveryTarget { target, .. } => limits.recovery_target = *target,
        Test::FullSpeed { .. } | Test::FixedRate { .. } | Test::Kill { .. } => {}
        #[cfg(feature = "plot")]
        Test::Plot { .. } => {}
    }
    limits
}

/// The columns.
pub(super) fn configurations(common: &Common) -> Vec<Configuration> {
    let or_all = |given: &[String], all: &[Choice]| {
        if given.is_empty() { names(all).into_iter().map(String::from).collect() } else { given.to_vec() }
    };
    let protections = or_all(&common.protections, PROTECTIONS);
    Configuration::product(&protections, &or_all(&common.compressions, COMPRESSIONS))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command_line::{Command, CommandLine};

    fn test(line: &str) -> Test {
        let words = ["seawall-bench", "checkpoint"].into_iter().chain(line.split(' '));
        match CommandLine::try_parse_from(words).unwrap().command {
            Command::Checkpoint { test } => test,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_asked_for_is_the_published_table() {
        let test = test("full-speed");
        let (common, limits, tables) = plan(&test).unwrap();
        assert_eq!(tables.iter().map(|table| table.load).collect::<Vec<_>>(), PUBLISHED);
        assert_eq!(configurations(common).len(), PROTECTIONS.len() * COMPRESSIONS.len());
        assert_eq!(limits.memtable_bytes, 1 << 30);
    }

    #[test]
    fn what_is_asked_for_is_combined() {
        let test = test("full-speed --operations put,batch --durabilities sync,async --value-bytes 2000");
        let (_, limits, tables) = plan(&test).unwrap();
        assert_eq!(tables.len(), 2 * 2 * 3);
        assert_eq!(limits.memtable_bytes, 2 * 1_000_000 * 2160);
    }

    #[test]
    fn a_fixed_rate_follows_its_full_speed() {
        let fixed = test("fixed-rate --threads 8 --compressions none");
        let (common, _, tables) = plan(&fixed).unwrap();
        let rates: Vec<Rate> = tables.iter().map(|table| table.rate).collect();
        assert_eq!(rates, [Rate::Full, Rate::ShareOfFull(0.6)]);
        assert_eq!(configurations(common).len(), PROTECTIONS.len());
        let given = test("fixed-rate --threads 8 --rate 1000");
        assert_eq!(plan(&given).unwrap().2.len(), 1);
    }

    #[test]
    fn each_test_has_its_limits() {
        assert_eq!(plan(&test("extreme")).unwrap().1.cache_bytes, 128 << 20);
        let regime = plan(&test("extreme --cache-mib 12288 --memtable-mib 3072 --interval 30")).unwrap().1;
        assert_eq!((regime.cache_bytes, regime.memtable_bytes), (12 << 30, 3 << 30));
        assert_eq!(plan(&test("readers")).unwrap().1.chunk_bytes, Some(64 << 20));
        assert_eq!(plan(&test("kill")).unwrap().2.len(), 2);
        assert_eq!(plan(&test("recovery-target --runs 3")).unwrap().2[0].runs, 3);
    }
}

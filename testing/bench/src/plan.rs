//! From a command to the rows of the table: which workloads, at how many threads, on how much, and what to reach.

use crate::command_line::{Command, Common, Written};
use crate::engine::{EngineKind, LogLimits};
use crate::rows::{Key, Order};
use crate::workload::{Change, Workload};

/// What Seawall must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    /// Times as good as the best peer of the same run.
    RatioToBestPeer(f64),
    ValueAtLeast(f64),
    ValueAtMost(f64),
    /// A figure that only this workload has.
    ExtraAtMost(&'static str, f64),
}

/// One row of the table: a cell for each engine.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRow {
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) reach: Option<Reach>,
    pub(crate) engines: Vec<EngineKind>,
}

const ROWS: u64 = 1_000_000;
const ROWS_LARGER_THAN_CACHE: u64 = 4_000_000;
const ROWS_LOADED_IN_ALL: u64 = 4_000_000;
const ROWS_LOADED: u64 = 10_000_000;
const SECONDS: f64 = 5.0;
/// Data of `beyond`, of the cache.
const BEYOND_TIMES: u64 = 10;
const BEYOND_SECONDS: f64 = 60.0;
const MEMORY_SECONDS: f64 = 600.0;
const MEMORY_SECONDS_IN_ALL: f64 = 60.0;
const MEMORY_THREADS: usize = 4;

/// A workload before the user's wishes: threads and rows if none are given, and what to reach at each.
struct Draft {
    workload: Workload,
    threads: Vec<(usize, Option<Reach>)>,
    rows: u64,
    seconds: f64,
}

fn draft(workload: Workload, threads: &[(usize, Option<Reach>)]) -> Draft {
    Draft { workload, threads: threads.to_vec(), rows: ROWS, seconds: SECONDS }
}

impl Draft {
    fn of_rows(self, rows: u64) -> Draft {
        Draft { rows, ..self }
    }

    fn for_seconds(self, seconds: f64) -> Draft {
        Draft { seconds, ..self }
    }
}

/// The rows of the table that `command` asks for; `None` if it asks for no table.
pub(crate) fn plan(command: &Command) -> Option<(&Common, Vec<PlannedRow>)> {
    let (common, drafts) = match command {
        Command::Put(common) => (common, vec![put()]),
        Command::PutAsyncHandles { common, in_flight } => (common, vec![put_async_handles(*in_flight)]),
        Command::Batch { common, batch_rows } => (common, vec![batch(*batch_rows)]),
        Command::PutBuffered(common) => (common, vec![put_buffered()]),
        Command::Load { common, order, transaction_rows } => {
            let orders = order.map_or(vec![Order::Sorted, Order::Random], |order| vec![order]);
            let load = |order| match transaction_rows {
                None => load(order).of_rows(ROWS_LOADED),
                Some(rows) => transactions(order, *rows),
            };
            (common, orders.into_iter().map(load).collect())
        }
        Command::Read(common) => (common, vec![read()]),
        Command::ReadCold { common, absent, together } => (common, vec![read_cold(*absent, *together)]),
        Command::Scan { common, scan_rows } => (common, vec![scan_full(), scan_short(*scan_rows)]),
        Command::Mix { common, read_percent } => {
            let shares = read_percent.map_or(vec![50, 95], |percent| vec![percent]);
            (common, shares.into_iter().map(mix).collect())
        }
        Command::Beyond { common, change, batch_rows } => {
            let changes = change.map_or(vec![Change::Insert, Change::Update], |change| vec![change]);
            let row_bytes = (size_of::<Key>() as u64) + u64::from(common.value_bytes);
            let rows = BEYOND_TIMES * (common.cache_mib << 20) / row_bytes;
            (common, changes.into_iter().map(|change| beyond(change, *batch_rows).of_rows(rows)).collect())
        }
        Command::Reopen { common, written, limits } => {
            let limits = limits.map_or(vec![LogLimits::Raised, LogLimits::Default], |limits| vec![limits]);
            (common, limits.into_iter().map(|limits| reopen(written, limits)).collect())
        }
        Command::Recovery { common, written } => (common, vec![recovery(written)]),
        Command::LogBytes(common) => (common, vec![log_bytes()]),
        Command::Memory(common) => (common, vec![memory().for_seconds(MEMORY_SECONDS)]),
        Command::All { common, written } => (common, all(written)),
        Command::Checkpoint { .. }
        | Command::Segments(_)
        | Command::Stalls(_)
        | Command::Promotion(_)
        | Command::Replication(_)
        | Command::Device(_)
        | Command::Cell { .. }
        | Command::CheckpointCell { .. }
        | Command::CheckpointWriter { .. }
        | Command::MemoryLimits(_)
        | Command::MemoryCase { .. }
        | Command::Ddl(_)
        | Command::DdlStep { .. }
        | Command::Twophase(_)
        | Command::TwophaseWriter { .. }
        | Command::Fill { .. } => return None,
    };
    Some((common, drafts.into_iter().flat_map(|draft| planned(draft, common)).collect()))
}

fn all(written: &Written) -> Vec<Draft> {
    vec![
        put(),
        put_async_handles(1000),
        batch(100),
        put_buffered(),
        load(Order::Sorted),
        load(Order::Random),
        read(),
        read_cold(false, 1),
        scan_full(),
        scan_short(100),
        mix(50),
        mix(95),
        reopen(written, LogLimits::Raised),
        reopen(written, LogLimits::Default),
        recovery(written),
        log_bytes(),
        memory(),
    ]
}

fn ratio(ratio: f64) -> Option<Reach> {
    Some(Reach::RatioToBestPeer(ratio))
}

fn put() -> Draft {
    draft(Workload::Put, &[(1, ratio(1.2)), (8, ratio(2.0)), (32, ratio(3.0)), (64, ratio(4.0))])
}

fn put_async_handles(in_flight: u32) -> Draft {
    let in_flight = usize::try_from(in_flight).expect("32 bits fit");
    draft(Workload::PutAsyncHandles { in_flight }, &[(1, Some(Reach::ValueAtLeast(300_000.0)))])
}

fn batch(batch_rows: u32) -> Draft {
    let batch_rows = usize::try_from(batch_rows).expect("32 bits fit");
    draft(Workload::Batch { batch_rows }, &[(1, ratio(1.3)), (8, ratio(2.0))])
}

fn put_buffered() -> Draft {
    draft(Workload::PutBuffered, &[(1, ratio(1.5)), (8, ratio(2.0))])
}

fn load(order: Order) -> Draft {
    let reach = match order {
        Order::Sorted => 1.0,
        Order::Random => 1.5,
    };
    draft(Workload::Load { order }, &[(1, ratio(reach))]).of_rows(ROWS_LOADED_IN_ALL)
}

fn transactions(order: Order, transaction_rows: u32) -> Draft {
    let reach = match order {
        Order::Sorted => Some(Reach::ValueAtLeast(3_000_000.0)),
        Order::Random => ratio(1.5),
    };
    let transaction_rows = usize::try_from(transaction_rows).expect("32 bits fit");
    draft(Workload::Transactions { order, transaction_rows }, &[(1, reach)]).of_rows(ROWS_LOADED_IN_ALL)
}

fn read() -> Draft {
    draft(Workload::Read, &[(1, ratio(1.0)), (2, ratio(1.0))])
}

fn read_cold(absent: bool, together: u16) -> Draft {
    draft(
        Workload::ReadCold { absent, together },
        &[(1, Some(Reach::ExtraAtMost("page_reads_per_get", 1.0)))],
    )
    .of_rows(ROWS_LARGER_THAN_CACHE)
}

fn scan_full() -> Draft {
    draft(Workload::ScanFull, &[(1, ratio(0.8))])
}

fn scan_short(scan_rows: u64) -> Draft {
    draft(Workload::ScanShort { scan_rows }, &[(1, ratio(0.8))])
}

fn mix(read_percent: u64) -> Draft {
    draft(Workload::Mix { read_percent }, &[(2, ratio(1.2))])
}

fn beyond(change: Change, batch_rows: u32) -> Draft {
    let batch_rows = usize::try_from(batch_rows).expect("32 bits fit");
    let reach = Some(Reach::ExtraAtMost("device_bytes_per_user_byte", 8.0));
    draft(Workload::Beyond { change, batch_rows }, &[(1, reach)]).for_seconds(BEYOND_SECONDS)
}

fn reopen(written: &Written, limits: LogLimits) -> Draft {
    let seconds = match limits {
        LogLimits::Default => 1.0,
        LogLimits::Raised => 5.0,
    };
    let workload = Workload::Reopen { written_bytes: written.written_mib << 20, limits };
    // As many keys as rows: none is written twice.
    draft(workload, &[(1, Some(Reach::ValueAtMost(seconds)))]).of_rows(ROWS_LOADED)
}

fn recovery(written: &Written) -> Draft {
    let workload = Workload::Recovery { written_bytes: written.written_mib << 20 };
    draft(workload, &[(1, Some(Reach::ValueAtLeast(1_000_000.0)))]).of_rows(ROWS_LOADED)
}

fn log_bytes() -> Draft {
    draft(Workload::LogBytes, &[(1, Some(Reach::ExtraAtMost("log_overhead_per_commit", 40.0)))])
}

fn memory() -> Draft {
    let reach = Some(Reach::ExtraAtMost("resident_share_of_configured", 1.25));
    draft(Workload::Memory, &[(MEMORY_THREADS, reach)])
        .of_rows(ROWS_LARGER_THAN_CACHE)
        .for_seconds(MEMORY_SECONDS_IN_ALL)
}

fn planned(draft: Draft, common: &Common) -> Vec<PlannedRow> {
    let threads = if common.threads.is_empty() {
        draft.threads.clone()
    } else {
        let reach_at = |wanted| draft.threads.iter().find(|(threads, _)| *threads == wanted);
        common
            .threads
            .iter()
            .map(|wanted| (*wanted, reach_at(*wanted).and_then(|(_, reach)| *reach)))
            .collect()
    };
    let engines = engines(draft.workload, &common.engines);
    threads
        .into_iter()
        .map(|(threads, reach)| PlannedRow {
            workload: draft.workload,
            threads: threads.max(1),
            rows: common.rows.unwrap_or(draft.rows),
            seconds: common.seconds.unwrap_or(draft.seconds),
            reach,
            engines: engines.clone(),
        })
        .collect()
}

/// In the order of `EngineKind::ALL`, without those that cannot do it.
fn engines(workload: Workload, wanted: &[EngineKind]) -> Vec<EngineKind> {
    let can = |kind: &EngineKind| match workload {
        Workload::PutAsyncHandles { .. } => *kind == EngineKind::Seawall,
        // They have no log: opening is all there is.
        Workload::Recovery { .. } => !matches!(kind, EngineKind::Lmdb | EngineKind::Redb),
        Workload::Put
        | Workload::Batch { .. }
        | Workload::PutBuffered
        | Workload::Load { .. }
        | Workload::Transactions { .. }
        | Workload::Read
        | Workload::ReadCold { .. }
        | Workload::ScanFull
        | Workload::ScanShort { .. }
        | Workload::Mix { .. }
        | Workload::Beyond { .. }
        | Workload::Reopen { .. }
        | Workload::LogBytes
        | Workload::Memory => true,
    };
    let asked = |kind: &EngineKind| if wanted.is_empty() { kind.is_built() } else { wanted.contains(kind) };
    EngineKind::ALL.into_iter().filter(asked).filter(can).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command_line::CommandLine;

    fn plan_of(line: &str) -> Vec<PlannedRow> {
        let words = std::iter::once("seawall-bench").chain(line.split(' '));
        let parsed = CommandLine::try_parse_from(words).unwrap();
        plan(&parsed.command).unwrap().1
    }

    #[test]
    fn all_has_every_workload_and_a_reach_for_each_row() {
        let rows = plan_of("all");
        assert_eq!(rows.len(), 23);
        assert!(rows.iter().all(|row| row.reach.is_some()));
        let labels: std::collections::BTreeSet<String> =
            rows.iter().map(|row| row.workload.label()).collect();
        assert_eq!(labels.len(), 17);
    }

    #[test]
    fn users_threads_keep_the_reach_that_fits_them() {
        let rows = plan_of("put --threads 8,5 --rows 77 --seconds 2");
        assert_eq!((rows[0].threads, rows[0].reach), (8, Some(Reach::RatioToBestPeer(2.0))));
        assert_eq!((rows[1].threads, rows[1].reach), (5, None));
        assert!(rows.iter().all(|row| row.rows == 77 && (row.seconds - 2.0).abs() < f64::EPSILON));
    }

    #[test]
    fn beyond_memory_means_ten_times_the_cache() {
        let rows = plan_of("beyond --cache-mib 27 --engines seawall");
        assert_eq!((rows.len(), rows[0].rows), (2, 10 * (27 << 20) / 108));
        assert_eq!(plan_of("beyond --change update --rows 5")[0].rows, 5);
    }

    #[test]
    fn engines_without_a_log_have_no_recovery() {
        let rows = plan_of("recovery --engines lmdb,sqlite,seawall");
        assert_eq!(rows[0].engines, [EngineKind::Seawall, EngineKind::Sqlite]);
        let rows = plan_of("put-async-handles --engines sqlite,seawall");
        assert_eq!(rows[0].engines, [EngineKind::Seawall]);
    }
}

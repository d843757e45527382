//! What Seawall adds to the catalogs of PostgreSQL: schema `seawall` with its views and functions, the views of `pg_stat_statements`, and
//! the function that clears them.
//!
//! A row of a relation or a column is made from a row of the file that is alike: another view, another column of the same type. Numbers
//! are between the last one of PostgreSQL's and the first one that is given to users' objects, so rows stay in the order of their numbers.

use super::PG_CATALOG;
use super::file::Block;
use crate::oid::{self, Oid};

/// `pg_namespace.oid` of `seawall`.
pub const SEAWALL: Oid = 15_000;

/// The first number of a view.
const FIRST_VIEW: Oid = 15_001;
/// A view of PostgreSQL that all roles may read: rows of `pg_class` are made like it.
const VIEW_LIKE: &str = "pg_stat_wal";
/// A function of PostgreSQL that only superusers may call: the row of `pg_proc` is made like it.
const FUNCTION_LIKE: &str = "pg_stat_reset_single_table_counters";
const RESET_FUNCTION: Oid = 15_900;
const WAIT_FUNCTION: Oid = 15_901;
const LAST_COMMIT_FUNCTION: Oid = 15_902;

/// A view: its schema, its name, its columns with their types.
struct View {
    schema: Oid,
    name: &'static str,
    columns: &'static [(&'static str, Oid)],
}

const VIEWS: &[View] = &[
    View {
        schema: SEAWALL,
        name: "in_doubt",
        columns: &[
            ("gid", oid::TEXT),
            ("owner", oid::TEXT),
            ("prepared", oid::TIMESTAMPTZ),
            ("age_seconds", oid::FLOAT8),
            ("lsn", oid::PG_LSN),
            ("rows", oid::INT8),
            ("bytes", oid::INT8),
        ],
    },
    View {
        schema: SEAWALL,
        name: "checkpoints",
        columns: &[
            ("started", oid::TIMESTAMPTZ),
            ("trigger", oid::TEXT),
            ("redo_point", oid::PG_LSN),
            ("rows", oid::INT8),
            ("chunks", oid::INT8),
            ("pages_written", oid::INT8),
            ("pages_read", oid::INT8),
            ("page_file_bytes", oid::INT8),
            ("recovery_file_bytes", oid::INT8),
            ("reclaimed_tables", oid::INT8),
            ("duration_seconds", oid::FLOAT8),
            ("freeze_seconds", oid::FLOAT8),
            ("merge_seconds", oid::FLOAT8),
            ("write_seconds", oid::FLOAT8),
            ("sync_seconds", oid::FLOAT8),
            ("paused_seconds", oid::FLOAT8),
        ],
    },
    View {
        schema: SEAWALL,
        name: "segments",
        columns: &[("name", oid::TEXT), ("first_lsn", oid::PG_LSN), ("state", oid::TEXT)],
    },
    View {
        schema: SEAWALL,
        name: "holds",
        columns: &[
            ("name", oid::TEXT),
            ("kind", oid::TEXT),
            ("position", oid::PG_LSN),
            ("held_bytes", oid::INT8),
            ("limit_bytes", oid::INT8),
            ("created", oid::TIMESTAMPTZ),
            ("is_lost", oid::BOOL),
        ],
    },
    View {
        schema: SEAWALL,
        name: "throttle",
        columns: &[
            ("reason", oid::TEXT),
            ("rate_bytes_per_second", oid::INT8),
            ("delayed_ratio", oid::FLOAT8),
            ("delay_seconds_per_commit", oid::FLOAT8),
            ("delayed_commits", oid::INT8),
            ("delayed_seconds", oid::FLOAT8),
            ("memtable_fill_ratio", oid::FLOAT8),
            ("checkpoint_progress_ratio", oid::FLOAT8),
        ],
    },
    View {
        schema: SEAWALL,
        name: "log_by_table",
        columns: &[
            ("schema_name", oid::TEXT),
            ("table_name", oid::TEXT),
            ("index_name", oid::TEXT),
            ("rows", oid::INT8),
            ("bytes", oid::INT8),
        ],
    },
    View {
        schema: SEAWALL,
        name: "archives",
        columns: &[
            ("name", oid::TEXT),
            ("is_required", oid::BOOL),
            ("archived_lsn", oid::PG_LSN),
            ("lag_bytes", oid::INT8),
            ("waiting_segments", oid::INT8),
            ("uploads", oid::INT8),
            ("archived_segments", oid::INT8),
            ("archived_bytes", oid::INT8),
            ("last_success", oid::TIMESTAMPTZ),
            ("failures", oid::INT8),
            ("failing", oid::TEXT),
            ("gaps", oid::INT8),
        ],
    },
    View {
        schema: PG_CATALOG,
        name: "pg_stat_statements",
        columns: &[
            ("userid", oid::OID),
            ("dbid", oid::OID),
            ("toplevel", oid::BOOL),
            ("queryid", oid::INT8),
            ("query", oid::TEXT),
            ("plans", oid::INT8),
            ("total_plan_time", oid::FLOAT8),
            ("min_plan_time", oid::FLOAT8),
            ("max_plan_time", oid::FLOAT8),
            ("mean_plan_time", oid::FLOAT8),
            ("stddev_plan_time", oid::FLOAT8),
            ("calls", oid::INT8),
            ("total_exec_time", oid::FLOAT8),
            ("min_exec_time", oid::FLOAT8),
            ("max_exec_time", oid::FLOAT8),
            ("mean_exec_time", oid::FLOAT8),
            ("stddev_exec_time", oid::FLOAT8),
            ("rows", oid::INT8),
            ("shared_blks_hit", oid::INT8),
            ("shared_blks_read", oid::INT8),
            ("shared_blks_dirtied", oid::INT8),
            ("shared_blks_written", oid::INT8),
            ("local_blks_hit", oid::INT8),
            ("local_blks_read", oid::INT8),
            ("local_blks_dirtied", oid::INT8),
            ("local_blks_written", oid::INT8),
            ("temp_blks_read", oid::INT8),
            ("temp_blks_written", oid::INT8),
            ("blk_read_time", oid::FLOAT8),
            ("blk_write_time", oid::FLOAT8),
            ("temp_blk_read_time", oid::FLOAT8),
            ("temp_blk_write_time", oid::FLOAT8),
            ("wal_records", oid::INT8),
            ("wal_fpi", oid::INT8),
            ("wal_bytes", oid::NUMERIC),
            ("jit_functions", oid::INT8),
            ("jit_generation_time", oid::FLOAT8),
            ("jit_inlining_count", oid::INT8),
            ("jit_inlining_time", oid::FLOAT8),
            ("jit_optimization_count", oid::INT8),
            ("jit_optimization_time", oid::FLOAT8),
            ("jit_emission_count", oid::INT8),
            ("jit_emission_time", oid::FLOAT8),
        ],
    },
    View {
        schema: PG_CATALOG,
        name: "pg_stat_statements_info",
        columns: &[("dealloc", oid::INT8), ("stats_reset", oid::TIMESTAMPTZ)],
    },
];

/// Adds the rows to the blocks of the file.
pub(super) fn add_to(blocks: &mut [Block]) {
    extend(blocks, "pg_namespace", |_| {
        vec![format!("{SEAWALL}\tseawall\t10\t{{postgres=UC/postgres,=U/postgres}}")]
    });
    extend(blocks, "pg_class", |block| numbered_views().map(|view| class(block, view)).collect());
    extend(blocks, "pg_attribute", |block| {
        numbered_views().flat_map(|view| attributes(block, view)).collect()
    });
    extend(blocks, "pg_proc", |block| {
        vec![reset_function(block), wait_function(block), last_commit_function(block)]
    });
}

fn numbered_views() -> impl Iterator<Item = (Oid, &'static View)> {
    (FIRST_VIEW..).zip(VIEWS)
}

fn extend(blocks: &mut [Block], name: &str, rows: impl Fn(&Block) -> Vec<String>) {
    let block = blocks.iter_mut().find(|block| block.name == name).expect("the file has all catalogs");
    let more = rows(block);
    block.append(&more);
}

/// The row of a view in `pg_class`.
fn class(block: &Block, (number, view): (Oid, &View)) -> String {
    let row = block.line_where("relname", VIEW_LIKE);
    let count = view.columns.len();
    changed(
        block,
        row,
        &[
            ("oid", &number.to_string()),
            ("relname", view.name),
            ("relnamespace", &view.schema.to_string()),
            // Their rows have no type of their own.
            ("reltype", "0"),
            ("relnatts", &count.to_string()),
            ("_view", "\\N"),
        ],
    )
}

/// The rows of its columns in `pg_attribute`.
fn attributes(block: &Block, (number, view): (Oid, &View)) -> Vec<String> {
    let columns = view.columns.iter().zip(1..);
    columns
        .map(|((name, of), position): (_, u16)| {
            let of = of.to_string();
            let alike =
                [("atttypid", of.as_str()), ("atttypmod", "-1"), ("attnotnull", "f"), ("atthasdef", "f")];
            let row = block.line_with(&alike);
            changed(
                block,
                row,
                &[("attrelid", &number.to_string()), ("attname", name), ("attnum", &position.to_string())],
            )
        })
        .collect()
}

/// `pg_stat_statements_reset(userid, dbid, queryid)`; 0, as by default: of all.
fn reset_function(block: &Block) -> String {
    let row = block.line_where("proname", FUNCTION_LIKE);
    changed(
        block,
        row,
        &[
            ("oid", &RESET_FUNCTION.to_string()),
            ("proname", "pg_stat_statements_reset"),
            ("pronargs", "3"),
            ("pronargdefaults", "3"),
            ("proargtypes", "26 26 20"),
            ("proargnames", "{userid,dbid,queryid}"),
            ("prosrc", "pg_stat_statements_reset"),
            ("_defaults", "{0,0,0}"),
        ],
    )
}

/// `seawall.wait_for_lsn(lsn, timeout_ms)`; 0, as by default: without a limit.
fn wait_function(block: &Block) -> String {
    let row = block.line_where("proname", "pg_sleep");
    changed(
        block,
        row,
        &[
            ("oid", &WAIT_FUNCTION.to_string()),
            ("proname", "wait_for_lsn"),
            ("pronamespace", &SEAWALL.to_string()),
            ("pronargs", "2"),
            ("pronargdefaults", "1"),
            ("prorettype", &oid::BOOL.to_string()),
            ("proargtypes", "3220 20"),
            ("proargnames", "{lsn,timeout_ms}"),
            ("prosrc", "seawall_wait_for_lsn"),
            ("_defaults", "{0}"),
        ],
    )
}

/// `seawall.last_commit_lsn()`.
fn last_commit_function(block: &Block) -> String {
    let row = block.line_where("proname", "pg_current_wal_lsn");
    changed(
        block,
        row,
        &[
            ("oid", &LAST_COMMIT_FUNCTION.to_string()),
            ("proname", "last_commit_lsn"),
            ("pronamespace", &SEAWALL.to_string()),
            ("prosrc", "seawall_last_commit_lsn"),
        ],
    )
}

/// A line with other values in some columns.
fn changed(block: &Block, line: &str, values: &[(&str, &str)]) -> String {
    let mut fields: Vec<&str> = line.split('\t').collect();
    for (column, value) in values {
        fields[block.position(column)] = value;
    }
    fields.join("\t")
}

#[cfg(test)]
mod tests {
    use super::super::system;
    use super::*;

    /// Rows are looked up by their numbers, which have to be in order; and no number is used twice.
    #[test]
    fn numbers_stay_in_order() {
        for name in ["pg_namespace", "pg_class", "pg_attribute", "pg_proc"] {
            let block = system().block(name).unwrap();
            let numbers: Vec<Oid> =
                block.rows().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "{name}");
            let is_unique = numbers.windows(2).all(|pair| pair[0] != pair[1]);
            assert!(is_unique || name == "pg_attribute", "{name}");
        }
    }

    #[test]
    fn functions_have_arguments_and_defaults() {
        let [reset] = system().functions_named("pg_stat_statements_reset") else { panic!("one function") };
        assert_eq!((reset.oid, reset.defaults, reset.arguments.len()), (RESET_FUNCTION, 3, 3));
        assert_eq!(reset.result, oid::VOID);
        let [wait] = system().functions_in(SEAWALL, "wait_for_lsn") else { panic!("one function") };
        assert_eq!((wait.oid, wait.defaults, wait.result), (WAIT_FUNCTION, 1, oid::BOOL));
        assert_eq!(wait.arguments, [oid::PG_LSN, oid::INT8]);
    }
}

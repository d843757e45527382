//! Plans as they are shown.

use seawall_sql::algebra::{JoinKind, SubqueryKind};
use seawall_sql::execute::{Counting, Environment, Execution, ExplainOptions, Limits, explain, explain_json};
use seawall_values::{Datum, Settings};

use crate::algebra::{
    BOOL, and, column, equal, filter, int, join, key, less, limit, planned, scan, sort, subquery, table,
};
use crate::memory_storage::MemoryStorage;

const SHORT: ExplainOptions = ExplainOptions { has_costs: false, is_verbose: false };

#[test]
fn a_plan_is_shown_as_postgresql_shows_it() {
    let (one, other) = (table(1, 2, 1), table(2, 2, 0));
    let left = filter(scan(&one, 1), less(column(2), int(5)));
    let condition = and(vec![equal(column(1), column(101)), less(column(2), column(102))]);
    let relation =
        limit(sort(join(JoinKind::Left, scan(&other, 101), left, condition), &[key(102, true)]), 3, 0);
    let lines = explain(&planned(relation, &[101, 2]), None, SHORT, &Settings::default());
    assert_eq!(
        lines,
        [
            "Limit",
            "  ->  Sort",
            "        Sort Key: t2.c1 DESC",
            "        ->  Hash Left Join",
            "              Hash Cond: (t2.c0 = t1.c0)",
            "              Join Filter: (t1.c1 < t2.c1)",
            "              ->  Seq Scan on t2",
            "              ->  Hash",
            "                    ->  Seq Scan on t1",
            "                          Filter: (t1.c1 < 5)",
        ]
    );
}

#[test]
fn a_key_and_a_subquery_are_shown() {
    let (one, other) = (table(1, 2, 1), table(2, 2, 0));
    let inner = subquery(SubqueryKind::Exists, scan(&other, 101), &[101], BOOL);
    let relation = filter(scan(&one, 1), and(vec![equal(column(1), int(5)), inner]));
    let lines = explain(&planned(relation, &[1]), None, SHORT, &Settings::default());
    assert_eq!(
        lines,
        [
            "Index Scan using t1_pkey on t1",
            "  Index Cond: (c0 = 5)",
            "  Filter: (SubPlan 1)",
            "  InitPlan 1",
            "    ->  Seq Scan on t2",
        ]
    );
}

#[test]
fn counters_say_what_each_node_did() {
    let one = table(1, 2, 1);
    let mut storage = MemoryStorage::default();
    storage.fill(&one, (0..10).map(|n| vec![Datum::Int4(n), Datum::Int4(n)]));
    let plan = planned(filter(scan(&one, 1), less(column(2), int(4))), &[1]);
    let mut execution = Execution::open(plan.clone(), Vec::new(), Limits::default(), Counting::Rows);
    let settings = Settings::default();
    let cancel = seawall_engine::CancelToken::default();
    let mut environment = Environment { storage: &mut storage, settings: &settings, cancel: &cancel };
    while execution.next(&mut environment).expect("rows") {}
    let lines = explain(&plan, Some(&execution), SHORT, &settings);
    assert_eq!(lines[0], "Seq Scan on t1 (actual rows=4 loops=1)");
    let json = explain_json(&plan, Some(&execution), SHORT, &settings);
    assert!(json.contains("\"Node Type\": \"Seq Scan on t1\""), "{json}");
    assert!(json.contains("\"Actual Rows\": 4"), "{json}");
}

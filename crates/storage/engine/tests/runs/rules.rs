//! A test for each of the rules in the engine's module `runs`, named `r1` to `r6`.

use super::{LOADED, Model, Rows, crash_everywhere, crashed, expect_rows, key, options, without_runs};

#[test]
fn r1_a_younger_run_hides_an_older_one() {
    let mut model = Model::loaded(2, options());
    for round in 2..7 {
        model.change_sparsely(round);
        // In each of them, and deleted in one.
        if round == 4 {
            model.delete(77)
        } else {
            model.put(77, vec![round; 10])
        }
        assert!(model.checkpoint().run_rows > 0);
        assert_eq!(model.runs().count, u64::from(round) - 1);
        model.check(&format!("round {round}"));
    }
    let model = model.lose_power(options());
    assert_eq!(model.runs().count, 5);
    model.check("after a power loss");
}

#[test]
fn r2_nothing_is_merged_in_place_below_a_run() {
    let mut model = Model::loaded(3, options());
    model.change_sparsely(2);
    model.checkpoint();
    // Few rows, which would go directly if they were not in a run.
    (0..10).for_each(|step| model.put(step * 13 + 6, vec![3; 40]));
    assert_eq!((model.checkpoint().run_rows, model.runs().count), (10, 2));
    model.check("few");
    // All of them, which is dense.
    (0..LOADED).for_each(|number| model.put(number, vec![4; 200]));
    let dense = model.checkpoint();
    assert!(dense.run_rows > 0, "{dense:?}");
    model.check("dense");
    // Where runs are gone, it is direct again.
    let model = model.lose_power(without_runs());
    model.checkpoint();
    assert_eq!(model.runs().count, 0);
    model.check("settled");
}

#[test]
fn r3_a_snapshot_sees_the_same_before_and_after_each_merge() {
    let two = options().with(|options| options.checkpoint.runs.run_count = 2);
    let mut model = Model::loaded(4, two.clone());
    let mut kept = Vec::new();
    for round in 2..12_u8 {
        model.change_sparsely(round);
        if round % 3 != 0 {
            kept.push((model.database.snapshot(), model.rows.clone(), round));
        }
        // Some changes that the snapshot does not see are in the run, too.
        (0..20).for_each(|step| model.put(step * 90, vec![round; 30]));
        model.checkpoint();
        for (snapshot, rows, taken) in &kept {
            expect_rows(snapshot, &model.table, rows, &format!("round {round}, of {taken}"));
        }
        if round % 4 == 0 {
            kept.remove(0);
        }
        model.check(&format!("round {round}"));
    }
    assert!(model.runs().count > 2, "runs that a snapshot is older than stay: {:?}", model.runs());
    kept.clear();
    model.change_sparsely(20);
    model.checkpoint();
    assert_eq!(model.runs().count, 1, "all of them were merged, and then one was written");
    model.check("without snapshots");
    let mut model = model.lose_power(two);
    model.change_sparsely(21);
    model.checkpoint();
    model.check("after a power loss");
}

#[test]
fn r4_a_run_is_listed_with_the_redo_point() {
    let (base, rows) = crashed(5, 1);
    let before = {
        let model = Model::reopen(base.copy(), options(), rows.clone());
        let redo_point = model.database.statistics().checkpoints.redo_point;
        model.disk.crash();
        redo_point
    };
    let (mut with, mut without) = (0, 0);
    crash_everywhere(&base, &rows, &options(), |model, what| {
        let statistics = model.database.statistics();
        if statistics.checkpoints.redo_point == before {
            assert_eq!(statistics.runs.count, 1, "{what}");
            without += 1;
        } else {
            assert_eq!(statistics.runs.count, 2, "{what}");
            with += 1;
        }
    });
    assert!(with > 0 && without > 5, "{with} with the run, {without} without it");
}

#[test]
fn r5_a_crash_between_leaves_equal_copies() {
    let (base, rows) = crashed(6, 3);
    let mut counts = [0; 5];
    crash_everywhere(&base, &rows, &without_runs(), |model, _| {
        counts[usize::try_from(model.runs().count).unwrap()] += 1;
    });
    // Before; with one more, for rows that older runs have, too; after their merge.
    assert!(counts[3] > 5 && counts[4] > 0 && counts[0] > 0, "{counts:?}");
}

#[test]
fn r6_loads_go_where_no_run_has_a_row() {
    let mut model = Model::loaded(7, options());
    let load_rows = |name: &str, model: &Model, sorted: bool| {
        let mut load = model.database.tables().bulk_load(name).unwrap();
        for number in 0..600_u32 {
            let number = if sorted { number } else { (number * 7) % 600 };
            load.add(key(number), vec![5; 100]).unwrap();
        }
        load
    };
    // Begun before the run is written, and ended after it.
    let mut first = load_rows("first", &model, true);
    let mut second = load_rows("second", &model, false);
    model.change_sparsely(2);
    assert!(model.checkpoint().run_rows > 0);
    let loaded = [first.finish().unwrap(), second.finish().unwrap()];
    let all: Rows = (0..600).map(|number| (key(number), vec![5; 100])).collect();
    for table in &loaded {
        expect_rows(&model.database.snapshot(), table, &all, table.name());
    }
    // Rows of these tables in runs, and then in a new storage.
    for step in 0..100 {
        for table in &loaded {
            model.database.put(table, key(step * 6), "changed").unwrap();
        }
    }
    model.change_sparsely(3);
    assert!(model.checkpoint().run_rows > 200);
    model.database.tables().truncate("first").unwrap();
    model.database.put(&loaded[0], "after", "it").unwrap();
    model.database.tables().drop("second").unwrap();
    let mut again = load_rows("second", &model, true);
    model.checkpoint();
    let again = again.finish().unwrap();
    expect_rows(&model.database.snapshot(), &again, &all, "second, again");
    model.checkpoint();
    let first = model.database.table("first").unwrap();
    assert_eq!(model.database.snapshot().rows(&first).count(), 1);
    model.check("at the end");
}

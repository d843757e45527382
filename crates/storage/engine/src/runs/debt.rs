//! Which window is merged next, and when: runs may have a share of the main part's leaves, and the windows with the most run leaves for
//! each leaf of their own go first. So with a quarter of the tree in runs, a window that is merged has twice that. A row that a run deletes
//! counts as if it was in the run: what is deleted gives its space back about as soon as it would be filled again.
//!
//! ```text
//!   windows by key   [ 2000 leaves | 40 of runs ][ 1900 | 700 ][ 2010 | 90 ] ...
//!                                                     ^ next
//! ```
//! Windows and merges of runs into one (`tier`) take turns. Writers are slowed by the larger of two debts, of leaves in runs and of runs
//! (`pacing::run_debt`). So where runs are too many rather than too large, merges of runs into one go first, until both debts are equal.
//!
//! The table of windows (`window_table`) is read before the first merge, and kept up to date: a run adds its leaves once no snapshot is older
//! than it.

use std::sync::Arc;

use seawall_tree::{StoredRun, TreeError};

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::first_user_key;
use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::run_debt::{RunFill, runs_usual};
use crate::runs::run::Run;
use crate::runs::slice::{Aim, Slice};
use crate::runs::window_table::WindowTable;

impl Engine {
    /// Merges a slice of runs that are to become one, or else the window that is due most, if there are such. For who has the turn to change
    /// the tree.
    ///
    /// # Errors
    /// As `merge_window`.
    pub(crate) fn merge_slice(
        &self,
        state: &mut CheckpointState,
        aim: Aim,
        totals: &mut Totals,
    ) -> Result<Slice, Error> {
        let runs = self.runs_to_merge();
        if runs.is_empty() {
            state.windows = None;
            return Ok(Slice::Nothing);
        }
        let options = &self.options.checkpoint.runs;
        let percent = match aim {
            Aim::Share => u64::from(options.run_percent),
            Aim::NoRuns => 0,
        };
        // Where all runs are to go it would be work for nothing, unless checkpoints add more of them meanwhile.
        let usual = runs_usual(options.fan_in.into(), options.run_count.into());
        let may_merge_runs = percent > 0 || runs.len() as u64 > usual;
        // Where the table of windows was lost, a window reads it anew, and a merge of runs does not.
        let may_wait = state.are_too_many_runs && state.windows.is_some();
        let is_window_first = state.last_slice == Slice::Tier && !may_wait;
        if may_merge_runs && !is_window_first && self.try_tier_slice(state, totals) == Slice::Tier {
            return Ok(Slice::Tier);
        }
        // Before it is tried: one that fails leaves the next turn to the other.
        state.last_slice = Slice::Window;
        let merged = self.merge_window_due(state, &runs, percent, totals);
        let has_merged = matches!(merged, Ok(Slice::Window));
        if !has_merged
            && may_merge_runs
            && is_window_first
            && self.try_tier_slice(state, totals) == Slice::Tier
        {
            if let Err(error) = merged {
                tracing::error!(%error, "merging a window failed; it will be tried again");
            }
            return Ok(Slice::Tier);
        }
        merged
    }

    fn try_tier_slice(&self, state: &mut CheckpointState, totals: &mut Totals) -> Slice {
        let merged = self.merge_tier_slice(state, totals).unwrap_or_else(|error| {
            // Windows end runs, too, and may need other pages. What stops them as well is the caller's to report.
            tracing::error!(%error, "merging runs into one failed; it will be tried again");
            Slice::Nothing
        });
        if merged == Slice::Tier {
            state.last_slice = merged;
        }
        merged
    }

    /// Merges the window that has the largest share of `runs`, if these have more than `percent` of the leaves of the main part.
    fn merge_window_due(
        &self,
        state: &mut CheckpointState,
        runs: &[Arc<Run>],
        percent: u64,
        totals: &mut Totals,
    ) -> Result<Slice, Error> {
        let failed = |error| Error::tree(&error);
        let mut table = self.windows_with(state.windows.take(), runs).map_err(failed)?;
        let (tree_leaves, weight) = table.weights();
        let due = if weight * 100 > percent * tree_leaves { table.fullest() } else { None };
        let Some(index) = due else {
            state.windows = Some(table);
            if percent == 0 {
                // Rows in windows that the leaf of a run only reaches into, where it was not counted.
                if let Some(window) = self.window_from(&first_user_key())? {
                    self.merge_window(window, totals)?;
                    return Ok(Slice::Window);
                }
                self.strike_off_emptied(totals)?;
            }
            return Ok(Slice::Nothing);
        };
        let mut window = table.range_of(index);
        if table.has_far_too_many_leaves(index) {
            // Changes of many checkpoints have come to lie in a few pages of the main part: only the beginning.
            let stored: Vec<StoredRun> = runs.iter().map(|run| run.stored()).collect();
            let window_bytes = self.options.checkpoint.chunk_bytes;
            window = self.tree.window_at(window, &stored, window_bytes).map_err(failed)?.range;
        }
        self.merge_window(window.clone(), totals)?;
        table.merged(&self.tree, runs, index, &window.end).map_err(failed)?;
        state.windows = Some(table);
        Ok(Slice::Window)
    }

    /// Tells the pace of writers how many runs there are by now, and how large they are. For who has the turn to change the tree.
    pub(crate) fn note_runs(&self, state: &mut CheckpointState) {
        let runs = self.runs_to_merge();
        let options = &self.options.checkpoint.runs;
        if runs.is_empty() {
            (state.are_too_many_runs, state.counted_leaves) = (false, (0, 0));
            return self.pacing.note_runs(&RunFill::default(), || self.fill());
        }
        // Where the table is to be read anew, the next merge does that: here it would make a checkpoint longer.
        let kept_up = state.windows.take().map(|mut table| table.keep_up(&self.tree, &runs).map(|()| table));
        if let Some(Ok(table)) = kept_up {
            state.counted_leaves = table.weights();
            state.windows = Some(table);
        }
        let (tree_leaves, leaves) = match state.counted_leaves {
            // A leaf that cannot be read is for those to report who need its rows.
            (0, _) => self.estimated_leaves(&runs).unwrap_or_default(),
            counted => counted,
        };
        let fill = RunFill {
            leaves,
            tree_leaves,
            memtable_leaves: self.options.memory.memtable_bytes / self.tree.format().page_bytes() as u64,
            count: runs.len() as u64,
            run_percent: u64::from(options.run_percent),
            fan_in: u64::from(options.fan_in),
            run_count: u64::from(options.run_count),
        };
        state.are_too_many_runs = fill.is_mostly_of_count();
        self.pacing.note_runs(&fill, || self.fill());
    }

    /// Leaves of the main part and of runs, about, before the table of windows is read for the first time: writers should not find out then
    /// that they were too fast.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, and never negative"
    )]
    fn estimated_leaves(&self, runs: &[Arc<Run>]) -> Result<(u64, u64), Error> {
        let (first, end) = (first_user_key(), first_local_key());
        let leaves = |from: &[u8], to: &[u8]| {
            let leaves = self.tree.estimate_leaves(from, to).map_err(|error| Error::tree(&error))?;
            Ok::<u64, Error>(leaves as u64)
        };
        let of_runs = runs.iter().map(|run| leaves(&run.key_of(&first), &run.key_of(&end)));
        Ok((leaves(&first, &end)?, of_runs.sum::<Result<u64, Error>>()?))
    }

    /// The table of windows with the leaves of `runs`, of which those that are in it are counted already.
    fn windows_with(&self, table: Option<WindowTable>, runs: &[Arc<Run>]) -> Result<WindowTable, TreeError> {
        let Some(mut table) = table.filter(|table| !table.is_worn()) else {
            let window_leaves = self.options.checkpoint.chunk_bytes / self.tree.format().page_bytes() as u64;
            return WindowTable::read(&self.tree, runs, window_leaves.max(1));
        };
        table.keep_up(&self.tree, runs)?;
        Ok(table)
    }

    /// What merges aim at now.
    pub(crate) fn aim_of_merges(&self, state: &CheckpointState) -> Aim {
        let are_wanted = self.options.checkpoint.runs.run_percent > 0;
        if are_wanted && !self.is_idle(state) { Aim::Share } else { Aim::NoRuns }
    }

    /// Whether the database was left alone for so long that runs are merged although there are few.
    fn is_idle(&self, state: &CheckpointState) -> bool {
        let view = self.view();
        let since = self.clock().monotonic().saturating_sub(state.last_end);
        view.is_active_empty() && view.unmerged().is_none() && since >= self.options.checkpoint.interval
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::ErrorKind;

    use seawall_simulation::{
        Fault, FaultError, FaultTarget, Operations, PowerLoss, SeededRandom, SimulatedDisk, seeds,
    };

    use super::*;
    use seawall_types::TableId;

    use crate::database::Database;
    use crate::row_key;
    use crate::runs::fences::Fences;
    use crate::runs::testing::{checkpoint_into_run, open_on, open_with};

    const ROWS: u64 = 4_000;

    struct Loaded {
        database: Database,
        table: crate::Table,
        rows: BTreeMap<Vec<u8>, Vec<u8>>,
    }

    impl Loaded {
        fn new(seed: u64, run_percent: u32) -> Loaded {
            Loaded::on(&SimulatedDisk::new(seed), run_percent)
        }

        fn on(disk: &SimulatedDisk, run_percent: u32) -> Loaded {
            Loaded::of(open_with(disk, run_percent))
        }

        fn of(opened: Result<Database, Error>) -> Loaded {
            let database = opened.unwrap();
            let mut load = database.tables().bulk_load("t").unwrap();
            let mut rows = BTreeMap::new();
            for number in 0..ROWS {
                load.add(number.to_be_bytes(), [1; 150]).unwrap();
                rows.insert(number.to_be_bytes().to_vec(), vec![1; 150]);
            }
            let table = load.finish().unwrap();
            database.checkpoint().unwrap();
            Loaded { database, table, rows }
        }

        /// Changes some rows, of which most are in a tenth of the table.
        fn change(&mut self, random: &mut SeededRandom, count: u64) {
            for _ in 0..count {
                let number = if random.chance(2, 3) { random.below(ROWS / 10) } else { random.below(ROWS) };
                let key = number.to_be_bytes().to_vec();
                let value = vec![7; usize::try_from(random.below(150)).unwrap()];
                self.database.put(&self.table, &key, &value).unwrap();
                self.rows.insert(key, value);
            }
        }

        fn expect_rows(&self, what: &str) {
            let found = self.database.snapshot();
            let found: BTreeMap<_, _> = found.rows(&self.table).map(Result::unwrap).collect();
            assert!(found == self.rows, "{what}");
            let summary = self.database.check(&mut |damage| panic!("{what}: {damage}")).unwrap();
            assert_eq!(summary.damages, 0);
        }
    }

    /// Leaves of the main part from the first key of users on, and of runs, but for those that begin before their first row.
    fn counted(engine: &Engine) -> (u64, u64) {
        let tree = &engine.tree;
        let mut sources = vec![Fences::begin(tree, &[], &first_user_key()).unwrap()];
        for run in engine.view().runs.iter() {
            sources.push(Fences::begin(tree, &run.prefix(), &first_user_key()).unwrap());
        }
        let counts: Vec<u64> = sources
            .iter_mut()
            .map(|fences| (0..).find(|_| fences.take().unwrap().is_none()).unwrap())
            .collect();
        (counts[0] + 1, counts[1..].iter().sum())
    }

    #[test]
    fn the_table_of_windows_counts_each_leaf_but_for_some_at_borders() {
        for seed in seeds(10) {
            let mut random = SeededRandom::new(seed);
            let mut loaded = Loaded::new(seed, 100);
            let window_leaves = 1 + random.below(40);
            let tree = Arc::clone(&loaded.database.engine().tree);
            let mut table = WindowTable::read(&tree, &[], window_leaves).unwrap();
            for _ in 0..random.below(4) {
                let count = 1 + random.below(700);
                loaded.change(&mut random, count);
                checkpoint_into_run(loaded.database.engine(), 0);
                let newest = loaded.database.engine().view().runs[0].clone();
                table.add(&tree, &newest).unwrap();
            }
            let engine = loaded.database.engine();
            // Where a run begins or ends, what comes beside it later may move the fence.
            let borders = engine.view().runs.len() as u64 + 1;
            let ((tree_leaves, run_leaves), (counted_tree, counted_runs)) = (table.leaves(), counted(engine));
            assert!(tree_leaves.abs_diff(counted_tree) <= 1, "seed {seed}: {tree_leaves}, {counted_tree}");
            assert!(
                run_leaves.abs_diff(counted_runs) <= borders,
                "seed {seed}: {run_leaves}, {counted_runs}"
            );
            let again = WindowTable::read(&tree, &engine.view().runs, window_leaves).unwrap();
            for window in &again.windows {
                assert!(window.tree_leaves <= window_leaves, "seed {seed}: {window:?}");
                assert!(window.run_leaves <= 2 * window_leaves, "seed {seed}: {window:?}");
            }
            // A window that begins with a leaf of a run counts a leaf of the main part twice.
            let twice = again.windows.iter().filter(|window| window.run_leaves > 0).count() as u64;
            let ((tree_leaves, run_leaves), (counted_tree, counted_runs)) = (again.leaves(), counted(engine));
            assert_eq!(run_leaves, counted_runs, "seed {seed}");
            assert!((counted_tree..=counted_tree + twice).contains(&tree_leaves), "seed {seed}");
        }
    }

    /// Also where the leaves of the run that delete rows are few beside those that do not: those of another table.
    #[test]
    fn rows_that_a_run_deletes_weigh_as_much_as_in_the_main_part() {
        let loaded = Loaded::new(1, 100);
        let engine = loaded.database.engine();
        let mut load = loaded.database.tables().bulk_load("other").unwrap();
        (0..ROWS).for_each(|number| load.add(number.to_be_bytes(), [1; 150]).unwrap());
        let other = load.finish().unwrap();
        loaded.database.checkpoint().unwrap();
        let mut kept = WindowTable::read(&engine.tree, &[], 20).unwrap();
        for number in (ROWS / 2..ROWS).filter(|number| number % 2 == 0) {
            loaded.database.delete(&loaded.table, number.to_be_bytes()).unwrap();
            if number % 8 == 0 {
                loaded.database.put(&other, number.to_be_bytes(), [2; 150]).unwrap();
            }
        }
        checkpoint_into_run(engine, 0);
        let runs = engine.view().runs.clone();
        kept.add(&engine.tree, &runs[0]).unwrap();
        for mut table in [kept, WindowTable::read(&engine.tree, &runs, 20).unwrap()] {
            let ((tree_leaves, run_leaves), (_, weight)) = (table.leaves(), table.weights());
            let deleted_leaves = weight - run_leaves;
            // An eighth of the rows; the first leaf of the run counts for nothing, and one that deletes may begin in another window.
            assert!((tree_leaves / 16..tree_leaves / 6).contains(&deleted_leaves), "{table:?}");
            let fullest = table.range_of(table.fullest().unwrap());
            let of_table = row_key::table_range(TableId::new(loaded.table.id()));
            assert!(fullest.start < of_table.1, "not where rows are deleted: {fullest:?}");
            table.take_out(&engine.tree, &runs[0], (&[], None)).unwrap();
            assert_eq!(table.weights(), (tree_leaves, 0), "nothing is left of what a run counted for");
        }
    }

    #[test]
    fn a_table_of_windows_that_have_lost_most_of_their_leaves_is_read_anew() {
        let loaded = Loaded::new(2, 100);
        let engine = loaded.database.engine();
        let mut worn = WindowTable::read(&engine.tree, &[], 10).unwrap();
        assert!(!worn.is_worn() && worn.windows.len() > 8);
        worn.window_leaves = 50;
        assert!(worn.is_worn());
        checkpoint_into_run_of(&loaded);
        let runs = engine.view().runs.clone();
        let again = engine.windows_with(Some(worn), &runs).unwrap();
        assert!(!again.is_worn(), "{again:?}");
    }

    fn checkpoint_into_run_of(loaded: &Loaded) {
        loaded.database.put(&loaded.table, "k", "v").unwrap();
        checkpoint_into_run(loaded.database.engine(), 0);
    }

    #[test]
    fn runs_are_merged_down_to_their_share_and_the_fullest_windows_first() {
        let mut random = SeededRandom::new(1);
        let mut loaded = Loaded::new(1, 10);
        let mut most = 0;
        for round in 0..12 {
            loaded.change(&mut random, 260);
            let statistics = loaded.database.checkpoint().unwrap();
            assert!(statistics.run_rows > 0, "{statistics:?}");
            let engine = loaded.database.engine();
            let (tree_leaves, run_leaves) = counted(engine);
            let at_borders = engine.view().runs.len() as u64;
            assert!(
                (run_leaves - at_borders.min(run_leaves)) * 100 <= tree_leaves * 10,
                "round {round}: {run_leaves} of {tree_leaves}"
            );
            most = most.max(run_leaves);
            loaded.expect_rows(&format!("round {round}"));
        }
        assert!(most > 5, "no more than {most} leaves in runs");
    }

    #[test]
    fn a_read_that_fails_in_a_checkpoint_or_a_window_costs_no_row() {
        let mut random = SeededRandom::new(3);
        let base = SimulatedDisk::new(3);
        let mut loaded = Loaded::on(&base, 100);
        for _ in 0..3 {
            loaded.change(&mut random, 260);
            loaded.database.checkpoint().unwrap();
        }
        loaded.database.put(&loaded.table, "last", "change").unwrap();
        loaded.rows.insert(b"last".to_vec(), b"change".to_vec());
        base.crash();
        let Loaded { database, table, rows } = loaded;
        drop((table, database));
        let base = base.after_power_loss(PowerLoss::LoseAll);
        let mut failed = 0;
        for skip in (0..).step_by(3) {
            let disk = base.copy();
            let database = open_with(&disk, 10).unwrap();
            let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Reads };
            disk.inject(Fault { target, error: FaultError::Kind(ErrorKind::Other), skip, count: 1 });
            let result = database.checkpoint();
            let has_struck = !disk.take_faults_struck().is_empty();
            disk.clear_faults();
            failed += u32::from(result.is_err());
            // What failed may have stopped the database: the next open recovers.
            drop(database);
            let database = open_with(&disk, 10).unwrap();
            let table = database.table("t").unwrap();
            let loaded = Loaded { database, table, rows: rows.clone() };
            loaded.database.checkpoint().unwrap();
            loaded.expect_rows(&format!("read {skip} fails"));
            if !has_struck {
                break;
            }
        }
        assert!(failed > 0, "no read was met");
    }

    #[test]
    fn an_idle_database_merges_all_its_runs() {
        let mut random = SeededRandom::new(2);
        let mut loaded = Loaded::new(2, 100);
        for _ in 0..3 {
            loaded.change(&mut random, 260);
            loaded.database.checkpoint().unwrap();
        }
        let snapshot = loaded.database.snapshot();
        loaded.change(&mut random, 260);
        loaded.database.checkpoint().unwrap();
        let engine = loaded.database.engine();
        let mut state = engine.checkpoint_turn.take();
        while engine.merge_slice(&mut state, Aim::NoRuns, &mut Totals::default()).unwrap() == Slice::Window {}
        assert_eq!(engine.view().runs.len(), 1, "a snapshot is older than the last one");
        drop(snapshot);
        while engine.merge_slice(&mut state, Aim::NoRuns, &mut Totals::default()).unwrap() == Slice::Window {}
        assert_eq!(engine.view().runs.len(), 0);
        assert_eq!(engine.redo.superblock().run_count, 0);
        drop(state);
        loaded.expect_rows("idle");
    }

    /// A merge of large runs takes long: windows go on meanwhile, and the other way round.
    #[test]
    fn windows_and_slices_of_runs_take_turns() {
        let mut loaded = Loaded::of(open_on(Arc::new(SimulatedDisk::new(3)), |options| {
            options.checkpoint.chunk_bytes = 16 << 10;
            (options.checkpoint.runs.run_percent, options.checkpoint.runs.fan_in) = (5, 3);
        }));
        let mut random = SeededRandom::new(3);
        // None is larger than the younger ones together.
        for count in [600, 700, 800] {
            loaded.change(&mut random, count);
            checkpoint_into_run(loaded.database.engine(), 0);
        }
        let engine = loaded.database.engine();
        let mut state = engine.checkpoint_turn.take();
        let mut merge = || engine.merge_slice(&mut state, Aim::Share, &mut Totals::default()).unwrap();
        let slices: Vec<Slice> = (0..6).map(|_| merge()).collect();
        assert_eq!(slices, [Slice::Tier, Slice::Window].repeat(3));
        while merge() != Slice::Nothing {}
        drop(state);
        loaded.expect_rows("in turns");
    }

    /// The larger debt is paid first: writers are slowed by it, and windows do not reduce the number of runs.
    #[test]
    fn where_runs_are_too_many_they_become_one_first() {
        let mut loaded = Loaded::of(open_on(Arc::new(SimulatedDisk::new(3)), |options| {
            options.checkpoint.chunk_bytes = 16 << 10;
            let runs = &mut options.checkpoint.runs;
            (runs.run_percent, runs.fan_in, runs.run_count) = (5, 3, 4);
        }));
        let mut random = SeededRandom::new(3);
        for count in [600, 700, 800, 900] {
            loaded.change(&mut random, count);
            checkpoint_into_run(loaded.database.engine(), 0);
        }
        let engine = loaded.database.engine();
        let mut state = engine.checkpoint_turn.take();
        state.windows = Some(WindowTable::read(&engine.tree, &engine.view().runs, 20).unwrap());
        // As the thread does it that merges.
        let mut merge = || {
            engine.note_runs(&mut state);
            engine.merge_slice(&mut state, Aim::Share, &mut Totals::default()).unwrap()
        };
        let mut slices = 0;
        while engine.view().runs.len() > 3 {
            assert_eq!(merge(), Slice::Tier, "slice {slices}");
            slices += 1;
        }
        assert!(slices > 3, "{slices}");
        // No more than usual: now the other debt counts.
        assert_eq!(merge(), Slice::Window);
        while merge() != Slice::Nothing {}
        drop(state);
        loaded.expect_rows("runs first");
    }

    /// The first merge reads the table of windows; writers that were let go until then would overtake it.
    #[test]
    fn the_debt_of_the_first_runs_is_known_before_windows_are() {
        let mut loaded = Loaded::new(6, 5);
        loaded.change(&mut SeededRandom::new(6), 2_000);
        let engine = loaded.database.engine();
        checkpoint_into_run(engine, 0);
        let mut state = engine.checkpoint_turn.take();
        engine.note_runs(&mut state);
        assert!(state.windows.is_none());
        assert!(engine.pacing.run_debt() > 0.0);
        let runs = engine.view().runs.clone();
        let (tree_leaves, run_leaves) = engine.estimated_leaves(&runs).unwrap();
        let (tree_counted, runs_counted) = WindowTable::read(&engine.tree, &runs, 20).unwrap().leaves();
        // Pages on the paths to both ends may be less full than those between.
        let is_near = |one: u64, other: u64| one.abs_diff(other) <= other / 2;
        assert!(is_near(tree_leaves, tree_counted), "{tree_leaves}, counted {tree_counted}");
        assert!(is_near(run_leaves, runs_counted), "{run_leaves}, counted {runs_counted}");
        assert!(run_leaves > 10, "{run_leaves}");
    }

    /// Rows of several checkpoints that belong between two rows of the main part are merged by chunks, and not all in one.
    #[test]
    fn a_window_with_far_too_many_leaves_is_merged_in_parts() {
        let mut loaded = Loaded::of(open_on(Arc::new(SimulatedDisk::new(5)), |options| {
            options.checkpoint.chunk_bytes = 16 << 10;
            options.checkpoint.runs.run_percent = 5;
        }));
        let merge = |loaded: &Loaded| {
            let (engine, mut totals) = (loaded.database.engine(), Totals::default());
            let mut state = engine.checkpoint_turn.take();
            let slice = engine.merge_slice(&mut state, Aim::Share, &mut totals).unwrap();
            (slice, totals.written_bytes())
        };
        // The table of windows is read with this one.
        loaded.change(&mut SeededRandom::new(5), 5);
        checkpoint_into_run(loaded.database.engine(), 0);
        assert_eq!(merge(&loaded).0, Slice::Nothing);
        for round in 0..3_u64 {
            for number in 0..1_000_u64 {
                let key = [7_u64.to_be_bytes(), (number * 3 + round).to_be_bytes()].concat();
                loaded.database.put(&loaded.table, &key, [2; 150]).unwrap();
                loaded.rows.insert(key, vec![2; 150]);
            }
            checkpoint_into_run(loaded.database.engine(), 0);
        }
        let (mut windows, mut most) = (0, 0);
        loop {
            let (slice, written_bytes) = merge(&loaded);
            if slice == Slice::Nothing {
                break;
            }
            windows += 1;
            most = most.max(written_bytes);
        }
        assert!(windows > 10 && most < 50 * 4096, "{windows} windows, of {most} bytes at most");
        loaded.expect_rows("in parts");
    }

    /// Runs that are not wanted any more go, window by window.
    #[test]
    fn without_a_share_runs_are_merged_to_the_last() {
        let mut loaded = Loaded::new(4, 100);
        let mut random = SeededRandom::new(4);
        for _ in 0..2 {
            loaded.change(&mut random, 300);
            checkpoint_into_run(loaded.database.engine(), 0);
        }
        loaded.change(&mut random, 300);
        let engine = loaded.database.engine();
        let mut state = engine.checkpoint_turn.take();
        while engine.merge_slice(&mut state, Aim::NoRuns, &mut Totals::default()).unwrap() != Slice::Nothing {
        }
        drop(state);
        assert_eq!(engine.view().runs.len(), 0);
        loaded.expect_rows("without runs");
    }
}

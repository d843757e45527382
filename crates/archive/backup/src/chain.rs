//! The rows of an increment and of what it builds on.
//!
//! ```text
//!   increment  rows      [f]            [s t]          what has changed
//!              kept  [a-d]  [k ------ p]      [x-z]    of which it has what its parent has
//!   parent     rows  [a b c d e f g h i j k l m n p q r s t u v x z]
//!              -----------------------------------------------------
//!              together:  a b c d f k l m n p s t x z
//! ```
//! A row counts if every newer backup keeps its key; one that was cut short keeps all that it has not reached. Runs of each backup are in the order of their keys, and so is what comes out.

use std::collections::VecDeque;
use std::thread::{Scope, ScopedJoinHandle};

use seawall_engine::Error;

use crate::chain_member::ChainMember;
use crate::error::BackupError;
use crate::manifest::RunKind;
use crate::object_names;
use crate::run::RunReader;

/// Fetches a run of a backup, and checks it against the manifest.
pub(crate) type FetchRun<'a> = dyn Fn(&ChainMember, u32) -> Result<RunReader, BackupError> + Sync + 'a;

/// Gets the key and the value of a row.
pub(crate) type TakeRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), BackupError> + 'a;

/// The runs of one kind of a backup, one after another; several are fetched at a time.
struct RunStream<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    fetch: &'env FetchRun<'env>,
    backup: &'env ChainMember,
    numbers: VecDeque<u32>,
    under_way: VecDeque<(u32, ScopedJoinHandle<'scope, Result<RunReader, BackupError>>)>,
    depth: usize,
    run: Option<(u32, RunReader)>,
}

impl<'scope, 'env> RunStream<'scope, 'env> {
    fn new(
        scope: &'scope Scope<'scope, 'env>,
        fetch: &'env FetchRun<'env>,
        backup: &'env ChainMember,
        kind: RunKind,
        depth: usize,
    ) -> RunStream<'scope, 'env> {
        let numbers = backup.numbers(kind).collect();
        RunStream { scope, fetch, backup, numbers, under_way: VecDeque::new(), depth, run: None }
    }

    /// Leaves out the runs that have nothing behind `after`; their bytes. Runs do not say what their first key is: some are fetched.
    fn skip_to(&mut self, after: &[u8]) -> Result<u64, BackupError> {
        let (mut low, mut high) = (0, self.numbers.len());
        while low < high {
            let middle = low.midpoint(high);
            let number = self.numbers[middle];
            let mut run = (self.fetch)(self.backup, number)?;
            let object = || object_names::run(&self.backup.id, number);
            let has_row = run.advance().map_err(|problem| BackupError::damaged(object(), problem))?;
            if has_row && run.key() > after { high = middle } else { low = middle + 1 }
        }
        // The last one that begins at or before it may go on behind it.
        let skipped = self.numbers.drain(..low.saturating_sub(1));
        let bytes = |number: u32| self.backup.runs.get(usize::try_from(number).ok()?).map(|run| run.bytes);
        Ok(skipped.filter_map(bytes).sum())
    }

    /// Moves to the first row behind `after`; `false` if there is none.
    fn advance_behind(&mut self, after: Option<&[u8]>) -> Result<bool, BackupError> {
        loop {
            let has_row = self.advance()?;
            if !has_row || after.is_none_or(|after| self.key() > after) {
                return Ok(has_row);
            }
        }
    }

    /// Moves to the next row; `false` after the last one.
    fn advance(&mut self) -> Result<bool, BackupError> {
        loop {
            if let Some((number, run)) = &mut self.run {
                let object = || object_names::run(&self.backup.id, *number);
                if run.advance().map_err(|problem| BackupError::damaged(object(), problem))? {
                    return Ok(true);
                }
            }
            self.run = self.next_run()?;
            if self.run.is_none() {
                return Ok(false);
            }
        }
    }

    fn next_run(&mut self) -> Result<Option<(u32, RunReader)>, BackupError> {
        self.fetch_ahead();
        let Some((number, fetched)) = self.under_way.pop_front() else { return Ok(None) };
        // While this one is waited for and read, the next one comes.
        self.fetch_ahead();
        let panicked = |_| Error::Io { message: "a thread of the restore panicked".to_owned() };
        Ok(Some((number, fetched.join().map_err(panicked)??)))
    }

    fn fetch_ahead(&mut self) {
        while self.under_way.len() < self.depth
            && let Some(number) = self.numbers.pop_front()
        {
            let (fetch, backup) = (self.fetch, self.backup);
            self.under_way.push_back((number, self.scope.spawn(move || fetch(backup, number))));
        }
    }

    fn key(&self) -> &[u8] {
        self.run.as_ref().map_or(&[], |(_, run)| run.key())
    }

    fn value(&self) -> &[u8] {
        self.run.as_ref().map_or(&[], |(_, run)| run.value())
    }
}

/// One backup of a chain, at its first row that was not given out yet and the first range that may still matter.
struct Link<'scope, 'env> {
    rows: RunStream<'scope, 'env>,
    has_row: bool,
    kept: RunStream<'scope, 'env>,
    has_range: bool,
    reached: Option<&'env [u8]>,
}

impl Link<'_, '_> {
    /// Whether it keeps `key` of its parent. Keys ascend from call to call.
    fn keeps(&mut self, key: &[u8]) -> Result<bool, BackupError> {
        if self.reached.is_some_and(|reached| key >= reached) {
            return Ok(true);
        }
        while self.has_range && self.kept.value() < key {
            self.has_range = self.kept.advance()?;
        }
        Ok(self.has_range && self.kept.key() <= key)
    }
}

/// How the rows of a chain are read.
pub(crate) struct ChainReader<'a> {
    /// Oldest first: a full backup, and each the parent of the next.
    pub(crate) chain: &'a [ChainMember],
    /// Fetches a run.
    pub(crate) fetch: &'a FetchRun<'a>,
    /// So many runs are fetched at a time, but at least one of each backup.
    pub(crate) threads: usize,
    /// Only rows behind this key are wanted.
    pub(crate) after: Option<&'a [u8]>,
}

impl ChainReader<'_> {
    /// Gives the rows of a chain to `take`, in the order of their keys. `skipped` hears of how many bytes of runs are of no use.
    pub(crate) fn read(&self, skipped: &dyn Fn(u64), take: &mut TakeRow<'_>) -> Result<(), BackupError> {
        let ChainReader { chain, fetch, threads, after } = *self;
        let depth = threads.div_ceil(chain.len().max(1)).max(1);
        std::thread::scope(|scope| {
            let mut links = Vec::with_capacity(chain.len());
            for backup in chain {
                let stream = |kind| RunStream::new(scope, fetch, backup, kind, depth);
                let (mut rows, mut kept) = (stream(RunKind::Rows), stream(RunKind::Kept));
                if let Some(after) = after {
                    skipped(rows.skip_to(after)? + kept.skip_to(after)?);
                }
                let (has_row, has_range) = (rows.advance_behind(after)?, kept.advance()?);
                links.push(Link { rows, has_row, kept, has_range, reached: backup.reached.as_deref() });
            }
            while let Some(next) = next_link(&links) {
                let (older, newer) = links.split_at_mut(next + 1);
                let rows = &mut older[next].rows;
                let mut counts = true;
                for link in newer {
                    counts &= link.keeps(rows.key())?;
                }
                if counts {
                    take(rows.key(), rows.value())?;
                }
                older[next].has_row = older[next].rows.advance()?;
            }
            Ok(())
        })
    }
}

/// The one with the smallest key; of several, the oldest.
fn next_link(links: &[Link<'_, '_>]) -> Option<usize> {
    let at_row = links.iter().enumerate().filter(|(_, link)| link.has_row);
    at_row.min_by_key(|(_, link)| link.rows.key()).map(|(index, _)| index)
}

#[cfg(test)]
mod tests;

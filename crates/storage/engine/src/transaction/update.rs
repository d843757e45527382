//! Read-modify-write of a row: the change goes by the newest committed version, be it durable yet or not.
//!
//! ```text
//!   T1  lock | log, apply | unlock                            flush, visible
//!   T2                    | lock, read T1's version, log, apply, unlock      flush, visible
//! ```
//! T1 releases its row locks as soon as its record has a place in the log. T2 computes from T1's version at once: T2's
//! record follows T1's, so no power failure takes T1 and leaves T2. A row that everybody changes is so changed many
//! times in one flush.
//!
//! A power failure before that flush takes T1 with T2, so nothing that T2 made of T1's version may be shown before. The
//! transaction remembers the newest version that it has used (`depends_on`) and waits until that is visible
//! * before it shows a row that it has written itself,
//! * before it returns an error of the change,
//! * when it ends without a record in the log: it is rolled back, fails, or has written nothing.
//!
//! If the database stops before that, T1 may be lost. Then each of these answers `Stopped`, in place of any other outcome;
//! all but a rollback and a drop, which answer nothing.

use crate::catalog::Table;
use crate::error::Error;
use crate::options::Isolation;
use crate::row_key;
use crate::transaction::Transaction;
use seawall_types::Lsn;

impl Transaction {
    /// Sets the row `key` to what `change` makes of its newest committed version; `None` is a row that is not there, and
    /// deletes it. The row stays locked until the transaction ends.
    ///
    /// Unlike [`Transaction::get_for_update`] with `put`, this does not wait until that version is durable, so many
    /// transactions can change one row in the time of one flush. What `change` sees may therefore be lost in a power
    /// failure: do not show it to anybody before the transaction has ended, by a commit that is durable or by a rollback,
    /// which waits where that is needed. If any call answers `Stopped` meanwhile, do not show it at all: a rollback cannot say
    /// that it may be lost.
    ///
    /// ```
    /// # fn main() -> Result<(), seawall_engine::Error> {
    /// # let directory = tempfile::tempdir().expect("a scratch directory");
    /// # let database = seawall_engine::Database::open(directory.path(), Default::default())?;
    /// # let table = database.create_table("counters")?;
    /// database.transact(|transaction| {
    ///     transaction.update(&table, "visits", |count| {
    ///         let count = count.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    ///         Some((count + 1).to_le_bytes())
    ///     })
    /// })?;
    /// # assert_eq!(database.get(&table, "visits")?, Some(1_u64.to_le_bytes().to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `put`.
    pub fn update<V: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<V>,
    ) -> Result<(), Error> {
        self.try_update(table, key, |current| Ok(change(current)))
    }

    /// As [`Transaction::update`], with a change that may be refused: the row is left as it was then, and locked. The
    /// error of `change` is returned once what `change` has seen is visible to all, so it may be shown.
    ///
    /// # Errors
    /// The error of `change`, and the errors of `put`.
    pub fn try_update<V: AsRef<[u8]>, E: From<Error>>(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Result<Option<V>, E>,
    ) -> Result<(), E> {
        let key = key.as_ref();
        self.check_usable()?;
        row_key::check_sizes(key, None, self.engine.key_bytes_max())?;
        self.check_room_to_lock(table, key)?;
        let storage = self.lock_to_update(table, key)?;
        self.depend_on(table.object.changed_at());
        if self.options.isolation == Isolation::Serializable {
            self.touched.read_table(table, storage);
        }
        let row_key = row_key::encode(storage, key);
        let current = match self.is_own(table) {
            true => self.read_own_row(storage, &row_key)?,
            false => self.read_locked(&row_key)?,
        };
        let changed = change(current.as_deref()).and_then(|new| {
            let value = new.as_ref().map(V::as_ref);
            row_key::check_sizes(key, value, self.engine.key_bytes_max())?;
            self.check_room(table, key, value)?;
            Ok(self.write_row_of(table, &row_key, value)?)
        });
        if changed.is_err() {
            self.locked_rows.insert(&row_key);
            self.wait_for_dependencies()?;
        }
        changed
    }

    /// The newest version of a row that this transaction has locked, visible or not.
    fn read_locked(&mut self, row_key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Some(written) = self.writes.get(row_key) {
            return Ok(written.map(<[u8]>::to_vec));
        }
        self.remember_read(row_key)?;
        // Nobody else writes the row: both looks find the same version. One that is in the tree already is visible.
        let newest = self.engine.newest_stamp_after(row_key, self.engine.visible());
        self.depend_on(newest.unwrap_or_default());
        self.engine.read_row(row_key, Lsn::MAX, |value| value.map(<[u8]>::to_vec))
    }

    fn depend_on(&mut self, stamp: Lsn) {
        self.depends_on = self.depends_on.max(stamp);
    }

    /// Returns once all that `update` has used may be shown.
    pub(crate) fn wait_for_dependencies(&self) -> Result<(), Error> {
        self.engine.require_visible(self.depends_on, Some(&self.session.waits.cancel))
    }
}

//! Steps inside one of the open transactions, and what the plain model makes of them.

use super::*;

impl History {
    pub(super) fn write_in_transaction(&mut self) -> Step {
        let Some(table) = self.handle() else { return self.define_directly() };
        let key = self.key();
        let value = self.value();
        let kind = self.random.below(8);
        self.with_transaction(|history, open, real| match kind {
            0..5 => {
                let result = real.put(&table.real, &key, &value);
                let expected = history.plain_write(open, &table, &key, Some(&value));
                history.expect(&result, expected, "put")
            }
            5..7 => {
                let result = real.delete(&table.real, &key);
                let expected = history.plain_write(open, &table, &key, None);
                history.expect(&result, expected, "delete")
            }
            _ => history.get_for_update(open, real, &table, &key),
        })
    }

    pub(super) fn plain_write(
        &mut self,
        open: &mut Open,
        table: &Handle,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Outcome {
        if open.plain.failed {
            return Outcome::TransactionFailed;
        }
        if key.len() > self.key_bytes_max {
            return Outcome::KeyTooLarge;
        }
        let Some(storage) = self.model.storage_for_write(&open.plain, table.id) else {
            return Outcome::NoSuchTable;
        };
        let locked = self.model.lock(&mut open.plain, Place::Row(storage, key.to_vec()));
        if locked == Outcome::Ok {
            open.plain.wrote_to_own |= open.plain.overlay.is_own(storage);
            open.plain.overlay.use_table(table.id, storage, table.as_of);
            open.plain.overlay.rows.insert((storage, key.to_vec()), value.map(Arc::from));
        }
        locked
    }

    pub(super) fn get_for_update(
        &mut self,
        open: &mut Open,
        real: &mut Transaction,
        table: &Handle,
        key: &[u8],
    ) -> Step {
        let result = real.get_for_update(&table.real, key);
        if open.plain.failed {
            return self.expect(&result, Outcome::TransactionFailed, "get_for_update");
        }
        let Some(storage) = self.model.storage_for_write(&open.plain, table.id) else {
            return self.expect(&result, Outcome::NoSuchTable, "get_for_update");
        };
        let locked = self.model.lock(&mut open.plain, Place::Row(storage, key.to_vec()));
        self.expect(&result, locked, "get_for_update")?;
        if let Ok(value) = result {
            open.plain.overlay.use_table(table.id, storage, table.as_of);
            open.plain.locked.insert(Place::Row(storage, key.to_vec()));
            let lsn = open.plain.statement_lsn(self.visible());
            let expected = open.plain.overlay.row(self.model.at(lsn), storage, key);
            assert_eq!(value.as_deref(), expected.map(|value| &value[..]), "get_for_update");
            // As long as the row is locked nobody changes it. A return to a savepoint gives the lock back, and not what was seen.
            let is_own = open.plain.overlay.is_own(storage);
            if !is_own && !open.plain.overlay.rows.contains_key(&(storage, key.to_vec())) {
                open.plain.remember(Read::Place(Place::Row(storage, key.to_vec())));
            }
        }
        Ok(())
    }

    pub(super) fn read_in_transaction(&mut self) -> Step {
        let Some(Handle { real: table, id, .. }) = self.handle() else { return self.define_directly() };
        let key = self.key();
        self.with_transaction(|history, open, real| {
            let result = real.get(&table, &key);
            if open.plain.failed {
                return history.expect(&result, Outcome::TransactionFailed, "get");
            }
            if history.disk.crashed() {
                return Err(PowerLost);
            }
            let lsn = open.plain.statement_lsn(history.visible());
            let Some(storage) = history.plain_table_for_read(open, id, lsn) else {
                return history.expect(&result, Outcome::NoSuchTable, "get");
            };
            let value = history.must(result)?;
            let expected = open.plain.overlay.row(history.model.at(lsn), storage, &key);
            assert_eq!(
                value.as_deref(),
                expected.map(|value| &value[..]),
                "get in {:?}",
                open.plain.isolation
            );
            if !open.plain.overlay.rows.contains_key(&(storage, key.clone())) {
                open.plain.remember(Read::Place(Place::Row(storage, key)));
            }
            Ok(())
        })
    }

    /// Where a read finds the rows of a table; under `Serializable` that is a read of the catalog.
    pub(super) fn plain_table_for_read(&mut self, open: &mut Open, id: u64, lsn: Lsn) -> Option<u64> {
        let storage = self.model.storage_for_read(&open.plain, id, lsn);
        if !open.plain.overlay.defined.contains_key(&id) {
            open.plain.remember(Read::Place(Place::Object(id)));
            if open.plain.isolation == Isolation::Serializable && storage.is_some() {
                open.plain.read_tables.insert(id);
            }
        }
        storage
    }

    pub(super) fn scan_in_transaction(&mut self) -> Step {
        let Some(Handle { real: table, id, .. }) = self.handle() else { return self.define_directly() };
        let bounds = draw_bounds(&mut self.random, &self.keys);
        let reverse = self.random.chance(1, 2);
        let limit = if self.random.chance(1, 4) { self.random.index(5) } else { usize::MAX };
        self.with_transaction(|history, open, real| {
            let rows = if reverse {
                real.range_reverse(&table, bounds.clone())
            } else {
                real.range(&table, bounds.clone())
            };
            let result: Result<Rows, Error> = rows.take(limit.max(1)).collect();
            if open.plain.failed {
                return history.expect(&result, Outcome::TransactionFailed, "range");
            }
            if history.disk.crashed() {
                return Err(PowerLost);
            }
            let lsn = open.plain.statement_lsn(history.visible());
            let Some(storage) = history.plain_table_for_read(open, id, lsn) else {
                return history.expect(&result, Outcome::NoSuchTable, "range");
            };
            let actual = history.must(result)?;
            let mut expected = open.plain.overlay.range(history.model.at(lsn), storage, &bounds);
            if reverse {
                expected.reverse();
            }
            expected.truncate(limit.max(1));
            assert_rows(&actual, &expected, &|| format!("range {bounds:?}, reverse {reverse}"));
            open.plain.remember(Read::Range(storage, bounds));
            Ok(())
        })
    }

    pub(super) fn define_in_transaction(&mut self) -> Step {
        let (name, other) = (self.name(), self.name());
        let kind = self.random.below(6);
        self.with_transaction(|history, open, real| match kind {
            0 | 1 => {
                let result = real.create_table(&name);
                let id = result.as_ref().map_or(0, Table::id);
                let expected = history.plain_create(open, &name, id);
                history.expect(&result, expected, "create_table")?;
                result.into_iter().for_each(|table| history.remember(table, Lsn::ZERO));
                Ok(())
            }
            2 => {
                let result = real.drop_table(&name);
                let expected = history.plain_drop(open, &name);
                history.expect(&result, expected, "drop_table")
            }
            3 => {
                let result = real.truncate_table(&name);
                let expected = history.plain_truncate(open, &name);
                history.expect(&result, expected, "truncate_table")
            }
            4 => {
                let result = real.rename_table(&name, &other);
                let expected = history.plain_rename(open, &name, &other);
                history.expect(&result, expected, "rename_table")
            }
            _ => history.open_in_transaction(open, real, &name),
        })
    }

    pub(super) fn open_in_transaction(
        &mut self,
        open: &mut Open,
        real: &mut Transaction,
        name: &str,
    ) -> Step {
        let result = real.table(name);
        if open.plain.failed {
            return self.expect(&result, Outcome::TransactionFailed, "table");
        }
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let lsn = open.plain.statement_lsn(self.visible());
        let place = Place::Name(name.to_owned());
        let found = open.plain.overlay.id_of(self.model.at(lsn), name);
        if !open.plain.overlay.system.contains(&place) {
            open.plain.remember(Read::Place(place));
        }
        let expected = if found.is_some() { Outcome::Ok } else { Outcome::NoSuchTable };
        self.expect(&result, expected, "table")?;
        if let Ok(table) = result {
            assert_eq!(Some(table.id()), found);
            self.remember(table, lsn);
        }
        Ok(())
    }

    /// Locks a place and reads what is there: `Err` is how the call ends.
    pub(super) fn plain_lock(&mut self, open: &mut Open, place: Place) -> Result<Lsn, Outcome> {
        if open.plain.failed {
            return Err(Outcome::TransactionFailed);
        }
        match self.model.lock(&mut open.plain, place.clone()) {
            Outcome::Ok => {
                let lsn = open.plain.statement_lsn(self.visible());
                if !open.plain.overlay.system.contains(&place) {
                    open.plain.remember(Read::Place(place));
                }
                Ok(lsn)
            }
            refused => Err(refused),
        }
    }

    pub(super) fn plain_lock_object(
        &mut self,
        open: &mut Open,
        name: &str,
    ) -> Result<(u64, Object), Outcome> {
        let lsn = self.plain_lock(open, Place::Name(name.to_owned()))?;
        let id = open.plain.overlay.id_of(self.model.at(lsn), name).ok_or(Outcome::NoSuchTable)?;
        let lsn = self.plain_lock(open, Place::Object(id))?;
        let object = open.plain.overlay.object(self.model.at(lsn), id).cloned();
        Ok((id, object.ok_or(Outcome::NoSuchTable)?))
    }

    pub(super) fn plain_create(&mut self, open: &mut Open, name: &str, id: u64) -> Outcome {
        if name.is_empty() || name.len() > 255 {
            return Outcome::TableName;
        }
        let lsn = match self.plain_lock(open, Place::Name(name.to_owned())) {
            Ok(lsn) => lsn,
            Err(refused) => return refused,
        };
        if open.plain.overlay.id_of(self.model.at(lsn), name).is_some() {
            return Outcome::TableExists;
        }
        let storage = self.model.draw_storage();
        let overlay = &mut open.plain.overlay;
        overlay.objects.insert(id, Some(Object { name: name.to_owned(), storage }));
        overlay.define(id, Some(storage));
        overlay.system.extend([Place::Name(name.to_owned()), Place::Object(id)]);
        Outcome::Ok
    }

    pub(super) fn plain_drop(&mut self, open: &mut Open, name: &str) -> Outcome {
        let (id, _) = match self.plain_lock_object(open, name) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        let overlay = &mut open.plain.overlay;
        overlay.objects.insert(id, None);
        overlay.define(id, None);
        overlay.system.extend([Place::Name(name.to_owned()), Place::Object(id)]);
        Outcome::Ok
    }

    pub(super) fn plain_truncate(&mut self, open: &mut Open, name: &str) -> Outcome {
        let (id, object) = match self.plain_lock_object(open, name) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        let storage = self.model.draw_storage();
        let overlay = &mut open.plain.overlay;
        overlay.objects.insert(id, Some(Object { storage, ..object }));
        overlay.define(id, Some(storage));
        overlay.system.insert(Place::Object(id));
        Outcome::Ok
    }

    pub(super) fn plain_rename(&mut self, open: &mut Open, from: &str, to: &str) -> Outcome {
        if to.is_empty() || to.len() > 255 {
            return Outcome::TableName;
        }
        let (id, object) = match self.plain_lock_object(open, from) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        let lsn = match self.plain_lock(open, Place::Name(to.to_owned())) {
            Ok(lsn) => lsn,
            Err(refused) => return refused,
        };
        if open.plain.overlay.id_of(self.model.at(lsn), to).is_some() {
            return Outcome::TableExists;
        }
        let overlay = &mut open.plain.overlay;
        overlay.objects.insert(id, Some(Object { name: to.to_owned(), ..object }));
        let names = [from, to].map(|name| Place::Name(name.to_owned()));
        overlay.system.extend(names.into_iter().chain([Place::Object(id)]));
        Outcome::Ok
    }

    pub(super) fn savepoint_or_rollback(&mut self) -> Step {
        let kind = self.random.below(8);
        let draw = self.random.next_u64();
        self.with_transaction(|history, open, real| {
            if kind < 4 || open.savepoints.is_empty() {
                open.savepoints.push(real.savepoint());
                history.model.savepoint(&mut open.plain);
                return Ok(());
            }
            let index = usize::try_from(draw % open.savepoints.len() as u64).expect("it is below a usize");
            let savepoint = &open.savepoints[index];
            if kind < 7 {
                let expected = history.model.rollback_to(&mut open.plain, index);
                history.expect(&real.rollback_to(savepoint), expected, "rollback_to")
            } else {
                let expected = history.model.release_savepoint(&mut open.plain, index);
                history.expect(&real.release(savepoint), expected, "release")
            }
        })
    }

    pub(super) fn end_transaction(&mut self) -> Step {
        let mut open = self.transaction();
        let real = open.real.take().expect("an open transaction is real");
        let kind = self.random.below(8);
        if kind == 0 {
            real.rollback();
            self.model.release(open.plain.owner);
            return Ok(());
        }
        let expected = self.model.commit_outcome(&open.plain);
        if kind <= 2 {
            let result = real.commit_async();
            self.ended(&open, &result, expected)?;
            if let Ok(handle) = result
                && !open.plain.overlay.is_empty()
            {
                self.model.commit(handle.lsn(), &open.plain.overlay);
                self.commits.push((handle, open.durability, self.model.newest_stamp()));
            }
        } else {
            let result = real.commit();
            self.ended(&open, &result, expected)?;
            if let Ok(stamp) = result
                && !open.plain.overlay.is_empty()
            {
                self.model.commit(stamp, &open.plain.overlay);
                self.committed(stamp, open.durability);
            }
        }
        Ok(())
    }

    /// Compares how a commit ended with how it should.
    pub(super) fn ended<T>(&mut self, open: &Open, result: &Result<T, Error>, expected: Outcome) -> Step {
        self.model.release(open.plain.owner);
        if result.is_err() && self.disk.crashed() {
            if expected == Outcome::Ok {
                self.model.commit_in_doubt(&open.plain.overlay);
            }
            return Err(PowerLost);
        }
        self.expect(result, expected, "commit")
    }

    pub(super) fn committed(&mut self, stamp: Lsn, durability: Durability) {
        self.model.acknowledged = self.model.acknowledged.max(stamp);
        if durability == Durability::Sync {
            self.model.made_durable(stamp);
        }
    }
}

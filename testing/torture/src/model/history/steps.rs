//! Steps that are not inside one of the open transactions.

use super::*;

impl History {
    pub(super) fn write_directly(&mut self) -> Step {
        let Some(table) = self.handle() else { return self.define_directly() };
        let key = self.key();
        let value = (!self.random.chance(1, 4)).then(|| self.value());
        let durability = *self.random.pick(&[Durability::Sync, Durability::Async]);
        self.write_row(&table, &key, value.as_deref(), durability)
    }

    /// A transaction of one row.
    fn write_row(
        &mut self,
        table: &Handle,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Durability,
    ) -> Step {
        let (result, durability) = match value {
            Some(value) => (self.database().with(durability).put(&table.real, key, value), durability),
            None => (self.database().delete(&table.real, key), self.options.transaction.durability),
        };
        self.next_owner += 1;
        let mut open = self.open_plain(Isolation::ReadCommitted, durability);
        let expected = self.plain_write(&mut open, table, key, value);
        let expected = self.plain_commit(&open, expected);
        self.model.release(open.plain.owner);
        self.directly(&result, expected, &open.plain.overlay, durability, "put or delete")
    }

    fn open_plain(&mut self, isolation: Isolation, durability: Durability) -> Open {
        self.next_owner += 1;
        Open {
            real: None,
            plain: PlainTransaction::new(self.next_owner, isolation),
            durability,
            savepoints: Vec::new(),
        }
    }

    /// A transaction that is over when its call is: the commit's stamp is what is visible now.
    fn directly<T>(
        &mut self,
        result: &Result<T, Error>,
        expected: Outcome,
        overlay: &Overlay,
        durability: Durability,
        call: &str,
    ) -> Step {
        if result.is_err() && self.disk.crashed() {
            if expected == Outcome::Ok {
                self.model.commit_in_doubt(overlay);
            }
            return Err(PowerLost);
        }
        self.expect(result, expected, call)?;
        if expected == Outcome::Ok {
            let stamp = self.visible();
            self.model.commit(stamp, overlay);
            self.committed(stamp, durability);
        }
        Ok(())
    }

    pub(super) fn read_directly(&mut self) -> Step {
        let Some(Handle { real: table, id, .. }) = self.handle() else { return self.define_directly() };
        let key = self.key();
        let result = self.database().get(&table, &key);
        let open = self.open_plain(Isolation::ReadCommitted, Durability::Async);
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let lsn = self.visible();
        let Some(storage) = self.model.storage_for_read(&open.plain, id, lsn) else {
            return self.expect(&result, Outcome::NoSuchTable, "get");
        };
        let value = self.must(result)?;
        let expected = open.plain.overlay.row(self.model.at(lsn), storage, &key);
        assert_eq!(value.as_deref(), expected.map(|value| &value[..]), "get");
        Ok(())
    }

    pub(super) fn define_directly(&mut self) -> Step {
        let (name, other) = (self.name(), self.name());
        let durability = self.options.transaction.durability;
        let mut open = self.open_plain(Isolation::ReadCommitted, durability);
        // Creating is likelier while there is little.
        let kind = if self.model.newest().objects.len() < 2 { 0 } else { self.random.below(5) };
        let (result, expected) = match kind {
            0 | 1 => {
                let result = self.database().create_table(&name);
                // Of a creation that the power cut short only the outcome is compared.
                let id = result.as_ref().map_or(u64::MAX, Table::id);
                let expected = self.plain_create(&mut open, &name, id);
                (result.map(|table| self.remember(table, Lsn::ZERO)), expected)
            }
            2 => (self.database().tables().drop(&name), self.plain_drop(&mut open, &name)),
            3 => (self.database().tables().truncate(&name), self.plain_truncate(&mut open, &name)),
            _ => {
                (self.database().tables().rename(&name, &other), self.plain_rename(&mut open, &name, &other))
            }
        };
        let expected = self.plain_commit(&open, expected);
        self.model.release(open.plain.owner);
        self.directly(&result, expected, &open.plain.overlay, durability, "definition")
    }

    /// How a transaction ends that is over when its call is, and got so far.
    fn plain_commit(&self, open: &Open, so_far: Outcome) -> Outcome {
        if so_far == Outcome::Ok { self.model.commit_outcome(&open.plain) } else { so_far }
    }

    pub(super) fn open_handle(&mut self) -> Step {
        let name = self.name();
        let as_of = self.database().snapshot().lsn();
        let result = self.database().table(&name);
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let found = Overlay::default().id_of(self.model.at(self.visible()), &name);
        let expected = if found.is_some() { Outcome::Ok } else { Outcome::NoSuchTable };
        self.expect(&result, expected, "table")?;
        result.into_iter().for_each(|table| self.remember(table, as_of));
        Ok(())
    }

    pub(super) fn hold_or_drop_snapshot(&mut self) -> Step {
        if self.held.len() >= 3 || (!self.held.is_empty() && self.random.chance(1, 3)) {
            let index = self.random.index(self.held.len());
            self.held.swap_remove(index);
            return Ok(());
        }
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let real = self.database().snapshot();
        assert!(real.lsn() >= self.model.acknowledged);
        let content = self.model.at(real.lsn()).content();
        self.held.push(Held { real, content });
        Ok(())
    }

    pub(super) fn check_held_snapshots(&mut self) -> Step {
        let bounds = self.bounds();
        let key = self.key();
        for held in &self.held {
            for name in NAMES {
                let table = held.real.table(name);
                if self.disk.crashed() {
                    return Err(PowerLost);
                }
                let Some((id, rows)) = held.content.get(name) else {
                    self.expect(&table, Outcome::NoSuchTable, "table of a snapshot")?;
                    continue;
                };
                let table = self.must(table)?;
                assert_eq!(table.id(), *id);
                let all: Result<Rows, Error> = held.real.range::<&[u8]>(&table, ..).collect();
                let all = self.must(all)?;
                assert_rows(&all, rows, &|| format!("snapshot {}, table {name}", held.real.lsn()));
                let part: Result<Rows, Error> = held.real.range_reverse(&table, bounds.clone()).collect();
                let mut part = self.must(part)?;
                part.reverse();
                assert_rows(&part, &History::range_of(rows, &bounds), &|| {
                    format!("{name} {bounds:?} backwards")
                });
                let expected = rows.iter().find(|(other, _)| *other == key).map(|(_, value)| value);
                let value = self.must(held.real.get(&table, &key))?;
                assert_eq!(value.as_ref(), expected, "snapshot {}, table {name}", held.real.lsn());
            }
        }
        Ok(())
    }

    /// A scan sees its snapshot, whatever is written and merged between two of its rows.
    pub(super) fn scan_while_writing(&mut self) -> Step {
        let Some(Handle { real: table, id, .. }) = self.handle() else { return self.define_directly() };
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let snapshot = self.database().snapshot();
        let state = self.model.at(snapshot.lsn());
        let Some(storage) = state.objects.get(&id).map(|object| object.storage) else { return Ok(()) };
        let bounds = draw_bounds(&mut self.random, &self.keys);
        let mut expected = Overlay::default().range(state, storage, &bounds);
        let reverse = self.random.chance(1, 2);
        let mut range = if reverse {
            expected.reverse();
            snapshot.range_reverse(&table, bounds)
        } else {
            snapshot.range(&table, bounds)
        };
        let pause = self.random.range(1..12);
        let mut actual = Rows::new();
        loop {
            match range.next_row() {
                Ok(None) => break,
                Ok(Some((key, value))) => actual.push((key.to_vec(), value.to_vec())),
                Err(_) if self.disk.crashed() => return Err(PowerLost),
                Err(error) => panic!("range: {error}"),
            }
            if self.random.below(pause) == 0 {
                match self.random.below(5) {
                    0 => self.checkpoint()?,
                    1 => self.define_directly()?,
                    _ => self.write_directly()?,
                }
            }
        }
        assert_rows(&actual, &expected, &|| format!("scan while writing, reverse {reverse}"));
        Ok(())
    }

    pub(super) fn bulk_load(&mut self) -> Step {
        let name = self.name();
        let begun = self.database().tables().bulk_load(&name);
        let exists = Overlay::default().id_of(self.model.newest(), &name).is_some();
        let expected = match name.len() {
            1..=255 if exists => Outcome::TableExists,
            1..=255 => Outcome::Ok,
            _ => Outcome::TableName,
        };
        self.expect(&begun, expected, "bulk_load")?;
        let Ok(mut load) = begun else { return Ok(()) };
        // Beginning it is a durable commit.
        self.model.all_durable();
        let sorted = self.random.chance(1, 2);
        let mut keys: Vec<Key> = (0..self.random.below(300)).map(|_| self.bulk_key()).collect();
        if sorted {
            keys.sort_unstable();
            keys.dedup();
        }
        let mut rows = BTreeMap::new();
        for key in keys {
            let value = self.value();
            self.must(load.add(&key, &value))?;
            rows.insert(key, value);
            match self.random.below(150) {
                0 => self.checkpoint()?,
                1 => self.write_directly()?,
                2 => self.define_directly()?,
                _ => {}
            }
        }
        if self.random.chance(1, 4) {
            drop(load);
            return Ok(());
        }
        let result = load.finish();
        let mut open = self.open_plain(Isolation::ReadCommitted, Durability::Sync);
        let id = result.as_ref().map_or(u64::MAX, Table::id);
        let expected = self.plain_create(&mut open, &name, id);
        if let Some(&Some(storage)) = open.plain.overlay.defined.get(&id) {
            let rows = rows.into_iter().map(|(key, value)| ((storage, key), Some(Arc::from(value))));
            open.plain.overlay.rows.extend(rows);
        }
        let expected = self.plain_commit(&open, expected);
        self.model.release(open.plain.owner);
        self.directly(&result, expected, &open.plain.overlay, Durability::Sync, "finish of a bulk load")?;
        result.into_iter().for_each(|table| self.remember(table, Lsn::ZERO));
        Ok(())
    }

    fn bulk_key(&mut self) -> Key {
        if self.random.chance(1, 3) {
            return self.random.pick(&self.keys).clone();
        }
        self.random.below(1000).to_be_bytes().to_vec()
    }

    pub(super) fn checkpoint(&mut self) -> Step {
        self.must(self.database().checkpoint())?;
        self.model.all_durable();
        let statistics = self.database().statistics();
        if statistics.snapshots.alive == 0 {
            assert_eq!(statistics.memtable.frozen, 0, "a memtable is kept for nobody");
            // A transaction may hold the lock of what it gives up once more, and goes on to hold it while it is in doubt.
            let none_waits = statistics.reclaim.waiting == Some(0);
            let may_be_held = !self.open.is_empty() || self.model.newest().defines_in_doubt();
            assert!(none_waits || may_be_held, "space is kept for nobody");
        }
        Ok(())
    }

    pub(super) fn flush_or_wait(&mut self) -> Step {
        if self.commits.is_empty() {
            self.must(self.database().flush())?;
            self.model.all_durable();
            return Ok(());
        }
        let index = self.random.index(self.commits.len());
        let (handle, durability, stamp) = self.commits.swap_remove(index);
        assert_eq!(handle.lsn(), stamp);
        if handle.is_durable() {
            self.model.made_durable(stamp);
        }
        let result = handle.wait();
        assert_eq!(self.must(result)?, stamp);
        self.committed(stamp, durability);
        Ok(())
    }

    pub(super) fn check(&mut self) -> Step {
        let mut damages = Vec::new();
        let result = self.database().check(&mut |damage| damages.push(damage.to_string()));
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let summary = self.must(result)?;
        assert!(damages.is_empty() && summary.damages == 0, "damages: {damages:#?}");
        let tables = self.model.at(self.visible()).objects.len() as u64;
        assert_eq!(summary.tables, tables);
        assert_content(&self.content_now(), &self.model.at(self.visible()).content(), "now");
        self.check_in_doubt()?;
        Ok(())
    }

    pub(super) fn close_and_reopen(&mut self) -> Step {
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let database = self.database.take().expect("a database is open between two steps");
        let other_handle = database.clone();
        match database.close() {
            Ok(()) => {}
            Err(_) if self.disk.crashed() => {
                self.database = Some(other_handle);
                return Err(PowerLost);
            }
            Err(error) => panic!("close: {error}"),
        }
        self.model.all_durable();
        for open in self.open.drain(..) {
            let result = open.real.expect("an open transaction is real").commit();
            let expected = if open.plain.failed { "failed before" } else { "closed" };
            assert!(result.is_err_and(|error| error.to_string().contains(expected)));
        }
        for held in self.held.drain(..) {
            assert!(matches!(held.real.table("a"), Err(Error::Closed)));
        }
        assert!(matches!(other_handle.flush(), Err(Error::Closed)));
        self.commits.clear();
        drop(other_handle);
        self.reopen()?;
        let state = self.model.newest().clone();
        assert_content(&self.content_now(), &state.content(), "after close and open");
        assert!(
            state.has_in_doubt(&in_doubt(self.database())),
            "after close and open, expected {}",
            state.describe_in_doubt()
        );
        let replayed = self.database().statistics().recovery.rows;
        assert!(replayed <= 64, "a closed database replays {replayed} rows");
        self.start_over(state);
        Ok(())
    }

    /// The power goes; what is there afterwards is a prefix of the commits with everything acknowledged in it.
    pub(super) fn crash(&mut self) {
        self.disk.crash();
        self.open.clear();
        self.held.clear();
        self.commits.clear();
        self.handles.clear();
        let outcome = loop {
            let outcome = match self.random.below(5) {
                0 | 1 => PowerLoss::LoseAll,
                2 => PowerLoss::KeepAll,
                _ => PowerLoss::Random(self.random.next_u64()),
            };
            let disk = self.disk.after_power_loss(outcome);
            // The old disk still stands for it when the database is dropped.
            self.database = None;
            self.disk = disk;
            if self.random.chance(1, 4) {
                // The power goes again, during recovery.
                self.disk.crash_at(self.random.below(40));
            }
            if self.reopen().is_ok() && !self.disk.crashed() {
                // Not while all of it is looked at.
                self.disk.crash_at(u64::MAX);
                break outcome;
            }
        };
        let content = self.content_now();
        let in_doubt = in_doubt(self.database());
        let found = self.model.survivors().find(|state| {
            same_but_for_unknown_ids(&state.content(), &content) && state.has_in_doubt(&in_doubt)
        });
        let Some(state) = found else {
            let all = self.model.survivors().map(|state| difference(state, &content, &in_doubt));
            let all: Vec<String> = all.collect();
            panic!(
                "after {outcome:?} there is none of the states that may be there:\n  {}",
                all.join("\n  ")
            );
        };
        let state = state.with_ids(&content).with_stamps(&in_doubt);
        self.start_over(state);
    }
}

/// How a state is not what was found, in a line.
fn difference(state: &State, content: &Content, found: &BTreeMap<String, InDoubtTransaction>) -> String {
    let names =
        |content: &Content| content.iter().map(|(name, (id, _))| (name.clone(), *id)).collect::<Vec<_>>();
    let expected = state.content();
    if names(&expected).iter().map(|(name, _)| name).ne(content.keys()) {
        return format!("tables {:?}, expected {:?}", names(content), names(&expected));
    }
    let rows = |name: &String| (&content[name], &expected[name]);
    let other = content.keys().find(|name| rows(name).0 != rows(name).1);
    match other.map(|name| (name, rows(name))) {
        Some((name, ((id, rows), (expected_id, expected)))) if id != expected_id || rows != expected => {
            let same = rows.iter().zip(expected).take_while(|(left, right)| left == right).count();
            let counts = (rows.len(), expected.len());
            format!(
                "table {name} {id}, expected {expected_id}: {counts:?} rows, of which the first {same} are equal"
            )
        }
        _ => format!("in doubt {found:?}, expected {}", state.describe_in_doubt()),
    }
}

/// A table whose creation was cut short has the id `u64::MAX` in the model.
pub(super) fn same_but_for_unknown_ids(expected: &Content, actual: &Content) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|((name, (id, rows)), (other, (other_id, other_rows)))| {
            name == other && (id == other_id || *id == u64::MAX) && rows == other_rows
        })
}

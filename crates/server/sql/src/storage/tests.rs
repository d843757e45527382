//! Rows, indexes and foreign keys against a plain model: two lists of rows, looked through from the beginning.

mod power_loss;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use seawall_engine::Transaction;
use seawall_values::{Datum, Oid, TypeReference, oid};

use super::testing::*;
use crate::execute::{Inserted, KeyBound, KeyRange, OnConflict, ScanRequest, Storage};
use crate::schema::define::requests::*;
use crate::schema::{IndexedValue, ReferentialAction, Table};

/// A row of `parent (p int PRIMARY KEY, u int UNIQUE)`, or of `child (x int, r int REFERENCES parent)`.
type Row = (i32, Option<i32>);

#[derive(Clone, Debug)]
enum Change {
    InsertParent(i32, Option<i32>),
    /// The row at this place, if there is one, is updated.
    UpdateParent(usize, i32, Option<i32>),
    DeleteParent(usize),
    /// `ON CONFLICT DO NOTHING`.
    InsertParentUnless(i32, Option<i32>),
    InsertChild(Option<i32>),
    UpdateChild(usize, Option<i32>),
    /// It gets another key.
    MoveChild(usize),
    DeleteChild(usize),
    Commit,
    RollBack,
}

/// How the tables are made.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Children refer to `u`, and not to the primary key.
    refers_to_unique: bool,
    on_update: ReferentialAction,
    on_delete: ReferentialAction,
    is_deferred: bool,
    /// Whether children have a primary key, and an index on what they refer by.
    has_key: bool,
    has_index: bool,
}

fn actions() -> impl Strategy<Value = ReferentialAction> {
    prop_oneof![
        Just(ReferentialAction::NoAction),
        Just(ReferentialAction::Restrict),
        Just(ReferentialAction::Cascade),
        Just(ReferentialAction::SetNull),
    ]
}

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<bool>(), actions(), actions(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(refers_to_unique, on_update, on_delete, is_deferred, has_key, has_index)| Shape {
            refers_to_unique,
            on_update,
            on_delete,
            is_deferred,
            has_key,
            has_index,
        },
    )
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let (key, value) = (0..6i32, proptest::option::weighted(0.8, 0..6i32));
    let change = prop_oneof![
        3 => (key.clone(), value.clone()).prop_map(|(p, u)| Change::InsertParent(p, u)),
        2 => (0..6usize, key.clone(), value.clone()).prop_map(|(n, p, u)| Change::UpdateParent(n, p, u)),
        1 => (0..6usize).prop_map(Change::DeleteParent),
        1 => (key, value.clone()).prop_map(|(p, u)| Change::InsertParentUnless(p, u)),
        4 => value.clone().prop_map(Change::InsertChild),
        2 => (0..8usize, value).prop_map(|(n, r)| Change::UpdateChild(n, r)),
        2 => (0..8usize).prop_map(Change::MoveChild),
        1 => (0..8usize).prop_map(Change::DeleteChild),
        2 => Just(Change::Commit),
        1 => Just(Change::RollBack),
    ];
    proptest::collection::vec(change, 1..60)
}

/// What the tables should have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    parents: BTreeMap<i32, Option<i32>>,
    children: BTreeMap<i32, Option<i32>>,
}

type Outcome = Result<(), &'static str>;

impl Model {
    fn target(shape: Shape, parent: Row) -> Option<i32> {
        if shape.refers_to_unique { parent.1 } else { Some(parent.0) }
    }

    fn has_target(&self, shape: Shape, value: i32) -> bool {
        self.parents.iter().any(|(p, u)| Model::target(shape, (*p, *u)) == Some(value))
    }

    fn has_unique(&self, u: Option<i32>, but: Option<i32>) -> bool {
        u.is_some() && self.parents.iter().any(|(p, known)| *known == u && Some(*p) != but)
    }

    fn insert_parent(&mut self, p: i32, u: Option<i32>) -> Outcome {
        if self.parents.contains_key(&p) || self.has_unique(u, None) {
            return Err("23505");
        }
        self.parents.insert(p, u);
        Ok(())
    }

    fn insert_child(&mut self, shape: Shape, x: i32, r: Option<i32>) -> Outcome {
        self.children.insert(x, r);
        self.check_child(shape, r)
    }

    fn check_child(&self, shape: Shape, r: Option<i32>) -> Outcome {
        match r {
            Some(r) if !shape.is_deferred && !self.has_target(shape, r) => Err("23503"),
            _ => Ok(()),
        }
    }

    fn update_parent(&mut self, shape: Shape, old: Row, new: Row) -> Outcome {
        if (old.0 != new.0 && self.parents.contains_key(&new.0)) || self.has_unique(new.1, Some(old.0)) {
            return Err("23505");
        }
        self.parents.remove(&old.0);
        self.parents.insert(new.0, new.1);
        let (before, after) = (Model::target(shape, old), Model::target(shape, new));
        if before == after { Ok(()) } else { self.leave(shape, shape.on_update, before, Some(after)) }
    }

    fn delete_parent(&mut self, shape: Shape, old: Row) -> Outcome {
        self.parents.remove(&old.0);
        self.leave(shape, shape.on_delete, Model::target(shape, old), None)
    }

    /// A key has gone, or is another one.
    fn leave(
        &mut self,
        shape: Shape,
        action: ReferentialAction,
        old: Option<i32>,
        new: Option<Option<i32>>,
    ) -> Outcome {
        let Some(old) = old else { return Ok(()) };
        if !self.children.values().any(|r| *r == Some(old)) {
            return Ok(());
        }
        match (action, new) {
            (ReferentialAction::NoAction, _) if shape.is_deferred => {}
            (ReferentialAction::NoAction | ReferentialAction::Restrict, _) => return Err("23503"),
            (ReferentialAction::Cascade, None) => self.children.retain(|_, r| *r != Some(old)),
            (ReferentialAction::Cascade, Some(new)) => self.refer(old, new),
            (ReferentialAction::SetNull | ReferentialAction::SetDefault, _) => self.refer(old, None),
        }
        Ok(())
    }

    fn refer(&mut self, old: i32, new: Option<i32>) {
        self.children.values_mut().filter(|r| **r == Some(old)).for_each(|r| *r = new);
    }

    fn check_all(&self, shape: Shape) -> Outcome {
        let is_missing = |r: &Option<i32>| r.is_some_and(|r| !self.has_target(shape, r));
        if self.children.values().any(is_missing) { Err("23503") } else { Ok(()) }
    }
}

/// The tables, and the transaction under way.
struct Bank {
    world: World,
    shape: Shape,
    parent: Oid,
    child: Oid,
    transaction: Option<Transaction>,
    next_child: i32,
}

fn datum(value: Option<i32>) -> Datum {
    value.map_or(Datum::Null, Datum::Int4)
}

fn integer(value: &Datum) -> Option<i32> {
    match value {
        Datum::Int4(value) => Some(*value),
        _ => None,
    }
}

fn index_on(table: Oid, column: usize, is_descending: bool, predicate: Option<&str>) -> NewIndex {
    NewIndex {
        table,
        name: None,
        keys: vec![NewIndexKey {
            what: IndexedValue::Column(column),
            function: None,
            of: TypeReference::of(oid::INT4),
            is_descending,
            is_nulls_first: is_descending,
        }],
        included: Vec::new(),
        is_unique: false,
        is_nulls_not_distinct: false,
        predicate: predicate.map(str::to_owned),
        if_not_exists: false,
    }
}

impl Bank {
    fn new(shape: Shape) -> Bank {
        let mut world = World::new();
        let columns = vec![column("p", oid::INT4), column("u", oid::INT4)];
        let parent = world.create(new_table("parent", columns, vec![key(&["p"], true), key(&["u"], false)]));
        let target = if shape.refers_to_unique { "u" } else { "p" };
        let foreign = NewForeignKey {
            columns: vec!["r".to_owned()],
            target: parent.oid,
            target_columns: vec![target.to_owned()],
            on_update: shape.on_update,
            on_delete: shape.on_delete,
            is_match_full: false,
        };
        let foreign = NewConstraint {
            is_deferrable: shape.is_deferred,
            is_deferred: shape.is_deferred,
            ..constraint(NewConstraintKind::ForeignKey(foreign))
        };
        let mut constraints = vec![foreign];
        constraints.extend(shape.has_key.then(|| key(&["x"], true)));
        let columns = vec![column("x", oid::INT4), column("r", oid::INT4)];
        let child = world.create(new_table("child", columns, constraints));
        let (parent, child) = (parent.oid, child.oid);
        world.run(|definer| definer.create_index(&index_on(parent, 1, true, None))).unwrap();
        world.run(|definer| definer.create_index(&index_on(parent, 1, false, Some("(p > 2)")))).unwrap();
        if shape.has_index {
            world.run(|definer| definer.create_index(&index_on(child, 1, false, None))).unwrap();
        }
        Bank { world, shape, parent, child, transaction: None, next_child: 0 }
    }

    /// Runs a statement; after an error nothing of it is left.
    fn run<T>(
        &mut self,
        body: impl FnOnce(&mut crate::storage::TableStorage<'_>) -> seawall_values::SqlResult<T>,
    ) -> Result<T, String> {
        let mut transaction = self.transaction.take().unwrap_or_else(|| self.world.begin());
        let savepoint = transaction.savepoint();
        let mark = self.world.session.foreign_keys.mark();
        let outcome = self.world.within(&mut transaction, |definer| body(&mut definer.tables));
        if outcome.is_err() {
            transaction.rollback_to(&savepoint).unwrap();
            self.world.session.foreign_keys.return_to(&mark);
        }
        transaction.release(&savepoint).unwrap();
        self.transaction = Some(transaction);
        outcome.map_err(|error| error.code.as_str().to_owned())
    }

    fn insert(&mut self, table: Oid, row: Row, on_conflict: OnConflict<'_>) -> Result<bool, String> {
        self.run(|tables| {
            let table = tables.table(table)?;
            let row = [Datum::Int4(row.0), datum(row.1)];
            Ok(matches!(tables.insert(&table, &row, on_conflict)?, Inserted::Done(_)))
        })
    }

    /// Updates, or deletes, the row with this first column.
    fn change(&mut self, table: Oid, first: i32, new: Option<Row>) -> Result<(), String> {
        self.run(|tables| {
            let table = tables.table(table)?;
            let range = KeyRange::default();
            let request = request(&table, None, &range, false, &[0, 1]);
            let mut scan = tables.open_scan(&request)?;
            let mut row = vec![Datum::Null; 3];
            while scan.next(&mut row)? {
                if integer(&row[0]) != Some(first) {
                    continue;
                }
                let Datum::Bytea(identity) = row[2].clone() else { panic!("an identity is bytes") };
                match new {
                    Some(new) => {
                        let new = [Datum::Int4(new.0), datum(new.1)];
                        tables.update(&table, &identity, &row[..2], &new)?;
                    }
                    None => tables.delete(&table, &identity, &row[..2])?,
                }
                return Ok(());
            }
            panic!("there is no row {first}");
        })
    }

    /// Rows of a table in the order of an index, or of their own key.
    fn rows(&mut self, table: Oid, index: Option<usize>, range: &KeyRange, is_reverse: bool) -> Vec<Row> {
        self.run(|tables| {
            let table = tables.table(table)?;
            let mut scan = tables.open_scan(&request(&table, index, range, is_reverse, &[0, 1]))?;
            let (mut rows, mut row) = (Vec::new(), vec![Datum::Null; 3]);
            while scan.next(&mut row)? {
                rows.push((integer(&row[0]).unwrap(), integer(&row[1])));
            }
            Ok(rows)
        })
        .unwrap()
    }

    fn end(&mut self, is_commit: bool) -> Result<(), String> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        let checked = match is_commit {
            true => self.world.within(&mut transaction, |definer| definer.tables.finish_transaction()),
            false => Ok(()),
        };
        let checked = checked.map_err(|error| error.code.as_str().to_owned());
        if is_commit && checked.is_ok() {
            transaction.commit().unwrap();
        } else {
            transaction.rollback();
        }
        self.world.session.end_transaction();
        checked
    }

    /// Does a change here and in the model; both have the same outcome.
    fn apply(&mut self, change: &Change, model: &mut Model) -> Result<(), TestCaseError> {
        let shape = self.shape;
        let nth = |rows: &BTreeMap<i32, Option<i32>>, n: usize| rows.iter().nth(n).map(|(a, b)| (*a, *b));
        let mut after = model.clone();
        let (expected, found) = match *change {
            Change::InsertParent(p, u) => {
                let found = self.insert(self.parent, (p, u), OnConflict::Fail).map(drop);
                (after.insert_parent(p, u), found)
            }
            Change::InsertParentUnless(p, u) => {
                let expected = after.insert_parent(p, u).is_ok();
                let found = self.insert(self.parent, (p, u), OnConflict::Report(&[]));
                prop_assert_eq!(found.as_ref(), Ok(&expected));
                (if expected { Ok(()) } else { Err("") }, if expected { Ok(()) } else { Err(String::new()) })
            }
            Change::UpdateParent(n, p, u) => {
                let Some(old) = nth(&model.parents, n) else { return Ok(()) };
                let found = self.change(self.parent, old.0, Some((p, u)));
                (after.update_parent(shape, old, (p, u)), found)
            }
            Change::DeleteParent(n) => {
                let Some(old) = nth(&model.parents, n) else { return Ok(()) };
                (after.delete_parent(shape, old), self.change(self.parent, old.0, None))
            }
            Change::InsertChild(r) => {
                self.next_child += 1;
                let x = self.next_child;
                let found = self.insert(self.child, (x, r), OnConflict::Fail).map(drop);
                (after.insert_child(shape, x, r), found)
            }
            Change::UpdateChild(n, r) => {
                let Some((x, old)) = nth(&model.children, n) else { return Ok(()) };
                after.children.insert(x, r);
                let expected = if r == old { Ok(()) } else { after.check_child(shape, r) };
                (expected, self.change(self.child, x, Some((x, r))))
            }
            Change::MoveChild(n) => {
                let Some((x, r)) = nth(&model.children, n) else { return Ok(()) };
                self.next_child += 1;
                after.children.remove(&x);
                after.children.insert(self.next_child, r);
                (Ok(()), self.change(self.child, x, Some((self.next_child, r))))
            }
            Change::DeleteChild(n) => {
                let Some((x, _)) = nth(&model.children, n) else { return Ok(()) };
                after.children.remove(&x);
                (Ok(()), self.change(self.child, x, None))
            }
            Change::Commit | Change::RollBack => return Ok(()),
        };
        prop_assert_eq!(expected.map_err(str::to_owned), found, "{:?} of {:?}", change, model);
        if expected.is_ok() {
            *model = after;
        }
        Ok(())
    }

    /// All orders of all rows.
    fn compare(&mut self, model: &Model) -> Result<(), TestCaseError> {
        let (parent, child, all) = (self.parent, self.child, KeyRange::default());
        let parents: Vec<Row> = model.parents.iter().map(|(p, u)| (*p, *u)).collect();
        let mut children: Vec<Row> = model.children.iter().map(|(x, r)| (*x, *r)).collect();
        prop_assert_eq!(&self.rows(parent, None, &all, false), &parents);
        let reversed: Vec<Row> = parents.iter().rev().copied().collect();
        prop_assert_eq!(&self.rows(parent, None, &all, true), &reversed);
        let mut found = self.rows(child, None, &all, false);
        found.sort_unstable();
        prop_assert_eq!(&found, &children);
        // Nulls are last, and the row's key decides among equal ones.
        let order = |row: &Row| (row.1.is_none(), row.1, row.0);
        let mut by_value = parents.clone();
        by_value.sort_unstable_by_key(order);
        prop_assert_eq!(&self.rows(parent, Some(1), &all, false), &by_value, "the unique index");
        let mut descending = parents.clone();
        descending.sort_unstable_by_key(|row| (row.1.is_some(), row.1.map(std::cmp::Reverse), row.0));
        prop_assert_eq!(&self.rows(parent, Some(2), &all, false), &descending, "the descending one");
        let partial: Vec<Row> = by_value.iter().filter(|row| row.0 > 2).copied().collect();
        prop_assert_eq!(&self.rows(parent, Some(3), &all, false), &partial, "the partial one");
        let bound = |value: i32, is_inclusive| Some(KeyBound { value: Datum::Int4(value), is_inclusive });
        let range = KeyRange { equal: Vec::new(), lower: bound(1, false), upper: bound(4, true) };
        let within = |row: &&Row| row.1.is_some_and(|u| u > 1 && u <= 4);
        let expected: Vec<Row> = by_value.iter().filter(within).copied().collect();
        prop_assert_eq!(&self.rows(parent, Some(1), &range, false), &expected, "a range of it");
        let expected: Vec<Row> = descending.iter().filter(within).copied().collect();
        prop_assert_eq!(
            &self.rows(parent, Some(2), &range, false),
            &expected,
            "a range of the descending one"
        );
        if self.shape.has_index {
            let position = usize::from(self.shape.has_key);
            children.sort_unstable_by_key(order);
            let mut found = self.rows(child, Some(position), &all, false);
            found.sort_by_key(order);
            prop_assert_eq!(&found, &children, "the index of the children");
        }
        Ok(())
    }
}

fn request<'a>(
    table: &'a Arc<Table>,
    index: Option<usize>,
    range: &'a KeyRange,
    is_reverse: bool,
    columns: &'a [usize],
) -> ScanRequest<'a> {
    let index = index.map(|position| &table.indexes[position]);
    ScanRequest { table, index, range, is_reverse, columns, with_identity: true }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn rows_and_indexes_are_as_in_a_plain_model(shape in shapes(), changes in changes()) {
        let mut bank = Bank::new(shape);
        let (mut committed, mut model) = (Model::default(), Model::default());
        for change in &changes {
            bank.apply(change, &mut model)?;
            match change {
                Change::Commit => {
                    let expected = if shape.is_deferred { model.check_all(shape) } else { Ok(()) };
                    bank.compare(&model)?;
                    prop_assert_eq!(bank.end(true), expected.map_err(str::to_owned));
                    if expected.is_err() {
                        model = committed.clone();
                    }
                    committed = model.clone();
                }
                Change::RollBack => {
                    bank.end(false).unwrap();
                    model = committed.clone();
                }
                _ => continue,
            }
            bank.compare(&committed)?;
        }
        bank.compare(&model)?;
    }
}

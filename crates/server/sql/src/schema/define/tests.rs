use super::requests::*;
use super::*;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, PUBLIC};
use crate::execute::Storage;
use crate::schema::{ConstraintKind, Identity, IndexedValue, ReferentialAction, RowKey};
use crate::storage::testing::*;
use seawall_values::{Datum, TypeReference, oid};

#[test]
fn a_table_has_the_names_that_postgresql_gives() {
    let mut world = World::new();
    let mut columns = two_columns();
    columns.push(NewColumn { is_serial: true, ..column("id", oid::INT4) });
    let constraints = vec![key(&["id"], true), key(&["a", "b"], false), check("(a > 0)", "a")];
    let table = world.create(new_table("t", columns, constraints));
    let names: Vec<&str> = table.constraints.iter().map(|constraint| &constraint.name[..]).collect();
    assert_eq!(names, ["t_pkey", "t_a_b_key", "t_a_check"]);
    let indexes: Vec<&str> = table.indexes.iter().map(|index| &index.name[..]).collect();
    assert_eq!(indexes, ["t_pkey", "t_a_b_key"]);
    assert!(matches!(&table.key, RowKey::Columns(columns) if columns.len() == 1 && columns[0].column == 2));
    let sequence = table.columns[2].sequence;
    assert_eq!(table.columns[2].default, Some(format!("nextval('{sequence}'::regclass)")));
    assert!(table.columns[2].is_not_null);
    let name = world.run(|definer| definer.described(super::dependents::Object::Relation(sequence)));
    assert_eq!(name.unwrap(), "sequence t_id_seq");
    let again = world.run(|definer| definer.create_table(new_table("t", Vec::new(), Vec::new())));
    assert_eq!(shown(&again.unwrap_err()), "42P07: relation \"t\" already exists");
    let request = NewTable { if_not_exists: true, ..new_table("t", Vec::new(), Vec::new()) };
    assert!(world.run(|definer| definer.create_table(request)).unwrap().is_none());
    assert_eq!(world.notices, ["relation \"t\" already exists, skipping"]);
    let twice = new_table("u", vec![column("a", oid::INT4), column("a", oid::INT4)], Vec::new());
    let error = world.run(|definer| definer.create_table(twice)).unwrap_err();
    assert_eq!(shown(&error), "42701: column \"a\" specified more than once");
    assert_eq!(world.engine_tables(), 5, "definitions, sequences, statistics, rows and one index");
}

#[test]
fn dependents_refuse_or_cascade_as_in_postgresql() {
    let mut world = World::new();
    let parent = world.create(new_table("a", two_columns(), vec![key(&["a"], true)]));
    let action = ReferentialAction::NoAction;
    let child = world.create(new_table("b", two_columns(), vec![foreign_key("b", parent.oid, action)]));
    let view = NewView {
        name: "v".to_owned(),
        namespace: PUBLIC,
        or_replace: false,
        columns: vec![("a".to_owned(), TypeReference::of(oid::INT4))],
        query: "SELECT a FROM a".to_owned(),
        search_path: Vec::new(),
        uses: vec![(parent.oid, 1)],
        options: Vec::new(),
    };
    world.run(|definer| definer.create_view(&view)).unwrap();
    assert_eq!(
        world.drop_all(RelationKind::Table, &["a"], Behavior::Restrict).unwrap_err(),
        "2BP01: cannot drop table a because other objects depend on it | constraint b_b_fkey on table b depends on table a\n\
         view v depends on table a | Use DROP ... CASCADE to drop the dependent objects too."
    );
    assert_eq!(
        world
            .alter(
                parent.oid,
                TableChange::DropConstraint {
                    name: "a_pkey".to_owned(),
                    if_exists: false,
                    behavior: Behavior::Restrict
                }
            )
            .unwrap_err(),
        "2BP01: cannot drop constraint a_pkey on table a because other objects depend on it | \
         constraint b_b_fkey on table b depends on index a_pkey | Use DROP ... CASCADE to drop the dependent objects too."
    );
    let column_of_view =
        TableChange::DropColumn { name: "a".to_owned(), if_exists: false, behavior: Behavior::Restrict };
    assert_eq!(
        world.alter(parent.oid, column_of_view).unwrap_err(),
        "2BP01: cannot drop column a of table a because other objects depend on it | \
         constraint b_b_fkey on table b depends on column a of table a\nview v depends on column a of table a | \
         Use DROP ... CASCADE to drop the dependent objects too."
    );
    assert_eq!(
        world.drop_all(RelationKind::View, &["a"], Behavior::Restrict).unwrap_err(),
        "42809: \"a\" is not a view | Use DROP TABLE to remove a table."
    );
    assert_eq!(
        world.drop_all(RelationKind::Index, &["a_pkey"], Behavior::Cascade).unwrap_err(),
        "2BP01: cannot drop index a_pkey because constraint a_pkey on table a requires it | \
         You can drop constraint a_pkey on table a instead."
    );
    world.drop_all(RelationKind::Table, &["a"], Behavior::Cascade).unwrap();
    assert_eq!(
        world.notices,
        [
            "drop cascades to 2 other objects | drop cascades to constraint b_b_fkey on table b\ndrop cascades to view v"
        ]
    );
    let child = world.run(|definer| definer.tables.table(child.oid)).unwrap();
    assert!(child.constraints.is_empty());
    assert_eq!(world.insert(child.oid, &[number(1), number(7)]), Ok(()));
    assert_eq!(
        world.drop_all(RelationKind::Table, &["a"], Behavior::Restrict).unwrap_err(),
        "42P01: table \"a\" does not exist"
    );
    assert_eq!(world.engine_tables(), 4);
}

#[test]
fn tables_that_refer_to_each_other_go_together() {
    let mut world = World::new();
    let parent = world.create(new_table("a", two_columns(), vec![key(&["a"], true)]));
    let action = ReferentialAction::Cascade;
    world.create(new_table("b", two_columns(), vec![foreign_key("b", parent.oid, action)]));
    assert_eq!(world.drop_all(RelationKind::Table, &["a", "b"], Behavior::Restrict), Ok(()));
    assert!(world.notices.is_empty());
    let parent = world.create(new_table("a", two_columns(), vec![key(&["a"], true)]));
    let child = world.create(new_table("b", two_columns(), vec![foreign_key("b", parent.oid, action)]));
    assert_eq!(world.insert(parent.oid, &[number(1), number(1)]), Ok(()));
    assert_eq!(world.insert(child.oid, &[number(1), number(1)]), Ok(()));
    let request = |tables: Vec<Oid>, behavior| Truncate { tables, restarts_identity: false, behavior };
    let alone = request(vec![parent.oid], Behavior::Restrict);
    assert_eq!(
        shown(&world.run(|definer| definer.truncate(&alone)).unwrap_err()),
        "0A000: cannot truncate a table referenced in a foreign key constraint | Table \"b\" references \"a\". | \
         Truncate table \"b\" at the same time, or use TRUNCATE ... CASCADE."
    );
    let cascade = request(vec![parent.oid], Behavior::Cascade);
    world.run(|definer| definer.truncate(&cascade)).unwrap();
    assert_eq!(world.notices, ["truncate cascades to table \"b\""]);
    assert!(world.rows(parent.oid).is_empty() && world.rows(child.oid).is_empty());
}

#[test]
fn a_schema_goes_with_all_that_is_in_it() {
    let mut world = World::new();
    let request = NewNamespace { name: "s".to_owned(), owner: None, if_not_exists: false };
    let namespace = world.run(|definer| definer.create_schema(&request)).unwrap().unwrap();
    let serial = NewColumn { is_serial: true, ..column("id", oid::INT8) };
    let table = NewTable { namespace, ..new_table("t", vec![serial], vec![key(&["id"], true)]) };
    world.create(table);
    let drop = |behavior| DropNamed { names: vec!["s".to_owned()], if_exists: false, behavior };
    let error = world.run(|definer| definer.drop_schemas(&drop(Behavior::Restrict))).unwrap_err();
    assert_eq!(
        shown(&error),
        "2BP01: cannot drop schema s because other objects depend on it | table s.t depends on schema s | \
         Use DROP ... CASCADE to drop the dependent objects too."
    );
    world.run(|definer| definer.drop_schemas(&drop(Behavior::Cascade))).unwrap();
    assert_eq!(world.notices, ["drop cascades to table s.t"]);
    assert_eq!(world.engine_tables(), 3);
    let error = world.run(|definer| definer.drop_schemas(&drop(Behavior::Cascade))).unwrap_err();
    assert_eq!(shown(&error), "3F000: schema \"s\" does not exist");
}

#[test]
fn columns_come_and_go_and_rows_keep_their_values() {
    let mut world = World::new();
    let table = world.create(new_table("t", two_columns(), Vec::new())).oid;
    for value in 1..=3 {
        world.insert(table, &[number(value), number(value * 10)]).unwrap();
    }
    let add =
        |column: NewColumn| TableChange::AddColumn { column, constraints: vec![], if_not_exists: false };
    let with_default = |text: &str, missing: Option<Datum>| {
        let default = Some(Expression { text: text.to_owned(), sequences: Vec::new() });
        NewColumn { default, missing, ..column(&format!("c{text}"), oid::INT4) }
    };
    world.alter(table, add(with_default("7", Some(number(7))))).unwrap();
    world.alter(table, add(with_default("8", None))).unwrap();
    let required = NewColumn { is_not_null: true, ..column("d", oid::INT4) };
    assert_eq!(
        world.alter(table, add(required)).unwrap_err(),
        "23502: column \"d\" of relation \"t\" contains null values"
    );
    world.alter(table, add(NewColumn { is_serial: true, ..column("id", oid::INT2) })).unwrap();
    let generated = Expression { text: "(b * 2)".to_owned(), sequences: Vec::new() };
    world.alter(table, add(NewColumn { generated: Some(generated), ..column("g", oid::INT4) })).unwrap();
    assert_eq!(world.rows(table), ["1,10,7,8,1,20", "2,20,7,8,2,40", "3,30,7,8,3,60"]);
    let drop =
        |name: &str, behavior| TableChange::DropColumn { name: name.to_owned(), if_exists: false, behavior };
    assert_eq!(
        world.alter(table, drop("b", Behavior::Restrict)).unwrap_err(),
        "2BP01: cannot drop column b of table t because other objects depend on it | \
         column g of table t depends on column b of table t | \
         Use DROP ... CASCADE to drop the dependent objects too."
    );
    world.alter(table, drop("b", Behavior::Cascade)).unwrap();
    assert_eq!(world.notices, ["drop cascades to column g of table t"]);
    world.alter(table, drop("id", Behavior::Restrict)).unwrap();
    assert_eq!(world.rows(table)[1], "2,7,8");
    let sequence = world.drop_all(RelationKind::Sequence, &["t_id_seq"], Behavior::Restrict);
    assert_eq!(sequence.unwrap_err(), "42P01: sequence \"t_id_seq\" does not exist");
    assert_eq!(
        world.alter(table, drop("zz", Behavior::Restrict)).unwrap_err(),
        "42703: column \"zz\" of relation \"t\" does not exist"
    );
}

#[test]
fn rows_get_another_key_with_a_primary_key_and_without() {
    let mut world = World::new();
    let mut columns = two_columns();
    columns.push(column("c", oid::TEXT));
    let table = world.create(new_table("t", columns, vec![key(&["b"], false)])).oid;
    for value in [3, 1, 2] {
        let row = [number(value), number(value * 10), Datum::text(value.to_string())];
        world.insert(table, &row).unwrap();
    }
    assert_eq!(world.rows(table)[0], "3,30,3", "in the order of their numbers");
    let changed = world.alter(table, TableChange::AddConstraint(key(&["a"], true))).unwrap();
    assert!(matches!(changed.key, RowKey::Columns(_)) && changed.columns[0].is_not_null);
    assert_eq!(world.rows(table)[0], "1,10,1", "in the order of their keys");
    let again = [number(1), number(99), Datum::Null];
    assert_eq!(
        world.insert(table, &again).unwrap_err(),
        "23505: duplicate key value violates unique constraint \"t_pkey\" | Key (a)=(1) already exists."
    );
    assert_eq!(
        world.alter(table, TableChange::AddConstraint(key(&["b"], true))).unwrap_err(),
        "42P16: multiple primary keys for table \"t\" are not allowed"
    );
    let drop = TableChange::DropConstraint {
        name: "t_pkey".to_owned(),
        if_exists: false,
        behavior: Behavior::Restrict,
    };
    assert_eq!(world.alter(table, drop).unwrap().key, RowKey::Number);
    world.insert(table, &again).unwrap();
    assert_eq!(world.rows(table).len(), 4);
    assert_eq!(
        world.alter(table, TableChange::AddConstraint(key(&["a"], true))).unwrap_err(),
        "23505: could not create unique index \"t_pkey\" | Key (a)=(1) is duplicated."
    );
    assert_eq!(
        world.insert(table, &[number(5), number(10), Datum::Null]).unwrap_err(),
        "23505: duplicate key value violates unique constraint \"t_b_key\" | Key (b)=(10) already exists."
    );
    assert_eq!(world.engine_tables(), 5);
}

#[test]
fn a_column_gets_another_type_with_its_indexes_and_constraints() {
    let mut world = World::new();
    let table =
        world.create(new_table("t", two_columns(), vec![key(&["b"], true), check("(a > 0)", "a")])).oid;
    for value in 1..=3 {
        world.insert(table, &[number(value), number(value)]).unwrap();
    }
    let to = |of, using: &str| ColumnType {
        domain: 0,
        of: TypeReference::of(of),
        using: Some(using.to_owned()),
        default: None,
    };
    let changed = world.alter(table, TableChange::SetType("b".to_owned(), to(oid::TEXT, "(b as text)")));
    assert_eq!(changed.unwrap().indexes[0].keys[0].of.oid, oid::TEXT);
    assert_eq!(world.rows(table)[2], "3,3");
    let zero = TableChange::SetType("a".to_owned(), to(oid::INT4, "0"));
    assert_eq!(
        world.alter(table, zero).unwrap_err(),
        "23514: check constraint \"t_a_check\" of relation \"t\" is violated by some row"
    );
    let one = TableChange::SetType("b".to_owned(), to(oid::INT4, "1"));
    assert_eq!(
        world.alter(table, one).unwrap_err(),
        "23505: could not create unique index \"t_pkey\" | Key (b)=(1) is duplicated."
    );
    assert_eq!(world.rows(table).len(), 3, "what failed has changed nothing");
}

#[test]
fn names_change_and_texts_of_expressions_with_them() {
    let mut world = World::new();
    let table =
        world.create(new_table("t", two_columns(), vec![check("(a > 0)", "a"), key(&["b"], false)])).oid;
    world.alter(table, TableChange::RenameColumn("a".to_owned(), "x".to_owned())).unwrap();
    let renamed = world.alter(table, TableChange::RenameConstraint("t_b_key".to_owned(), "k".to_owned()));
    let renamed = renamed.unwrap();
    assert!(matches!(&renamed.constraints[0].kind, ConstraintKind::Check(text) if text == "(x > 0)"));
    assert_eq!((&renamed.constraints[1].name[..], &renamed.indexes[0].name[..]), ("k", "k"));
    world.run(|definer| definer.rename_relation(table, "u")).unwrap();
    assert_eq!(
        world.drop_all(RelationKind::Table, &["t"], Behavior::Restrict).unwrap_err(),
        "42P01: table \"t\" does not exist"
    );
    assert_eq!(
        world.alter(table, TableChange::RenameColumn("x".to_owned(), "b".to_owned())).unwrap_err(),
        "42701: column \"b\" of relation \"u\" already exists"
    );
    let index = renamed.indexes[0].oid;
    world.run(|definer| definer.rename_relation(index, "j")).unwrap();
    let table = world.run(|definer| definer.tables.table(table)).unwrap();
    assert_eq!(table.constraints[1].name, "j", "as the index, so the constraint");
}

#[test]
fn indexes_of_expressions_and_parts_are_built_and_kept() {
    let mut world = World::new();
    let table =
        world.create(new_table("t", vec![column("a", oid::INT4), column("c", oid::TEXT)], vec![])).oid;
    world.insert(table, &[number(1), Datum::text("X")]).unwrap();
    world.insert(table, &[number(-1), Datum::text("x")]).unwrap();
    let index = |predicate: Option<&str>| NewIndex {
        table,
        name: None,
        keys: vec![NewIndexKey {
            what: IndexedValue::Expression("lower c".to_owned()),
            function: Some("lower".to_owned()),
            of: TypeReference::of(oid::TEXT),
            is_descending: false,
            is_nulls_first: false,
        }],
        included: Vec::new(),
        is_unique: true,
        is_nulls_not_distinct: false,
        predicate: predicate.map(str::to_owned),
        if_not_exists: false,
    };
    let error = world.run(|definer| definer.create_index(&index(None))).unwrap_err();
    assert!(shown(&error).starts_with("23505: could not create unique index \"t_lower_idx\""), "{error}");
    let built = world.run(|definer| definer.create_index(&index(Some("(a > 0)")))).unwrap().unwrap();
    assert_eq!(built.name, "t_lower_idx");
    assert!(world.insert(table, &[number(5), Datum::text("x")]).unwrap_err().starts_with("23505"));
    world.insert(table, &[number(-5), Datum::text("x")]).unwrap();
    world.drop_all(RelationKind::Index, &["t_lower_idx"], Behavior::Restrict).unwrap();
    world.insert(table, &[number(5), Datum::text("x")]).unwrap();
}

#[test]
fn a_rollback_takes_all_of_it_back() {
    let mut world = World::new();
    let table = world.create(new_table("t", two_columns(), vec![key(&["a"], true)])).oid;
    world.insert(table, &[number(1), number(1)]).unwrap();
    let mut transaction = world.begin();
    let moment = transaction.savepoint();
    let add = TableChange::AddColumn {
        column: NewColumn {
            identity: Some((Identity::Always, SequenceOptions::default())),
            ..column("i", oid::INT4)
        },
        constraints: Vec::new(),
        if_not_exists: false,
    };
    world.within(&mut transaction, |definer| definer.alter_table(table, &add)).unwrap();
    let name = RelationName { schema: None, name: "t".to_owned() };
    let gone = DropRelations {
        kind: RelationKind::Table,
        names: vec![name],
        if_exists: false,
        behavior: Behavior::Restrict,
    };
    world.within(&mut transaction, |definer| definer.drop_relations(&gone)).unwrap();
    transaction.rollback_to(&moment).unwrap();
    world.session.forget_definitions();
    let found = world.within(&mut transaction, |definer| definer.tables.table(table)).unwrap();
    assert_eq!(found.columns.len(), 2);
    transaction.commit().unwrap();
    assert_eq!(world.rows(table), ["1,1"]);
}

#[test]
fn roles_own_objects_and_are_members_of_each_other() {
    let mut world = World::new();
    let role = |name: &str| NewRole {
        name: name.to_owned(),
        options: RoleOptions::default(),
        member_of: Vec::new(),
        members: Vec::new(),
    };
    let (one, two) = world
        .run(|definer| Ok((definer.create_role(&role("one"))?, definer.create_role(&role("two"))?)))
        .unwrap();
    world.run(|definer| definer.grant_roles(&[one], &[two], false)).unwrap();
    let error = world.run(|definer| definer.grant_roles(&[two], &[one], false)).unwrap_err();
    assert_eq!(shown(&error), "0LP01: role \"two\" is a member of role \"one\"");
    let table = world.create(new_table("t", two_columns(), Vec::new())).oid;
    world.run(|definer| definer.give_relation(table, one)).unwrap();
    let drop = |name: &str| DropNamed {
        names: vec![name.to_owned()],
        if_exists: false,
        behavior: Behavior::Restrict,
    };
    let error = world.run(|definer| definer.drop_roles(&drop("one"))).unwrap_err();
    assert_eq!(
        shown(&error),
        "2BP01: role \"one\" cannot be dropped because some objects depend on it | owner of table t"
    );
    world.owner = two;
    world.alter(table, TableChange::SetNotNull("a".to_owned(), true)).unwrap();
    let error = world.run(|definer| definer.create_role(&role("three"))).unwrap_err();
    assert_eq!(shown(&error), "42501: permission denied to create role");
    world.owner = BOOTSTRAP_ROLE;
    world.run(|definer| definer.revoke_roles(&[one], &[two], false)).unwrap();
    world.owner = two;
    assert_eq!(
        world.alter(table, TableChange::SetNotNull("a".to_owned(), false)).unwrap_err(),
        "42501: must be owner of table t"
    );
    world.owner = BOOTSTRAP_ROLE;
    world.run(|definer| definer.drop_roles(&drop("two"))).unwrap();
}

#[test]
fn sequences_start_where_they_are_told() {
    let mut world = World::new();
    let request = |options: SequenceOptions| NewSequence {
        name: "s".to_owned(),
        namespace: PUBLIC,
        if_not_exists: false,
        options,
    };
    let options = SequenceOptions { of: Some(oid::INT2), maximum: Some(Some(70_000)), ..Default::default() };
    let error = world.run(|definer| definer.create_sequence(&request(options))).unwrap_err();
    assert_eq!(shown(&error), "22023: MAXVALUE (70000) is out of range for sequence data type smallint");
    let options = SequenceOptions { increment: Some(-1), ..Default::default() };
    let oid = world.run(|definer| definer.create_sequence(&request(options))).unwrap().unwrap();
    let next =
        |world: &mut World| world.run(|definer| Storage::next_value(&mut definer.tables, oid)).unwrap();
    assert_eq!((next(&mut world), next(&mut world)), (-1, -2));
    let restart = SequenceOptions { restart: Some(Some(-10)), ..Default::default() };
    world.run(|definer| definer.alter_sequence(oid, &restart)).unwrap();
    assert_eq!(next(&mut world), -10);
    let mut transaction = world.begin();
    let anew = SequenceOptions { restart: Some(None), ..Default::default() };
    world.within(&mut transaction, |definer| definer.alter_sequence(oid, &anew)).unwrap();
    transaction.rollback();
    assert_eq!(next(&mut world), -11, "what was rolled back has not begun anew");
    world.run(|definer| definer.alter_sequence(oid, &anew)).unwrap();
    assert_eq!(next(&mut world), -1);
}

#[test]
fn comments_are_of_objects_that_are_there() {
    let mut world = World::new();
    let table = world.create(new_table("t", two_columns(), Vec::new())).oid;
    let on = Commented::Column(table, "b".to_owned());
    world.run(|definer| definer.comment(&on, Some("it"))).unwrap();
    let error =
        world.run(|definer| definer.comment(&Commented::Column(table, "z".to_owned()), None)).unwrap_err();
    assert_eq!(shown(&error), "42703: column \"z\" of relation \"t\" does not exist");
    let comments = |world: &mut World| {
        world.run(|definer| definer.tables.store.comments(definer.tables.transaction, Some(table))).unwrap()
    };
    let found = comments(&mut world);
    assert_eq!((found.len(), found[0].column, &found[0].text[..]), (1, 2, "it"));
    let gone =
        TableChange::DropColumn { name: "b".to_owned(), if_exists: false, behavior: Behavior::Restrict };
    world.alter(table, gone).unwrap();
    assert!(comments(&mut world).is_empty());
}

#[test]
fn a_deferrable_key_may_be_there_twice_for_a_while() {
    let mut world = World::new();
    let deferrable = |is_deferred, is_primary, column: &str| NewConstraint {
        is_deferrable: true,
        is_deferred,
        ..key(&[column], is_primary)
    };
    let constraints = vec![deferrable(true, true, "a"), deferrable(false, false, "b")];
    let table = world.create(new_table("t", two_columns(), constraints)).oid;
    for value in 1..=2 {
        world.insert(table, &[number(value), number(value)]).unwrap();
    }
    let twice = "23505: duplicate key value violates unique constraint";
    let immediate = world.insert(table, &[number(3), number(1)]).unwrap_err();
    assert_eq!(immediate, format!("{twice} \"t_b_key\" | Key (b)=(1) already exists."));
    let mut transaction = world.begin();
    let insert = |world: &mut World, transaction: &mut seawall_engine::Transaction, row: [Datum; 2]| {
        world.within(transaction, |definer| {
            let table = definer.tables.table(table)?;
            definer.tables.insert(&table, &row, crate::execute::OnConflict::Fail).map(drop)
        })
    };
    insert(&mut world, &mut transaction, [number(1), number(7)]).unwrap();
    assert!(world.session.foreign_keys.has_deferred());
    let end = world.within(&mut transaction, |definer| definer.tables.finish_transaction());
    assert_eq!(shown(&end.unwrap_err()), format!("{twice} \"t_pkey\" | Key (a)=(1) already exists."));
    transaction.rollback();
    world.session.end_transaction();
    assert_eq!(world.rows(table), ["1,1", "2,2"]);
    let add = TableChange::AddConstraint(foreign_key("b", table, ReferentialAction::NoAction));
    assert_eq!(
        world.alter(table, add).unwrap_err(),
        "55000: cannot use a deferrable primary key for referenced table \"t\""
    );
}

#[test]
fn a_transaction_with_one_snapshot_builds_no_index_without_rows_of_others() {
    let mut world = World::new();
    let table = world.create(new_table("t", two_columns(), Vec::new())).oid;
    world.insert(table, &[number(1), number(1)]).unwrap();
    let unique = TableChange::AddConstraint(key(&["a"], false));
    let mut transaction = world.database.begin();
    world.within(&mut transaction, |definer| definer.tables.table(table)).unwrap();
    let mut other = world.begin();
    let insert = |definer: &mut Definer<'_>| {
        let table = definer.tables.table(table)?;
        let row = [number(2), number(2)];
        definer.tables.insert(&table, &row, crate::execute::OnConflict::Fail).map(drop)
    };
    world.within(&mut other, insert).unwrap();
    other.commit().unwrap();
    world.session.end_transaction();
    let error = world.within(&mut transaction, |definer| definer.alter_table(table, &unique)).unwrap_err();
    assert_eq!(error.code.as_str(), "40001");
    transaction.rollback();
    world.session.end_transaction();
    let mut transaction = world.database.begin();
    world.within(&mut transaction, insert).unwrap();
    world.within(&mut transaction, |definer| definer.alter_table(table, &unique)).unwrap_err();
    transaction.rollback();
    world.session.end_transaction();
    let mut transaction = world.database.begin();
    let on_b = TableChange::AddConstraint(key(&["b"], false));
    world.within(&mut transaction, |definer| definer.alter_table(table, &on_b)).unwrap();
    transaction.commit().unwrap();
}

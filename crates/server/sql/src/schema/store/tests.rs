use seawall_engine::{Database, MemoryOptions, Options};
use seawall_values::{Datum, TypeReference, oid};

use super::*;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, PUBLIC};
use crate::catalog::source::{Namespace, Role};
use crate::schema::{
    Column, Constraint, ConstraintKind, Definitions, ForeignKey, Identity, IndexKey, IndexedValue, KeyColumn,
    ReferentialAction, RowKey,
};

fn opened() -> (tempfile::TempDir, Database, SchemaStore) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("bank"), Options::default()).unwrap();
    let store = SchemaStore::open(&database, "postgres").unwrap();
    (directory, database, store)
}

/// A session that sees a commit does not take what it knew before for the newest.
#[test]
fn while_a_change_of_definitions_is_committed_everything_may_be_one() {
    let (_directory, database, store) = opened();
    let known_at = database.snapshot().lsn();
    let under_way = store.begin_change();
    let mut transaction = database.begin();
    store.put_settings(&mut transaction, 5, 0, &vec!["work_mem=1MB".to_owned()]).unwrap();
    transaction.commit().unwrap();
    assert!(store.definitions_changed_at() > known_at);
    store.note_change(database.snapshot().lsn());
    drop(under_way);
    assert!(store.definitions_changed_at() > known_at);
    assert!(store.definitions_changed_at() <= database.snapshot().lsn());
}

pub(crate) fn column(name: &str, of: Oid) -> Column {
    Column {
        name: name.to_owned(),
        of: TypeReference::of(of),
        is_not_null: false,
        default: Some("1 + 1".to_owned()),
        identity: Some(Identity::ByDefault),
        generated: None,
        missing: Datum::Int8(5),
        is_dropped: false,
        sequence: 7,
        domain: 0,
    }
}

fn table(store: &SchemaStore, name: &str) -> Table {
    let oid = store.new_oid().unwrap();
    let key = IndexKey {
        what: IndexedValue::Expression("lower(b)".to_owned()),
        of: TypeReference { oid: oid::VARCHAR, modifier: 9 },
        is_descending: true,
        is_nulls_first: false,
    };
    let index = Index {
        oid: store.new_oid().unwrap(),
        name: format!("{name}_index"),
        storage: Some("i1".to_owned()),
        keys: vec![
            key,
            IndexKey {
                what: IndexedValue::Column(0),
                of: TypeReference::of(oid::INT8),
                is_descending: false,
                is_nulls_first: true,
            },
        ],
        included: vec![1],
        is_unique: true,
        is_nulls_not_distinct: true,
        is_primary: false,
        predicate: Some("a > 0".to_owned()),
        is_valid: true,
        constraint: 3,
    };
    let foreign = ForeignKey {
        columns: vec![0],
        target: 1,
        target_columns: vec![2],
        target_index: 3,
        on_update: ReferentialAction::SetDefault,
        on_delete: ReferentialAction::Cascade,
        is_match_full: true,
    };
    let constraint = |kind| Constraint {
        oid: store.new_oid().unwrap(),
        name: "c".to_owned(),
        kind,
        is_deferrable: true,
        is_deferred: false,
        is_validated: true,
    };
    Table {
        oid,
        name: name.to_owned(),
        namespace: PUBLIC,
        owner: BOOTSTRAP_ROLE,
        columns: vec![column("a", oid::INT8), column("b", oid::TEXT)],
        key: RowKey::Columns(vec![KeyColumn { column: 0, is_descending: true, is_nulls_first: false }]),
        storage: format!("t{oid}"),
        constraints: vec![
            constraint(ConstraintKind::Check("a > 0".to_owned())),
            constraint(ConstraintKind::Unique(index.oid)),
            constraint(ConstraintKind::ForeignKey(foreign)),
        ],
        indexes: vec![Arc::new(index)],
        is_temporary: false,
        query: None,
        version: 0,
        options: vec!["fillfactor=100".to_owned()],
    }
}

#[test]
fn definitions_are_read_as_they_were_written_also_after_an_open() {
    let (directory, database, store) = opened();
    let mut transaction = database.begin();
    let written = store.put_table(&mut transaction, table(&store, "t"), None).unwrap();
    let view = View {
        oid: store.new_oid().unwrap(),
        name: "v".to_owned(),
        namespace: PUBLIC,
        owner: BOOTSTRAP_ROLE,
        columns: vec![("x".to_owned(), TypeReference::of(oid::TEXT))],
        query: "SELECT 'x'".to_owned(),
        search_path: vec!["public".to_owned()],
        options: vec!["check_option=local".to_owned()],
    };
    store.put_view(&mut transaction, view.clone(), None).unwrap();
    let sequence = Sequence {
        oid: store.new_oid().unwrap(),
        name: "s".to_owned(),
        namespace: PUBLIC,
        owner: BOOTSTRAP_ROLE,
        of: oid::INT4,
        start: 1,
        increment: -2,
        minimum: i64::MIN,
        maximum: 9,
        cache: 1,
        is_cycling: true,
        owned_by: Some((written.oid, 1)),
        state: 77,
    };
    store.put_sequence(&mut transaction, sequence.clone(), None).unwrap();
    transaction.commit().unwrap();
    drop(store);
    database.close().unwrap();
    let database = Database::open(directory.path().join("bank"), Options::default()).unwrap();
    let store = SchemaStore::open(&database, "postgres").unwrap();
    let mut transaction = database.begin();
    let path = SearchPath::of(&["public".to_owned()], "u", None, 0, &store, &mut transaction).unwrap();
    let mut reader = SchemaReader { store: &store, transaction: &mut transaction, path: &path };
    let shown = |definition: Option<Definition>| format!("{:?}", definition.unwrap());
    let read = reader.relation(None, "t").unwrap();
    assert_eq!(shown(read), format!("{:?}", Definition::Table(Arc::clone(&written))));
    assert_eq!(
        shown(reader.relation(Some("public"), "v").unwrap()),
        format!("{:?}", Definition::View(Arc::new(view)))
    );
    assert_eq!(
        shown(reader.relation(None, "s").unwrap()),
        format!("{:?}", Definition::Sequence(Arc::new(sequence)))
    );
    assert!(
        matches!(reader.relation(None, "t_index").unwrap(), Some(Definition::Index(table, _)) if table.oid == written.oid)
    );
    assert!(matches!(reader.relation(None, "pg_class").unwrap(), Some(Definition::System(_))));
    assert!(reader.relation(None, "nothing").unwrap().is_none());
    assert_eq!(reader.relation(Some("nowhere"), "t").unwrap_err().code.as_str(), "3F000");
    assert!(store.new_oid().unwrap() > written.oid);
}

#[test]
fn a_rollback_takes_definitions_back_and_a_version_is_never_given_out_again() {
    let (_directory, database, store) = opened();
    let mut transaction = database.begin();
    let first = store.put_table(&mut transaction, table(&store, "t"), None).unwrap();
    transaction.commit().unwrap();
    let mut transaction = database.begin();
    let renamed = Table { name: "u".to_owned(), ..Table::clone(&first) };
    let renamed = store.put_table(&mut transaction, renamed, Some(&first)).unwrap();
    assert_eq!(store.relation_number(&mut transaction, PUBLIC, "t").unwrap(), None);
    assert_eq!(store.relation_number(&mut transaction, PUBLIC, "u").unwrap(), Some(first.oid));
    transaction.rollback();
    let mut transaction = database.begin();
    let Some(Definition::Table(read)) = store.definition(&mut transaction, first.oid).unwrap() else {
        panic!("the table is there");
    };
    assert_eq!((read.name.as_str(), read.version), ("t", first.version));
    let altered = store.put_table(&mut transaction, Table::clone(&first), Some(&first)).unwrap();
    assert!(altered.version > renamed.version);
}

#[test]
fn a_name_is_taken_once() {
    let (_directory, database, store) = opened();
    let mut transaction = database.begin();
    store.put_table(&mut transaction, table(&store, "t"), None).unwrap();
    let taken = store.put_table(&mut transaction, table(&store, "t"), None).unwrap_err();
    assert_eq!((taken.code.as_str(), &taken.message[..]), ("42P07", "relation \"t\" already exists"));
    let taken = store.put_table(&mut transaction, table(&store, "t_index"), None).unwrap_err();
    assert_eq!(taken.message, "relation \"t_index\" already exists");
}

#[test]
fn removed_relations_leave_no_rows() {
    let (_directory, database, store) = opened();
    let mut transaction = database.begin();
    let count = |transaction: &mut Transaction| transaction.rows(&store.definitions).count();
    store.new_oid().unwrap();
    store.new_version().unwrap();
    let before = count(&mut transaction);
    let written = store.put_table(&mut transaction, table(&store, "t"), None).unwrap();
    store.put_comment(&mut transaction, (written.oid, 1259, 2), Some("second")).unwrap();
    store.put_dependency(&mut transaction, (written.oid, 1), (99, 0)).unwrap();
    assert_eq!(
        store.dependents(&mut transaction, 99).unwrap(),
        [Dependent { oid: written.oid, column: 1, on_column: 0 }]
    );
    assert_eq!(store.comments(&mut transaction, Some(written.oid)).unwrap()[0].text, "second");
    assert_eq!(store.relations_in(&mut transaction, PUBLIC).unwrap().len(), 2);
    store.remove_relation(&mut transaction, &Definition::Table(written)).unwrap();
    assert_eq!(count(&mut transaction), before);
}

#[test]
fn roles_schemas_and_settings_are_found_by_name_and_number() {
    let (_directory, database, store) = opened();
    let mut transaction = database.begin();
    let postgres = store.role_named(&mut transaction, "postgres").unwrap().unwrap();
    assert!(postgres.is_superuser && postgres.oid == BOOTSTRAP_ROLE);
    let taken = store.put_role(&mut transaction, &Role { oid: 16400, ..postgres.clone() }, None).unwrap_err();
    assert_eq!((taken.code.as_str(), &taken.message[..]), ("42710", "role \"postgres\" already exists"));
    let renamed = Role { name: "admin".to_owned(), member_of: vec![(3, true)], ..postgres.clone() };
    store.put_role(&mut transaction, &renamed, Some(&postgres)).unwrap();
    assert!(store.role_named(&mut transaction, "postgres").unwrap().is_none());
    assert_eq!(store.roles(&mut transaction).unwrap()[0].member_of, [(3, true)]);
    let s = Namespace { oid: 16500, name: "s".to_owned(), owner: 10 };
    store.put_namespace(&mut transaction, &s, None).unwrap();
    let taken =
        store.put_namespace(&mut transaction, &Namespace { oid: 16501, ..s.clone() }, None).unwrap_err();
    assert_eq!((taken.code.as_str(), &taken.message[..]), ("42P06", "schema \"s\" already exists"));
    assert_eq!(store.namespaces(&mut transaction).unwrap().len(), 2);
    store.put_settings(&mut transaction, 5, 0, &vec!["work_mem=1MB".to_owned()]).unwrap();
    assert_eq!(store.settings_of(&mut transaction, 5, 0).unwrap(), ["work_mem=1MB"]);
    assert!(store.settings_of(&mut transaction, 0, 10).unwrap().is_empty());
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap();
    statistics.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn memory_does_not_grow_with_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let small = Options {
        memory: MemoryOptions { memtable_bytes: 16 << 20, cache_bytes: 8 << 20, ..MemoryOptions::default() },
        ..Options::default()
    };
    let database = Database::open(directory.path().join("bank"), small).unwrap();
    let store = SchemaStore::open(&database, "postgres").unwrap();
    let fill = |from: u32, to: u32| {
        for batch in (from..to).step_by(1000) {
            let mut transaction = database.begin();
            for number in batch..batch + 1000 {
                store.put_table(&mut transaction, table(&store, &format!("t{number}")), None).unwrap();
            }
            transaction.commit().unwrap();
        }
    };
    fill(0, 20_000);
    let before = resident_bytes();
    fill(20_000, 100_000);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more for 80,000 tables");
    let mut transaction = database.begin();
    let last = store.relation_number(&mut transaction, PUBLIC, "t99999").unwrap().unwrap();
    assert!(matches!(store.definition(&mut transaction, last).unwrap(), Some(Definition::Table(_))));
}

#[test]
fn what_is_kept_of_a_hundred_thousand_tables_is_bounded() {
    let (_directory, database, store) = opened();
    let count = 100_000;
    let mut oids = Vec::with_capacity(count);
    while oids.len() < count {
        let mut transaction = database.begin();
        transaction.set_durability(seawall_engine::Durability::Async);
        for _ in 0..1_000 {
            let oid = store.new_oid().unwrap();
            let plain = Table {
                oid,
                name: format!("t{oid}"),
                storage: format!("t{oid}"),
                indexes: Vec::new(),
                constraints: Vec::new(),
                ..table(&store, "other")
            };
            store.put_table(&mut transaction, plain, None).unwrap();
            oids.push(oid);
        }
        transaction.commit().unwrap();
    }
    let store = SchemaStore::open(&database, "postgres").unwrap();
    assert_eq!(store.decoded.len(), 0, "nothing is loaded at open");
    let path = SearchPath { namespaces: vec![PUBLIC], temporary: 0, creation: None, rights: None };
    let mut transaction = database.begin();
    for oid in oids.iter().step_by(7) {
        let mut reader = SchemaReader { store: &store, transaction: &mut transaction, path: &path };
        let found = reader.relation(None, &format!("t{oid}")).unwrap();
        assert!(matches!(found, Some(Definition::Table(table)) if table.oid == *oid));
    }
    assert!(store.decoded.len() <= KEPT_MAX);
}

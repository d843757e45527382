//! The schema of the tests, as PostgreSQL 15 would make it by
//!
//! ```sql
//! CREATE SCHEMA s;
//! CREATE TABLE s.p (id serial PRIMARY KEY, code varchar(20) UNIQUE NOT NULL, n numeric(10,2) DEFAULT 1.5, t timestamp(3) with time zone DEFAULT now());
//! CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY, b text, c int REFERENCES s.p(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
//!   d int GENERATED ALWAYS AS (1+2) STORED, e char(3), f int[], CONSTRAINT ck CHECK (a > 0),
//!   CONSTRAINT u UNIQUE NULLS NOT DISTINCT (b, c) INCLUDE (e));
//! CREATE INDEX i ON t (lower(b), c DESC NULLS LAST) WHERE a > 1;
//! CREATE VIEW v AS SELECT a, b FROM t WHERE a > 5;
//! CREATE SEQUENCE sq AS smallint INCREMENT 2 CYCLE OWNED BY t.c;
//! COMMENT ON TABLE t IS 'hello';
//! COMMENT ON COLUMN t.b IS 'col';
//! ```

use std::sync::Arc;

use seawall_values::{Datum, Oid, SqlResult, TypeReference, oid};

use crate::catalog::numbers::{BOOTSTRAP_ROLE, PG_CATALOG, PG_CLASS, PG_NAMESPACE, PUBLIC};
use crate::catalog::source::{Asker, Comment, Namespace, Role, Setting, Source};
use crate::catalog::{heading, oid_of};
use crate::schema::privilege::{AccessItem, AccessList, ObjectKind, Privileges};
use crate::schema::*;

pub(super) const S: Oid = 16384;
pub(super) const P: Oid = 16385;
pub(super) const P_ID_SEQ: Oid = 16386;
pub(super) const P_PKEY: Oid = 16387;
pub(super) const T: Oid = 16391;
pub(super) const T_A_SEQ: Oid = 16392;
pub(super) const CK: Oid = 16393;
pub(super) const U: Oid = 16394;
pub(super) const T_C_FKEY: Oid = 16396;
pub(super) const I: Oid = 16397;
pub(super) const V: Oid = 16398;
pub(super) const SQ: Oid = 16399;
pub(super) const ALICE: Oid = 16400;

pub(super) struct Schema {
    pub(super) asker: Asker,
    pub(super) owner_name: String,
    definitions: Vec<Definition>,
}

fn column(name: &str, of: Oid, modifier: i32) -> Column {
    Column {
        name: name.to_owned(),
        of: TypeReference { oid: of, modifier },
        is_not_null: false,
        default: None,
        identity: None,
        generated: None,
        missing: Datum::Null,
        is_dropped: false,
        sequence: 0,
        domain: 0,
    }
}

fn key(what: IndexedValue, of: Oid) -> IndexKey {
    IndexKey { what, of: TypeReference::of(of), is_descending: false, is_nulls_first: false }
}

fn index(oid: Oid, name: &str, keys: Vec<IndexKey>) -> Index {
    Index {
        oid,
        name: name.to_owned(),
        storage: None,
        keys,
        included: Vec::new(),
        is_unique: true,
        is_nulls_not_distinct: false,
        is_primary: false,
        predicate: None,
        is_valid: true,
        constraint: oid + 1,
    }
}

fn constraint(oid: Oid, name: &str, kind: ConstraintKind) -> Constraint {
    Constraint {
        oid,
        name: name.to_owned(),
        kind,
        is_deferrable: false,
        is_deferred: false,
        is_validated: true,
    }
}

fn table(oid: Oid, name: &str, namespace: Oid, columns: Vec<Column>) -> Table {
    Table {
        oid,
        name: name.to_owned(),
        namespace,
        owner: BOOTSTRAP_ROLE,
        columns,
        key: RowKey::Number,
        storage: format!("t{oid}"),
        indexes: Vec::new(),
        constraints: Vec::new(),
        is_temporary: false,
        query: None,
        version: 1,
        options: Vec::new(),
    }
}

fn sequence(oid: Oid, name: &str, namespace: Oid, of: Oid, owned_by: (Oid, usize)) -> Sequence {
    Sequence {
        oid,
        name: name.to_owned(),
        namespace,
        owner: BOOTSTRAP_ROLE,
        of,
        start: 1,
        increment: 1,
        minimum: 1,
        maximum: if of == oid::INT2 { 32_767 } else { 2_147_483_647 },
        cache: 1,
        is_cycling: false,
        owned_by: Some(owned_by),
        state: 0,
    }
}

fn parent() -> Table {
    let id = Column {
        is_not_null: true,
        default: Some("nextval('s.p_id_seq'::regclass)".to_owned()),
        sequence: P_ID_SEQ,
        ..column("id", oid::INT4, -1)
    };
    let code = Column { is_not_null: true, ..column("code", oid::VARCHAR, 24) };
    let n = Column { default: Some("1.5".to_owned()), ..column("n", oid::NUMERIC, (10 << 16 | 2) + 4) };
    let t = Column { default: Some("now()".to_owned()), ..column("t", oid::TIMESTAMPTZ, 3) };
    let primary =
        Index { is_primary: true, ..index(P_PKEY, "p_pkey", vec![key(IndexedValue::Column(0), oid::INT4)]) };
    let unique = index(P_PKEY + 2, "p_code_key", vec![key(IndexedValue::Column(1), oid::VARCHAR)]);
    Table {
        indexes: vec![Arc::new(primary), Arc::new(unique)],
        constraints: vec![
            constraint(P_PKEY + 1, "p_pkey", ConstraintKind::Unique(P_PKEY)),
            constraint(P_PKEY + 3, "p_code_key", ConstraintKind::Unique(P_PKEY + 2)),
        ],
        ..table(P, "p", S, vec![id, code, n, t])
    }
}

fn child() -> Table {
    let a = Column {
        is_not_null: true,
        identity: Some(Identity::Always),
        sequence: T_A_SEQ,
        ..column("a", oid::INT4, -1)
    };
    let d = Column { generated: Some("(1 + 2)".to_owned()), ..column("d", oid::INT4, -1) };
    let columns = vec![
        a,
        column("b", oid::TEXT, -1),
        column("c", oid::INT4, -1),
        d,
        column("e", oid::BPCHAR, 7),
        column("f", oid::INT4_ARRAY, -1),
    ];
    let unique = Index {
        included: vec![4],
        is_nulls_not_distinct: true,
        ..index(
            U,
            "u",
            vec![key(IndexedValue::Column(1), oid::TEXT), key(IndexedValue::Column(2), oid::INT4)],
        )
    };
    let descending = IndexKey { is_descending: true, ..key(IndexedValue::Column(2), oid::INT4) };
    let partial = Index {
        is_unique: false,
        predicate: Some("(a > 1)".to_owned()),
        constraint: 0,
        ..index(I, "i", vec![key(IndexedValue::Expression("lower(b)".to_owned()), oid::TEXT), descending])
    };
    let foreign = ConstraintKind::ForeignKey(ForeignKey {
        columns: vec![2],
        target: P,
        target_columns: vec![0],
        target_index: P_PKEY,
        on_update: ReferentialAction::NoAction,
        on_delete: ReferentialAction::Cascade,
        is_match_full: false,
    });
    Table {
        indexes: vec![Arc::new(unique), Arc::new(partial)],
        constraints: vec![
            constraint(CK, "ck", ConstraintKind::Check("(a > 0)".to_owned())),
            constraint(U + 1, "u", ConstraintKind::Unique(U)),
            Constraint {
                is_deferrable: true,
                is_deferred: true,
                ..constraint(T_C_FKEY, "t_c_fkey", foreign)
            },
        ],
        ..table(T, "t", PUBLIC, columns)
    }
}

impl Schema {
    pub(super) fn new() -> Schema {
        let view = View {
            oid: V,
            name: "v".to_owned(),
            namespace: PUBLIC,
            owner: BOOTSTRAP_ROLE,
            columns: vec![
                ("a".to_owned(), TypeReference::of(oid::INT4)),
                ("b".to_owned(), TypeReference::of(oid::TEXT)),
            ],
            query: "SELECT a, b FROM t WHERE a > 5".to_owned(),
            search_path: vec!["public".to_owned()],
            options: Vec::new(),
        };
        let owned =
            Sequence { increment: 2, is_cycling: true, ..sequence(SQ, "sq", PUBLIC, oid::INT2, (T, 2)) };
        Schema {
            asker: Asker {
                user: BOOTSTRAP_ROLE,
                is_superuser: true,
                session_user: BOOTSTRAP_ROLE,
                database: "postgres".to_owned(),
                search_path: vec![PG_CATALOG, PUBLIC],
                implied: 1,
                temporary_namespace: 0,
                process_id: 1,
                server_started: 0,
                configuration_loaded: 0,
                addresses: None,
                is_in_recovery: false,
            },
            owner_name: "postgres".to_owned(),
            definitions: vec![
                Definition::Table(Arc::new(parent())),
                Definition::Sequence(Arc::new(sequence(P_ID_SEQ, "p_id_seq", S, oid::INT4, (P, 0)))),
                Definition::Table(Arc::new(child())),
                Definition::Sequence(Arc::new(sequence(T_A_SEQ, "t_a_seq", PUBLIC, oid::INT4, (T, 0)))),
                Definition::View(Arc::new(view)),
                Definition::Sequence(Arc::new(owned)),
            ],
        }
    }

    /// All definitions, and the indexes of tables.
    fn all(&self) -> impl Iterator<Item = Definition> {
        self.definitions.iter().flat_map(|definition| {
            let mut all = vec![definition.clone()];
            if let Definition::Table(table) = definition {
                all.extend(table.indexes.iter().map(|index| Definition::Index(table.clone(), index.clone())));
            }
            all
        })
    }
}

fn role(oid: Oid, name: &str, is_superuser: bool) -> Role {
    Role {
        oid,
        name: name.to_owned(),
        is_superuser,
        inherits: true,
        creates_roles: is_superuser,
        creates_databases: is_superuser,
        can_log_in: true,
        replicates: is_superuser,
        bypasses_row_security: is_superuser,
        connection_limit: -1,
        password: None,
        valid_until: None,
        settings: Vec::new(),
        member_of: Vec::new(),
    }
}

impl Source for Schema {
    fn asker(&self) -> &Asker {
        &self.asker
    }

    fn definition_after(&mut self, after: Oid) -> SqlResult<Option<Definition>> {
        Ok(self.definitions.iter().find(|definition| oid_of(definition) > after).cloned())
    }

    fn definition(&mut self, oid: Oid) -> SqlResult<Option<Definition>> {
        Ok(self.all().find(|definition| oid_of(definition) == oid))
    }

    fn definition_named(&mut self, namespace: Oid, name: &str) -> SqlResult<Option<Definition>> {
        let is_meant = |definition: &Definition| {
            let found = heading(definition);
            (found.namespace, found.name) == (namespace, name)
        };
        Ok(self.all().find(is_meant))
    }

    fn namespaces(&mut self) -> SqlResult<Vec<Namespace>> {
        Ok(vec![
            Namespace { oid: PUBLIC, name: "public".to_owned(), owner: 6171 },
            Namespace { oid: S, name: "s".to_owned(), owner: BOOTSTRAP_ROLE },
        ])
    }

    fn roles(&mut self) -> SqlResult<Vec<Role>> {
        Ok(vec![role(BOOTSTRAP_ROLE, &self.owner_name, true), role(ALICE, "alice", false)])
    }

    /// As a new database has it for `public`.
    fn access_list(&mut self, place: (Oid, Oid, u16)) -> SqlResult<Option<AccessList>> {
        let item = |grantee, privileges| AccessItem {
            grantee,
            grantor: 6171,
            privileges,
            grantable: Privileges::NONE,
        };
        let items = vec![item(6171, ObjectKind::Schema.privileges()), item(0, Privileges::USAGE)];
        Ok((place == (PUBLIC, PG_NAMESPACE, 0)).then_some(AccessList { items }))
    }

    fn comments(&mut self, object: Option<Oid>) -> SqlResult<Vec<Comment>> {
        let comment =
            |column, text: &str| Comment { object: T, class: PG_CLASS, column, text: text.to_owned() };
        let comments = vec![comment(0, "hello"), comment(2, "col")];
        Ok(comments
            .into_iter()
            .filter(|comment| object.is_none_or(|object| object == comment.object))
            .collect())
    }

    fn sequence_value(&mut self, sequence: Oid) -> SqlResult<Option<i64>> {
        Ok((sequence == SQ).then_some(7))
    }

    fn settings(&mut self) -> Vec<Setting> {
        let setting = |name: &str, value: &str| Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            reset_value: value.to_owned(),
            source: "default",
        };
        vec![setting("work_mem", "4096"), setting("DateStyle", "ISO, MDY"), setting("seawall.own", "x")]
    }
}

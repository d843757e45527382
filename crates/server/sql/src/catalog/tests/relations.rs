use super::schema::*;
use super::*;

/// `SELECT` of these columns, with rows in the order of the definitions.
macro_rules! assert_rows {
    ($relation:literal, [$($column:literal),*], [$(($filtered:literal, $value:expr)),*], $expected:expr) => {
        assert_eq!(rows(&mut Schema::new(), $relation, &[$($column),*], &[$(($filtered, $value)),*]), $expected, $relation)
    };
}

fn public() -> Datum {
    Datum::Oid(2200)
}

#[test]
fn every_relation_can_be_read_and_its_values_have_the_types_of_its_columns() {
    let mut source = Schema::new();
    for relation in known::all() {
        let columns: Vec<usize> = (0..relation.columns.len()).collect();
        assert!(!columns.is_empty(), "{}", relation.name);
        let mut scan = Scan::open(relation.oid, &columns, &[]).unwrap();
        while let Some(row) = scan.next(&mut source).unwrap() {
            assert_eq!(row.len(), columns.len());
            for (value, (column, of)) in row.iter().zip(&relation.columns) {
                assert!(
                    fits(value, of.oid),
                    "{}.{column}: {value:?} is none of type {}",
                    relation.name,
                    of.oid
                );
            }
        }
    }
}

#[test]
fn rows_of_makers_have_all_columns() {
    let mut source = Schema::new();
    for relation in known::all() {
        let last = relation.columns.len();
        let mut scan = Scan::open(relation.oid, &[last], &[]).unwrap();
        while let Some(row) = scan.next(&mut source).unwrap() {
            // Initial rows of these have texts beside their columns.
            let has_more = ["pg_class", "pg_constraint", "pg_index", "pg_proc"].contains(&relation.name);
            assert!(row[0].is_null() || has_more, "{} has more values than columns", relation.name);
        }
    }
}

#[test]
fn a_scan_can_move_between_threads() {
    fn assert_send<T: Send + 'static>(_: &T) {}
    assert_send(&Scan::open(1259, &[0], &[]).unwrap());
    let error = Scan::open(99, &[0], &[]).unwrap_err();
    assert_eq!(error.to_string(), "XX000: could not open relation with OID 99");
}

#[test]
fn relations_are_those_of_postgresql() {
    // Those of PostgreSQL, and nine views of this server's own.
    assert_eq!(known::all().len(), 208 + 9);
    let class = relation_named(11, "pg_class").unwrap();
    assert_eq!((class.oid, class.columns.len()), (1259, 33));
    assert!(relation_named(11, "tables").is_none());
}

#[test]
fn pg_class_lists_tables_indexes_views_and_sequences() {
    let columns = [
        "relname",
        "relkind",
        "relnatts",
        "relchecks",
        "relhasindex",
        "relhasrules",
        "relhastriggers",
        "relam",
    ];
    let found = rows(&mut Schema::new(), "pg_class", &columns, &[("relnamespace", public())]);
    assert_eq!(
        found,
        [
            "t|r|6|1|t|f|t|2",
            "u|i|3|0|f|f|f|403",
            "i|i|2|0|f|f|f|403",
            "t_a_seq|S|3|0|f|f|f|0",
            "v|v|2|0|f|t|f|0",
            "sq|S|3|0|f|f|f|0",
        ]
    );
}

#[test]
fn a_filter_on_a_number_or_a_name_finds_the_same_rows() {
    assert_rows!("pg_class", ["relname"], [("oid", Datum::Oid(T))], ["t"]);
    assert_rows!("pg_class", ["oid"], [("relname", Datum::text("i"))], [I.to_string()]);
    assert_rows!("pg_class", ["relname"], [("oid", Datum::Oid(I))], ["i"]);
    assert_rows!("pg_class", ["relname"], [("oid", Datum::Oid(1259))], ["pg_class"]);
    assert_rows!("pg_class", ["oid"], [("relname", Datum::text("pg_class"))], ["1259"]);
    assert_rows!("pg_class", ["oid"], [("relname", Datum::Null)], [] as [&str; 0]);
    assert_rows!("pg_attribute", ["attname"], [("attrelid", Datum::Oid(I))], ["lower", "c"]);
    assert_rows!("pg_type", ["typname"], [("oid", Datum::Oid(23))], ["int4"]);
    assert_rows!("pg_type", ["typname", "typtype"], [("typrelid", Datum::Oid(V))], ["v|c"]);
    assert_rows!("columns", ["column_name"], [("table_name", Datum::text("v"))], ["a", "b"]);
    assert_rows!("pg_indexes", ["indexname"], [("tablename", Datum::text("p"))], ["p_pkey", "p_code_key"]);
    assert_rows!("pg_constraint", ["conname"], [("conrelid", Datum::Oid(P))], ["p_pkey", "p_code_key"]);
}

#[test]
fn pg_attribute_has_columns_and_their_properties() {
    let columns = [
        "attname",
        "atttypid",
        "attlen",
        "attnum",
        "attndims",
        "atttypmod",
        "attbyval",
        "attalign",
        "attstorage",
        "attnotnull",
        "atthasdef",
        "attidentity",
        "attgenerated",
        "attcollation",
    ];
    assert_eq!(
        rows(&mut Schema::new(), "pg_attribute", &columns, &[("attrelid", Datum::Oid(T))]),
        [
            "a|23|4|1|0|-1|t|i|p|t|f|a||0",
            "b|25|-1|2|0|-1|f|i|x|f|f|||100",
            "c|23|4|3|0|-1|t|i|p|f|f|||0",
            "d|23|4|4|0|-1|t|i|p|f|t||s|0",
            "e|1042|-1|5|0|7|f|i|x|f|f|||100",
            "f|1007|-1|6|1|-1|f|i|x|f|f|||0",
            "ctid|27|6|-1|0|-1|f|s|p|t|f|||0",
            "xmin|28|4|-2|0|-1|t|i|p|t|f|||0",
            "cmin|29|4|-3|0|-1|t|i|p|t|f|||0",
            "xmax|28|4|-4|0|-1|t|i|p|t|f|||0",
            "cmax|29|4|-5|0|-1|t|i|p|t|f|||0",
            "tableoid|26|4|-6|0|-1|t|i|p|t|f|||0",
        ]
    );
}

#[test]
fn pg_index_has_keys_classes_and_expressions() {
    let columns = [
        "indexrelid",
        "indnatts",
        "indnkeyatts",
        "indisunique",
        "indnullsnotdistinct",
        "indisprimary",
        "indkey",
        "indclass",
        "indoption",
        "indexprs",
        "indpred",
    ];
    assert_eq!(
        rows(&mut Schema::new(), "pg_index", &columns, &[("indrelid", Datum::Oid(T))]),
        [
            format!("{U}|3|2|t|t|f|2 3 5|3126 1978|0 0||"),
            format!("{I}|2|2|f|f|f|0 3|3126 1978|0 1|lower(b)|(a > 1)"),
        ]
    );
}

#[test]
fn pg_constraint_has_keys_and_actions() {
    let columns = [
        "conname",
        "contype",
        "condeferrable",
        "condeferred",
        "conindid",
        "confrelid",
        "confupdtype",
        "confdeltype",
        "confmatchtype",
        "connoinherit",
        "conkey",
        "confkey",
        "conpfeqop",
    ];
    assert_eq!(
        rows(&mut Schema::new(), "pg_constraint", &columns, &[("conrelid", Datum::Oid(T))]),
        [
            "ck|c|f|f|0|0| | | |f|{1}||".to_owned(),
            format!("u|u|f|f|{U}|0| | | |t|{{2,3}}||"),
            format!("t_c_fkey|f|t|t|{P_PKEY}|{P}|a|c|s|t|{{3}}|{{1}}|{{96}}"),
        ]
    );
}

#[test]
fn sequences_say_whose_they_are() {
    let found = rows(
        &mut Schema::new(),
        "pg_depend",
        &["objid", "refobjid", "refobjsubid", "deptype"],
        &[("classid", Datum::Oid(1259)), ("refclassid", Datum::Oid(1259))],
    );
    let of_sequences: Vec<_> = found
        .into_iter()
        .filter(|row| [P_ID_SEQ, T_A_SEQ, SQ].iter().any(|oid| row.starts_with(&oid.to_string())))
        .collect();
    assert_eq!(
        of_sequences,
        [format!("{P_ID_SEQ}|{P}|1|a"), format!("{T_A_SEQ}|{T}|1|i"), format!("{SQ}|{T}|3|a")]
    );
    assert_rows!(
        "pg_sequences",
        [
            "sequencename",
            "data_type",
            "start_value",
            "min_value",
            "max_value",
            "increment_by",
            "cycle",
            "cache_size",
            "last_value"
        ],
        [("schemaname", Datum::text("public"))],
        ["t_a_seq|23|1|1|2147483647|1|f|1|", "sq|21|1|1|32767|2|t|1|7"]
    );
}

#[test]
fn views_of_pg_catalog_show_names() {
    assert_rows!(
        "pg_indexes",
        ["schemaname", "tablename", "indexname", "indexdef"],
        [("schemaname", Datum::text("public"))],
        [
            "public|t|u|CREATE UNIQUE INDEX u ON public.t USING btree (b, c) INCLUDE (e) NULLS NOT DISTINCT",
            "public|t|i|CREATE INDEX i ON public.t USING btree (lower(b), c DESC NULLS LAST) WHERE (a > 1)",
        ]
    );
    assert_rows!(
        "pg_tables",
        ["schemaname", "tablename", "tableowner", "hasindexes", "hastriggers"],
        [("tableowner", Datum::text("postgres")), ("schemaname", Datum::text("s"))],
        ["s|p|postgres|t|f"]
    );
    assert_rows!(
        "pg_views",
        ["viewname", "definition"],
        [("schemaname", Datum::text("public"))],
        ["v| SELECT a, b FROM t WHERE a > 5;"]
    );
    assert!(
        rows(&mut Schema::new(), "pg_views", &["definition"], &[("viewname", Datum::text("pg_tables"))])[0]
            .starts_with(" SELECT n.nspname")
    );
    assert_rows!(
        "pg_indexes",
        ["indexname", "indexdef"],
        [("tablename", Datum::text("pg_am"))],
        [
            "pg_am_name_index|CREATE UNIQUE INDEX pg_am_name_index ON pg_catalog.pg_am USING btree (amname)",
            "pg_am_oid_index|CREATE UNIQUE INDEX pg_am_oid_index ON pg_catalog.pg_am USING btree (oid)",
        ]
    );
}

#[test]
fn the_superuser_and_public_are_listed_once() {
    assert_rows!("pg_authid", ["rolname"], [("oid", Datum::Oid(10))], ["postgres"]);
    assert_rows!("pg_namespace", ["nspname"], [("oid", public())], ["public"]);
    assert_rows!(
        "pg_roles",
        ["rolname", "rolsuper", "rolcanlogin"],
        [("rolname", Datum::text("pg_monitor"))],
        ["pg_monitor|f|f"]
    );
    assert_rows!("pg_user", ["usename", "passwd"], [], ["postgres|********", "alice|********"]);
}

#[test]
fn access_lists_name_the_owner_of_the_database() {
    let filter = [("oid", Datum::Oid(1259))];
    assert_eq!(
        rows(&mut Schema::new(), "pg_class", &["relacl"], &filter),
        ["{postgres=arwdDxt/postgres,=r/postgres}"]
    );
    let mut source = Schema::new();
    source.owner_name = "anna".to_owned();
    assert_eq!(rows(&mut source, "pg_class", &["relacl"], &filter), ["{anna=arwdDxt/anna,=r/anna}"]);
}

#[test]
fn settings_have_their_descriptions() {
    assert_rows!(
        "pg_settings",
        ["name", "setting", "unit", "context", "vartype", "min_val"],
        [],
        [
            "DateStyle|ISO, MDY||user|string|",
            "seawall.own|x||user|string|",
            "work_mem|4096|kB|user|integer|64"
        ]
    );
}

#[test]
fn comments_have_their_objects() {
    assert_rows!(
        "pg_description",
        ["objsubid", "description"],
        [("objoid", Datum::Oid(T))],
        ["0|hello", "2|col"]
    );
}

#[test]
fn information_schema_columns_have_shapes() {
    assert_rows!(
        "columns",
        [
            "column_name",
            "ordinal_position",
            "column_default",
            "is_nullable",
            "data_type",
            "character_maximum_length",
            "character_octet_length",
            "numeric_precision",
            "numeric_scale",
            "datetime_precision",
            "udt_name"
        ],
        [("table_name", Datum::text("p"))],
        [
            "id|1|nextval('s.p_id_seq'::regclass)|NO|integer|||32|0||int4",
            "code|2||NO|character varying|20|80||||varchar",
            "n|3|1.5|YES|numeric|||10|2||numeric",
            "t|4|now()|YES|timestamp with time zone|||||3|timestamptz",
        ]
    );
    assert_rows!(
        "columns",
        [
            "column_name",
            "data_type",
            "is_identity",
            "identity_generation",
            "identity_maximum",
            "identity_cycle",
            "is_generated",
            "generation_expression",
            "is_updatable"
        ],
        [("table_name", Datum::text("t"))],
        [
            "a|integer|YES|ALWAYS|2147483647|NO|NEVER||YES",
            "b|text|NO|||NO|NEVER||YES",
            "c|integer|NO|||NO|NEVER||YES",
            "d|integer|NO|||NO|ALWAYS|(1 + 2)|YES",
            "e|character|NO|||NO|NEVER||YES",
            "f|ARRAY|NO|||NO|NEVER||YES",
        ]
    );
}

#[test]
fn information_schema_has_constraints() {
    let s = || Datum::text("s");
    let p = || Datum::text("public");
    assert_rows!(
        "table_constraints",
        ["constraint_name", "constraint_type", "is_deferrable", "initially_deferred", "nulls_distinct"],
        [("table_schema", p())],
        [
            "ck|CHECK|NO|NO|",
            "u|UNIQUE|NO|NO|NO",
            "t_c_fkey|FOREIGN KEY|YES|YES|",
            "2200_16391_1_not_null|CHECK|NO|NO|"
        ]
    );
    assert_rows!(
        "table_constraints",
        ["constraint_name", "constraint_type", "nulls_distinct"],
        [("table_schema", s())],
        [
            "p_pkey|PRIMARY KEY|",
            "p_code_key|UNIQUE|YES",
            "16384_16385_1_not_null|CHECK|",
            "16384_16385_2_not_null|CHECK|"
        ]
    );
    assert_rows!(
        "key_column_usage",
        ["constraint_name", "column_name", "ordinal_position", "position_in_unique_constraint"],
        [("table_schema", p())],
        ["u|b|1|", "u|c|2|", "t_c_fkey|c|1|1"]
    );
    assert_rows!(
        "constraint_column_usage",
        ["table_schema", "table_name", "column_name", "constraint_name"],
        [("constraint_schema", p())],
        ["public|t|a|ck", "public|t|b|u", "public|t|c|u", "s|p|id|t_c_fkey"]
    );
    assert_rows!(
        "referential_constraints",
        [
            "constraint_name",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule"
        ],
        [],
        ["t_c_fkey|s|p_pkey|NONE|NO ACTION|CASCADE"]
    );
    assert_rows!(
        "check_constraints",
        ["constraint_name", "check_clause"],
        [("constraint_schema", p())],
        ["ck|((a > 0))", "2200_16391_1_not_null|a IS NOT NULL"]
    );
}

#[test]
fn information_schema_has_tables_sequences_and_schemas() {
    assert_rows!(
        "tables",
        ["table_name", "table_type", "is_insertable_into"],
        [("table_schema", Datum::text("public"))],
        ["t|BASE TABLE|YES", "v|VIEW|NO"]
    );
    assert_rows!(
        "tables",
        ["table_schema", "table_type"],
        [("table_name", Datum::text("pg_class"))],
        ["pg_catalog|BASE TABLE"]
    );
    assert_rows!(
        "sequences",
        ["sequence_name", "data_type", "numeric_precision", "increment", "cycle_option"],
        [],
        ["p_id_seq|integer|32|1|NO", "sq|smallint|16|2|YES"]
    );
    assert_eq!(rows(&mut Schema::new(), "schemata", &["schema_name", "schema_owner"], &[]).len(), 6);
    assert_eq!(
        rows(
            &mut Schema::new(),
            "role_table_grants",
            &["privilege_type"],
            &[("table_name", Datum::text("p"))]
        )
        .len(),
        7
    );
}

#[test]
fn others_do_not_see_what_they_may_not_use() {
    let mut source = Schema::new();
    source.asker.user = ALICE;
    assert_eq!(
        rows(&mut source, "tables", &["table_name"], &[("table_schema", Datum::text("public"))]),
        [] as [&str; 0]
    );
    assert_eq!(rows(&mut source, "enabled_roles", &["role_name"], &[]), ["alice"]);
}

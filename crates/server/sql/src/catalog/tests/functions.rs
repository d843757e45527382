use seawall_values::functions::Call;
use seawall_values::{Settings, TypeReference, oid};

use super::schema::*;
use super::*;
use crate::catalog::functions::{implementation, reference_input, reference_output, set_implementation};

/// The result of a function, as psql shows it, or its error.
fn called(source: &mut Schema, function: &str, arguments: &[Datum]) -> String {
    let settings = Settings::default();
    let call = Call {
        arguments,
        argument_types: &[],
        result_type: TypeReference::of(oid::TEXT),
        settings: &settings,
    };
    let implementation =
        implementation(function).unwrap_or_else(|| panic!("there is no function {function}"));
    match implementation(source, &call) {
        Ok(value) => shown(&value),
        Err(error) => error.to_string(),
    }
}

fn of(function: &str, arguments: &[Datum]) -> String {
    called(&mut Schema::new(), function, arguments)
}

fn set_of(function: &str, arguments: &[Datum]) -> Vec<String> {
    let settings = Settings::default();
    let call = Call {
        arguments,
        argument_types: &[],
        result_type: TypeReference::of(oid::RECORD),
        settings: &settings,
    };
    let rows = set_implementation(function).unwrap()(&mut Schema::new(), &call).unwrap();
    rows.map(|row| row.unwrap().iter().map(shown).collect::<Vec<_>>().join("|")).collect()
}

fn text(text: &str) -> Datum {
    Datum::text(text)
}

#[test]
fn types_have_the_names_of_the_grammar() {
    let format = |number: u32, modifier: Option<i32>| {
        of("format_type", &[Datum::Oid(number), modifier.map_or(Datum::Null, Datum::Int4)])
    };
    for (number, modifier, expected) in [
        (oid::INT4, None, "integer"),
        (oid::BPCHAR, None, "character"),
        (oid::BPCHAR, Some(-1), "bpchar"),
        (oid::BPCHAR, Some(7), "character(3)"),
        (oid::CHAR, None, "\"char\""),
        (oid::NAME, None, "name"),
        (oid::VARCHAR, Some(24), "character varying(20)"),
        (oid::NUMERIC, Some((10 << 16 | 2) + 4), "numeric(10,2)"),
        (oid::NUMERIC, Some((3 << 16 | (-2 & 0x7FF)) + 4), "numeric(3,-2)"),
        (oid::TIMESTAMPTZ, Some(3), "timestamp(3) with time zone"),
        (oid::TIME, Some(-1), "time without time zone"),
        (oid::INTERVAL, Some(-1), "interval"),
        (oid::INTERVAL, Some(0x6_0000 | 0xFFFF), "interval year to month"),
        (oid::INTERVAL, Some(0x1000_0000 | 3), "interval second(3)"),
        (oid::INTERVAL, Some(0x7FFF_0000 | 3), "interval(3)"),
        (oid::BIT, Some(3), "bit(3)"),
        (oid::BIT, Some(-1), "\"bit\""),
        (oid::VARCHAR_ARRAY, Some(24), "character varying(20)[]"),
        (oid::INT2VECTOR, None, "int2vector"),
        (0, None, "-"),
        (99_999, None, "???"),
        (super::super::numbers::row_type(T), None, "t"),
        (super::super::numbers::row_array_type(P), None, "s.p[]"),
    ] {
        assert_eq!(format(number, modifier), expected);
    }
}

#[test]
fn indexes_and_constraints_are_written() {
    let exact = |number: u32| of("pg_get_indexdef", &[Datum::Oid(number)]);
    assert_eq!(
        exact(U),
        "CREATE UNIQUE INDEX u ON public.t USING btree (b, c) INCLUDE (e) NULLS NOT DISTINCT"
    );
    assert_eq!(
        exact(I),
        "CREATE INDEX i ON public.t USING btree (lower(b), c DESC NULLS LAST) WHERE (a > 1)"
    );
    assert_eq!(
        exact(2663),
        "CREATE UNIQUE INDEX pg_class_relname_nsp_index ON pg_catalog.pg_class USING btree (relname, relnamespace)"
    );
    assert_eq!(exact(1), "");
    let part =
        |number: i32| of("pg_get_indexdef_ext", &[Datum::Oid(I), Datum::Int4(number), Datum::Bool(true)]);
    assert_eq!(part(0), "CREATE INDEX i ON t USING btree (lower(b), c DESC NULLS LAST) WHERE a > 1");
    assert_eq!([part(1), part(2), part(3), part(-1)], ["lower(b)", "c", "", ""]);

    let exact = |number: u32| of("pg_get_constraintdef", &[Datum::Oid(number)]);
    assert_eq!(exact(CK), "CHECK ((a > 0))");
    assert_eq!(of("pg_get_constraintdef_ext", &[Datum::Oid(CK), Datum::Bool(true)]), "CHECK (a > 0)");
    assert_eq!(exact(U + 1), "UNIQUE NULLS NOT DISTINCT (b, c) INCLUDE (e)");
    assert_eq!(exact(P_PKEY + 1), "PRIMARY KEY (id)");
    assert_eq!(
        exact(T_C_FKEY),
        "FOREIGN KEY (c) REFERENCES s.p(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"
    );
    assert_eq!(exact(1), "");
}

#[test]
fn expressions_lose_their_outer_parentheses_for_people() {
    let pretty = |text: &str| of("pg_get_expr_ext", &[Datum::text(text), Datum::Oid(T), Datum::Bool(true)]);
    assert_eq!(of("pg_get_expr", &[text("(a > 0)"), Datum::Oid(T)]), "(a > 0)");
    assert_eq!(pretty("(a > 0)"), "a > 0");
    assert_eq!(pretty("(a > 0) AND (b < 0)"), "(a > 0) AND (b < 0)");
    assert_eq!(pretty("(a = ')'::text)"), "a = ')'::text");
}

#[test]
fn views_have_their_queries() {
    assert_eq!(of("pg_get_viewdef", &[Datum::Oid(V)]), " SELECT a, b FROM t WHERE a > 5;");
    assert_eq!(of("pg_get_viewdef_name", &[text("t")]), "Not a view");
    assert_eq!(
        of("pg_get_ruledef", &[Datum::Oid(super::super::numbers::rule(V))]),
        "CREATE RULE \"_RETURN\" AS\n    ON SELECT TO v DO INSTEAD  SELECT a, b FROM t WHERE a > 5;"
    );
}

#[test]
fn sequences_of_columns_are_found() {
    let sequence = |table: &str, column: &str| of("pg_get_serial_sequence", &[text(table), text(column)]);
    assert_eq!(sequence("s.p", "id"), "s.p_id_seq");
    assert_eq!(sequence("t", "a"), "public.t_a_seq");
    assert_eq!(sequence("t", "c"), "public.sq");
    assert_eq!(sequence("t", "b"), "");
    assert_eq!(sequence("t", "zz"), "42703: column \"zz\" of relation \"t\" does not exist");
    assert_eq!(sequence("nosuch", "a"), "42P01: relation \"nosuch\" does not exist");
}

#[test]
fn names_become_numbers_and_back() {
    let number = |kind: u32, text: &str| match reference_input(&mut Schema::new(), kind, text) {
        Ok(number) => number.to_string(),
        Err(error) => error.to_string(),
    };
    let name = |kind: u32, number: u32| reference_output(&mut Schema::new(), kind, number).unwrap();
    for (kind, name, expected) in [
        (oid::REGCLASS, "pg_class", "1259"),
        (oid::REGCLASS, " PUBLIC . t ", &T.to_string()),
        (oid::REGCLASS, "\"t\"", &T.to_string()),
        (oid::REGCLASS, "17", "17"),
        (oid::REGCLASS, "-", "0"),
        (oid::REGCLASS, "nosuch", "42P01: relation \"nosuch\" does not exist"),
        (oid::REGCLASS, "s.nosuch", "42P01: relation \"s.nosuch\" does not exist"),
        (oid::REGCLASS, "nos.such", "3F000: schema \"nos\" does not exist"),
        (oid::REGCLASS, "a.b.c.d", "42601: improper relation name (too many dotted names): a.b.c.d"),
        (oid::REGCLASS, "\"a", "42602: invalid name syntax"),
        (oid::REGCLASS, "", "42602: invalid name syntax"),
        (oid::REGCLASS, "99999999999", "22003: value \"99999999999\" is out of range for type oid"),
        (oid::REGTYPE, "int", "23"),
        (oid::REGTYPE, "Character  Varying(20)[]", "1015"),
        (oid::REGTYPE, "timestamp(3) with time zone", "1184"),
        (oid::REGTYPE, "pg_catalog.int4[]", "1007"),
        (oid::REGTYPE, "_int4", "1007"),
        (oid::REGTYPE, "nosuch", "42704: type \"nosuch\" does not exist"),
        (oid::REGTYPE, "x.nosuch", "3F000: schema \"x\" does not exist"),
        (oid::REGPROC, "array_in", "750"),
        (oid::REGPROC, "nosuch", "42883: function \"nosuch\" does not exist"),
        (oid::REGPROC, "lower", "42725: more than one function named \"lower\""),
        (oid::REGPROCEDURE, "lower(text)", "870"),
        (oid::REGPROCEDURE, "nosuch(int)", "42883: function \"nosuch(int)\" does not exist"),
        (oid::REGPROCEDURE, "lower", "22P02: expected a left parenthesis"),
        (oid::REGOPER, "=", "42725: more than one operator named ="),
        (oid::REGOPER, "===", "42883: operator does not exist: ==="),
        (oid::REGOPERATOR, "=(int4,int4)", "96"),
        (oid::REGOPERATOR, "-(none,integer)", "558"),
        (oid::REGOPERATOR, "=(int4)", "42P02: missing argument"),
        (oid::REGOPERATOR, "===(int4,int4)", "42883: operator does not exist: ===(int4,int4)"),
        (oid::REGNAMESPACE, "s", "16384"),
        (oid::REGNAMESPACE, "nosuch", "3F000: schema \"nosuch\" does not exist"),
        (oid::REGROLE, "alice", &ALICE.to_string()),
        (oid::REGROLE, "nosuch", "42704: role \"nosuch\" does not exist"),
        (oid::REGCOLLATION, "\"C\"", "950"),
        (oid::REGCOLLATION, "nosuch", "42704: collation \"nosuch\" for encoding \"UTF8\" does not exist"),
    ] {
        assert_eq!(number(kind, name), expected, "{name}");
    }
    for (kind, number, expected) in [
        (oid::REGCLASS, 1259, "pg_class"),
        (oid::REGCLASS, P, "s.p"),
        (oid::REGCLASS, I, "i"),
        (oid::REGCLASS, 2663, "pg_class_relname_nsp_index"),
        (oid::REGCLASS, 99, "99"),
        (oid::REGCLASS, 0, "-"),
        (oid::REGTYPE, oid::TIMESTAMPTZ, "timestamp with time zone"),
        (oid::REGPROC, 750, "array_in"),
        (oid::REGPROC, 870, "pg_catalog.lower"),
        (oid::REGPROCEDURE, 870, "lower(text)"),
        (oid::REGOPER, 96, "pg_catalog.="),
        (oid::REGOPERATOR, 96, "=(integer,integer)"),
        (oid::REGNAMESPACE, 2200, "public"),
        (oid::REGROLE, 10, "postgres"),
        (oid::REGCOLLATION, 100, "\"default\""),
        (oid::REGROLE, 99, "99"),
    ] {
        assert_eq!(name(kind, number), expected);
    }
}

#[test]
fn a_name_that_may_be_missing_is_null() {
    assert_eq!(of("to_regclass", &[text("pg_class")]), "1259");
    for (function, name) in [
        ("to_regclass", "nos.such"),
        ("to_regclass", "1259"),
        ("to_regtype", "no"),
        ("to_regproc", "lower"),
        ("to_regrole", "x"),
    ] {
        assert_eq!(of(function, &[text(name)]), "", "{function}({name})");
    }
    assert_eq!(of("to_regtype", &[text("varchar(20)")]), "1043");
    assert_eq!(of("to_regclass", &[text("\"a")]), "42602: invalid name syntax");
}

#[test]
fn relations_of_later_schemas_are_hidden_by_those_of_earlier_ones() {
    let visible =
        |source: &mut Schema, number: u32| called(source, "pg_table_is_visible", &[Datum::Oid(number)]);
    let mut source = Schema::new();
    assert_eq!([T, P, 1259, 99].map(|number| visible(&mut source, number)), ["t", "f", "t", ""]);
    source.asker.search_path = vec![S];
    assert_eq!([T, P, 1259].map(|number| visible(&mut source, number)), ["f", "t", "f"]);
    assert_eq!(reference_output(&mut source, oid::REGCLASS, T).unwrap(), "public.t");
    assert_eq!(of("pg_function_is_visible", &[Datum::Oid(870)]), "t");
    assert_eq!(of("pg_type_is_visible", &[Datum::Oid(super::super::numbers::row_type(P))]), "f");
}

#[test]
fn comments_are_found() {
    assert_eq!(of("obj_description/2", &[Datum::Oid(T), text("pg_class")]), "hello");
    assert_eq!(of("obj_description/2", &[Datum::Oid(T), text("pg_proc")]), "");
    assert_eq!(of("obj_description/1", &[Datum::Oid(T)]), "hello");
    assert_eq!(of("col_description/2", &[Datum::Oid(T), Datum::Int4(2)]), "col");
    assert_eq!(of("col_description/2", &[Datum::Oid(T), Datum::Int4(1)]), "");
    assert_eq!(of("obj_description/2", &[Datum::Oid(870), text("pg_proc")]), "lowercase");
    assert_eq!(
        of("shobj_description/2", &[Datum::Oid(1), text("pg_database")]),
        "default template for new databases"
    );
}

#[test]
fn privileges_are_those_of_owners_and_the_public() {
    let asks = |function: &str, arguments: &[&str]| {
        of(function, &arguments.iter().map(|argument| text(argument)).collect::<Vec<_>>())
    };
    assert_eq!(asks("has_table_privilege_name_name", &["alice", "t", "select"]), "f");
    assert_eq!(
        asks("has_table_privilege_name_name", &["postgres", "t", "select, INSERT with grant option"]),
        "t"
    );
    assert_eq!(asks("has_table_privilege_name_name", &["alice", "pg_class", "SELECT"]), "t");
    assert_eq!(asks("has_table_privilege_name_name", &["alice", "pg_authid", "SELECT"]), "f");
    assert_eq!(asks("has_table_privilege_name", &["pg_class", "SELECT"]), "t");
    assert_eq!(of("has_table_privilege_id", &[Datum::Oid(99), text("SELECT")]), "");
    assert_eq!(asks("has_schema_privilege_name_name", &["alice", "public", "USAGE"]), "t");
    assert_eq!(asks("has_schema_privilege_name_name", &["alice", "public", "CREATE"]), "f");
    assert_eq!(asks("has_schema_privilege_name_name", &["alice", "s", "USAGE"]), "f");
    assert_eq!(asks("has_database_privilege_name_name", &["alice", "postgres", "connect"]), "t");
    assert_eq!(asks("has_function_privilege_name_name", &["alice", "lower(text)", "execute"]), "t");
    assert_eq!(asks("pg_has_role_name_name", &["alice", "postgres", "member"]), "f");
    assert_eq!(asks("pg_has_role_name", &["alice", "usage"]), "t");
    for (function, arguments, expected) in [
        (
            "has_table_privilege_name_name",
            vec!["nosuch", "pg_class", "select"],
            "42704: role \"nosuch\" does not exist",
        ),
        ("has_table_privilege_name", vec!["nosuch", "select"], "42P01: relation \"nosuch\" does not exist"),
        (
            "has_table_privilege_name",
            vec!["pg_class", "selec"],
            "22023: unrecognized privilege type: \"selec\"",
        ),
        ("has_schema_privilege_name", vec!["x", "usage"], "3F000: schema \"x\" does not exist"),
        ("has_database_privilege_name", vec!["x", "connect"], "3D000: database \"x\" does not exist"),
        (
            "has_column_privilege_name_name",
            vec!["pg_class", "x", "select"],
            "42703: column \"x\" of relation \"pg_class\" does not exist",
        ),
        ("has_sequence_privilege_name", vec!["t", "usage"], "42809: \"t\" is not a sequence"),
        ("has_language_privilege_name", vec!["nosuch", "usage"], "42704: language \"nosuch\" does not exist"),
        (
            "has_tablespace_privilege_name",
            vec!["nosuch", "create"],
            "42704: tablespace \"nosuch\" does not exist",
        ),
        ("pg_has_role_name", vec!["postgres", "usag"], "22023: unrecognized privilege type: \"usag\""),
    ] {
        assert_eq!(asks(function, &arguments), expected, "{function}");
    }
}

#[test]
fn access_lists_are_made_and_taken_apart() {
    let default = |kind: u8| of("acldefault_sql", &[Datum::Char(kind), Datum::Oid(10)]);
    assert_eq!(default(b'r'), "{postgres=arwdDxt/postgres}");
    assert_eq!(default(b'd'), "{=Tc/postgres,postgres=CTc/postgres}");
    assert_eq!(default(b'c'), "{}");
    let list =
        crate::catalog::live::array(oid::ACLITEM, [text("=r/postgres"), text("postgres=a*w/postgres")]);
    assert_eq!(set_of("aclexplode", &[list]), ["10|0|SELECT|f", "10|10|INSERT|t", "10|10|UPDATE|f"]);
}

#[test]
fn sessions_know_themselves() {
    assert_eq!(of("current_user", &[]), "postgres");
    assert_eq!(of("current_schema", &[]), "public");
    assert_eq!(of("current_schemas", &[Datum::Bool(true)]), "{pg_catalog,public}");
    assert_eq!(of("current_schemas", &[Datum::Bool(false)]), "{public}");
    assert!(of("pgsql_version", &[]).starts_with("PostgreSQL 15 (Seawall "));
    assert_eq!(of("PG_encoding_to_char", &[Datum::Int4(6)]), "UTF8");
    assert_eq!(of("PG_encoding_to_char", &[Datum::Int4(-1)]), "");
    assert_eq!(of("PG_char_to_encoding", &[text("utf-8")]), "6");
    assert_eq!(of("PG_char_to_encoding", &[text("latin1")]), "8");
    assert_eq!(of("PG_char_to_encoding", &[text("nosuch")]), "-1");
    assert_eq!(of("pg_get_userbyid", &[Datum::Oid(99)]), "unknown (OID=99)");
}

#[test]
fn sets_have_their_rows() {
    let keywords = set_of("pg_get_keywords", &[]);
    assert_eq!(keywords.len(), 460);
    assert!(keywords.contains(&"select|R|t|reserved|can be bare label".to_owned()));
    let options = crate::catalog::live::array(oid::TEXT, [text("a=b=c"), text("d")]);
    assert_eq!(set_of("pg_options_to_table", &[options]), ["a|b=c", "d|"]);
    let vector = crate::catalog::live::int2vector([7, 8]);
    assert_eq!(set_of("_pg_expandarray/1", &[vector]), ["7|1", "8|2"]);
    assert_eq!(set_of("show_all_settings", &[]).len(), 3);
}

#[test]
fn functions_are_described() {
    let described =
        |function: &str, name: &str| of(function, &[Datum::Oid(system().functions_named(name)[0].oid)]);
    assert_eq!(
        described("pg_get_function_arguments", "make_interval"),
        "years integer DEFAULT 0, months integer DEFAULT 0, weeks integer DEFAULT 0, days integer DEFAULT 0, hours integer DEFAULT 0, mins integer DEFAULT 0, secs double precision DEFAULT 0.0"
    );
    assert_eq!(
        described("pg_get_function_arguments", "json_each"),
        "from_json json, OUT key text, OUT value json"
    );
    assert_eq!(described("pg_get_function_arguments", "mode"), "ORDER BY anyelement");
    assert_eq!(described("pg_get_function_arguments", "rank"), "");
    assert_eq!(described("pg_get_function_result", "json_each"), "SETOF record");
    assert_eq!(described("pg_get_function_arguments", "concat_ws"), "text, VARIADIC \"any\"");
    assert_eq!(
        of("pg_get_functiondef", &[Datum::Oid(870)]),
        "CREATE OR REPLACE FUNCTION pg_catalog.lower(text)\n RETURNS text\n LANGUAGE internal\n IMMUTABLE PARALLEL SAFE STRICT\nAS $function$lower$function$\n"
    );
}

#[test]
fn objects_are_described() {
    let described = |class: u32, number: u32, column: i32| {
        of("pg_describe_object", &[Datum::Oid(class), Datum::Oid(number), Datum::Int4(column)])
    };
    for (class, number, column, expected) in [
        (1259, T, 0, "table t"),
        (1259, P, 2, "column code of table s.p"),
        (1259, I, 0, "index i"),
        (1259, V, 0, "view v"),
        (1259, SQ, 0, "sequence sq"),
        (1259, 99, 0, ""),
        (1247, 23, 0, "type integer"),
        (1247, 99_999, 0, ""),
        (2615, 2200, 0, "schema public"),
        (1255, 870, 0, "function lower(text)"),
        (2617, 96, 0, "operator =(integer,integer)"),
        (1260, 10, 0, "role postgres"),
        (1262, 5, 0, "database postgres"),
        (2606, P_PKEY + 1, 0, "constraint p_pkey on table s.p"),
        (2604, super::super::numbers::column_default(T, 4), 0, "default value for column d of table t"),
        (2618, super::super::numbers::rule(V), 0, "rule _RETURN on view v"),
        (0, 0, 0, ""),
    ] {
        assert_eq!(described(class, number, column), expected);
    }
}

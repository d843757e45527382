use super::*;
use crate::oid;

#[test]
fn types_are_found_by_name_and_number() {
    let system = system();
    let int4 = system.type_by_name("int4").unwrap();
    assert_eq!((int4.oid, int4.length, int4.category, int4.kind), (oid::INT4, 4, b'N', b'b'));
    assert_eq!((int4.element, int4.array, int4.is_preferred), (0, oid::INT4_ARRAY, false));
    let array = system.type_by_oid(int4.array).unwrap();
    assert_eq!((array.name.as_str(), array.element, array.length), ("_int4", oid::INT4, -1));
    assert_eq!(
        system.type_by_oid(oid::NAME).unwrap().element,
        0,
        "subscripts of a name are not those of an array"
    );
    assert_eq!(system.type_by_oid(603).unwrap().delimiter, b';');
    assert!(system.type_by_name("sql_identifier").is_none());
    assert!(system.type_by_name("no such type").is_none());
}

#[test]
fn domains_say_what_is_below_them() {
    let system = system();
    let schema = system.types().iter().find(|row| row.name == "sql_identifier").unwrap().namespace;
    let yes_or_no = system.type_in(schema, "yes_or_no").unwrap();
    assert_eq!((yes_or_no.kind, yes_or_no.base, yes_or_no.base_modifier), (b'd', oid::VARCHAR, 3 + 4));
}

#[test]
fn every_constant_names_its_type() {
    for (name, number) in
        [("bool", oid::BOOL), ("jsonb", oid::JSONB), ("xid8", oid::XID8), ("_text", oid::TEXT_ARRAY)]
    {
        assert_eq!(system().type_by_name(name).unwrap().oid, number, "{name}");
    }
}

#[test]
fn functions_are_found_by_name_with_all_overloads() {
    let system = system();
    let substrings = system.functions_named("substring");
    assert_eq!(substrings.len(), 8);
    assert!(substrings.iter().all(|row| row.name == "substring" && row.namespace == PG_CATALOG));
    let sum = system.functions_named("sum");
    assert!(sum.iter().all(|row| row.kind == FunctionKind::Aggregate));
    assert!(system.functions_named("no such function").is_empty());
    let lag = system.functions_named("lag");
    assert!(lag.iter().all(|row| row.kind == FunctionKind::Window));
}

#[test]
fn functions_have_their_parameters() {
    let function = |name: &str| system().functions_named(name).first().unwrap();
    let make_interval = function("make_interval");
    assert_eq!((make_interval.arguments.len(), make_interval.defaults), (7, 7));
    assert_eq!(make_interval.default_values, ["0", "0", "0", "0", "0", "0", "0.0"]);
    assert_eq!(make_interval.names[0], "years");
    assert_eq!(function("concat_ws").variadic, oid::ANY);
    let partition = function("satisfies_hash_partition");
    assert_eq!(partition.outputs.last().map(|(mode, of)| (mode.as_str(), *of)), Some(("v", oid::ANY)));
    let each = function("json_each");
    assert!(each.returns_set && each.is_strict);
    let modes: Vec<_> = each.outputs.iter().map(|(mode, of)| (mode.as_str(), *of)).collect();
    assert_eq!(modes, [("i", oid::JSON), ("o", oid::TEXT), ("o", oid::JSON)]);
}

#[test]
fn functions_in_sql_have_sources_of_their_own() {
    let lpad = system().functions_named("lpad");
    let sources: Vec<_> = lpad.iter().map(|row| row.source.as_str()).collect();
    assert_eq!(sources, ["lpad", "lpad/2"]);
}

#[test]
fn operators_are_found_by_name_and_number() {
    let system = system();
    let equal = system
        .operators_named("=")
        .iter()
        .find(|row| (row.left, row.right) == (oid::INT4, oid::INT4))
        .unwrap();
    assert_eq!((equal.oid, equal.result, equal.can_hash), (96, oid::BOOL, true));
    assert_eq!(system.function(equal.function).unwrap().source, "int4eq");
    assert_eq!(system.operator(equal.negator).unwrap().name, "<>");
    assert!(system.operators_named("-").iter().any(|row| row.left == 0 && row.right == oid::INT4));
}

#[test]
fn casts_are_found_by_their_sides() {
    let system = system();
    let widening = system.cast(oid::INT4, oid::INT8).unwrap();
    assert_eq!(widening.context, CastContext::Implicit);
    assert!(matches!(widening.method, CastMethod::Function(_)));
    assert_eq!(system.cast(oid::TEXT, oid::VARCHAR).unwrap().method, CastMethod::Binary);
    assert!(system.cast(oid::BOOL, oid::DATE).is_none());
}

#[test]
fn numbers_in_the_catalogs_are_those_of_other_rows() {
    let system = system();
    for row in system.functions() {
        for of in row.arguments.iter().chain([&row.result]).chain(row.outputs.iter().map(|(_, of)| of)) {
            assert!(system.type_by_oid(*of).is_some(), "{}: type {of}", row.source);
        }
        assert!(
            row.names.is_empty() || row.names.len() == row.arguments.len().max(row.outputs.len()),
            "{row:?}"
        );
    }
    for row in system.operators() {
        assert!(row.function == 0 || system.function(row.function).is_some(), "{row:?}");
        assert!(row.commutator == 0 || system.operator(row.commutator).is_some(), "{row:?}");
    }
    for row in system.types() {
        assert!(row.element == 0 || system.type_by_oid(row.element).is_some(), "{row:?}");
        assert!(row.array == 0 || system.type_by_oid(row.array).is_some(), "{row:?}");
    }
}

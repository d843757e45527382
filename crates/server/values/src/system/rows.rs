//! Rows of the catalogs from their text.

use super::file::{Block, Field, array_elements};
use super::{CastContext, CastMethod, CastRow, FunctionKind, FunctionRow, OperatorRow, TypeRow};
use crate::oid::Oid;

/// `pg_language.oid` of functions whose bodies are SQL.
const SQL_LANGUAGE: Oid = 14;
/// `pg_proc.oid` of the handler that subscripts of arrays have.
const ARRAY_SUBSCRIPT_HANDLER: Oid = 6179;

/// The fields of a row by the positions of their columns.
struct Reader {
    row: Vec<Field>,
}

impl Reader {
    fn text(&self, position: usize) -> &str {
        self.row[position].as_deref().expect("the column is NOT NULL")
    }

    fn number<T: std::str::FromStr>(&self, position: usize) -> T {
        let text = self.text(position);
        text.parse().unwrap_or_else(|_| panic!("{text:?} in the catalogs is not a number"))
    }

    fn is_true(&self, position: usize) -> bool {
        self.text(position) == "t"
    }

    /// A `"char"`.
    fn letter(&self, position: usize) -> u8 {
        self.text(position).bytes().next().unwrap_or(0)
    }

    /// An array, or nothing, as an empty one; a null element as an empty text.
    fn elements(&self, position: usize) -> Vec<String> {
        let elements = self.row[position].as_deref().map(array_elements).unwrap_or_default();
        elements.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// An `oidvector`.
    fn oids(&self, position: usize) -> Vec<Oid> {
        self.text(position).split_ascii_whitespace().map(oid).collect()
    }
}

fn oid(text: &str) -> Oid {
    text.parse().unwrap_or_else(|_| panic!("{text:?} in the catalogs is not a number"))
}

/// Reads rows with the positions of named columns.
fn read<const N: usize, T>(
    block: &Block,
    columns: [&str; N],
    row: impl Fn(&Reader, [usize; N]) -> T,
) -> Vec<T> {
    let positions = columns.map(|column| block.position(column));
    block.rows().map(|fields| row(&Reader { row: fields }, positions)).collect()
}

pub(super) fn types(block: &Block) -> Vec<TypeRow> {
    let columns = [
        "oid",
        "typname",
        "typnamespace",
        "typlen",
        "typcategory",
        "typispreferred",
        "typtype",
        "typelem",
        "typarray",
        "typrelid",
        "typsubscript",
        "typbasetype",
        "typtypmod",
        "typdelim",
    ];
    read(block, columns, |row, at| TypeRow {
        oid: row.number(at[0]),
        name: row.text(at[1]).to_owned(),
        namespace: row.number(at[2]),
        length: row.number(at[3]),
        category: row.letter(at[4]),
        is_preferred: row.is_true(at[5]),
        kind: row.letter(at[6]),
        element: if row.number::<Oid>(at[10]) == ARRAY_SUBSCRIPT_HANDLER { row.number(at[7]) } else { 0 },
        array: row.number(at[8]),
        relation: row.number(at[9]),
        base: row.number(at[11]),
        base_modifier: row.number(at[12]),
        delimiter: row.letter(at[13]),
    })
}

pub(super) fn functions(block: &Block) -> Vec<FunctionRow> {
    let columns = [
        "oid",
        "proname",
        "pronamespace",
        "prolang",
        "prokind",
        "proargtypes",
        "provariadic",
        "prorettype",
        "proargnames",
        "proallargtypes",
        "proargmodes",
        "proisstrict",
        "proretset",
        "provolatile",
        "prosrc",
        "_defaults",
    ];
    read(block, columns, |row, at| {
        let default_values = row.elements(at[15]);
        let arguments = row.oids(at[5]);
        let argument_count = arguments.len();
        let modes = row.elements(at[10]);
        // Where all parameters are inputs, their types need not be repeated.
        let all_types: Vec<Oid> = match &row.row[at[9]] {
            Some(types) => array_elements(types).iter().flatten().map(|text| oid(text)).collect(),
            None => arguments.clone(),
        };
        FunctionRow {
            oid: row.number(at[0]),
            name: row.text(at[1]).to_owned(),
            namespace: row.number(at[2]),
            kind: kind(row.letter(at[4])),
            arguments,
            defaults: u16::try_from(default_values.len()).expect("a function has at most 100 parameters"),
            default_values,
            variadic: row.number(at[6]),
            result: row.number(at[7]),
            names: row.elements(at[8]),
            outputs: modes.into_iter().zip(all_types).collect(),
            is_strict: row.is_true(at[11]),
            returns_set: row.is_true(at[12]),
            volatility: row.letter(at[13]),
            source: match row.number(at[3]) {
                SQL_LANGUAGE => format!("{}/{}", row.text(at[1]), argument_count),
                _ => row.text(at[14]).to_owned(),
            },
        }
    })
}

fn kind(letter: u8) -> FunctionKind {
    match letter {
        b'f' => FunctionKind::Function,
        b'a' => FunctionKind::Aggregate,
        b'w' => FunctionKind::Window,
        b'p' => FunctionKind::Procedure,
        other => panic!("{other} in the catalogs is not a kind of functions"),
    }
}

pub(super) fn operators(block: &Block) -> Vec<OperatorRow> {
    let columns = [
        "oid",
        "oprname",
        "oprleft",
        "oprright",
        "oprresult",
        "oprcode",
        "oprcom",
        "oprnegate",
        "oprcanhash",
    ];
    read(block, columns, |row, at| OperatorRow {
        oid: row.number(at[0]),
        name: row.text(at[1]).to_owned(),
        left: row.number(at[2]),
        right: row.number(at[3]),
        result: row.number(at[4]),
        function: row.number(at[5]),
        commutator: row.number(at[6]),
        negator: row.number(at[7]),
        can_hash: row.is_true(at[8]),
    })
}

pub(super) fn casts(block: &Block) -> Vec<CastRow> {
    read(block, ["castsource", "casttarget", "castfunc", "castcontext", "castmethod"], |row, at| CastRow {
        source: row.number(at[0]),
        target: row.number(at[1]),
        context: match row.letter(at[3]) {
            b'e' => CastContext::Explicit,
            b'a' => CastContext::Assignment,
            b'i' => CastContext::Implicit,
            other => panic!("{other} in the catalogs is not a context of casts"),
        },
        method: match row.letter(at[4]) {
            b'f' => CastMethod::Function(row.number(at[2])),
            b'b' => CastMethod::Binary,
            b'i' => CastMethod::Text,
            other => panic!("{other} in the catalogs is not a method of casts"),
        },
    })
}

//! `CREATE FUNCTION`, `ALTER FUNCTION`, and functions as other statements name them.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::DataType;

use super::super::reader::Reader;
use super::super::statement::definition::{
    AlterFunction, CreateFunction, Definition, FunctionAction, FunctionBody, FunctionLanguage,
    FunctionProperties, RoutineName, WrittenParameter, WrittenResult,
};
use super::role_name;

/// After `CREATE FUNCTION`.
pub(super) fn create(reader: &mut Reader<'_>, or_replace: bool) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    reader.expect_character('(')?;
    let mut parameters = if reader.is_character(')') { Vec::new() } else { reader.list(parameter)? };
    reader.expect_character(')')?;
    let mut result = None;
    if reader.take_word("returns") {
        if reader.take_word("table") {
            reader.expect_character('(')?;
            let columns = reader.list(column)?;
            reader.expect_character(')')?;
            if parameters.iter().any(|known: &WrittenParameter| matches!(known.mode, b'o' | b'b')) {
                let message = "OUT and INOUT arguments aren't allowed in TABLE functions";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            parameters.extend(columns);
            result = Some(WrittenResult { of: None, is_set: true });
        } else {
            let is_set = reader.take_word("setof");
            result = Some(WrittenResult { of: Some(reader.data_type()?), is_set });
        }
    }
    let mut create = CreateFunction {
        name,
        or_replace,
        parameters,
        result,
        language: None,
        properties: FunctionProperties::default(),
        body: None,
    };
    while option(reader, &mut create)? {}
    Ok(Definition::CreateFunction(Box::new(create)))
}

/// A column of `RETURNS TABLE`.
fn column(reader: &mut Reader<'_>) -> SqlResult<WrittenParameter> {
    let name = parameter_name(reader)?;
    Ok(WrittenParameter { name: Some(name), mode: b't', of: reader.data_type()?, default: None })
}

/// The name of a parameter: any word that is not reserved.
fn parameter_name(reader: &mut Reader<'_>) -> SqlResult<String> {
    reader.unreserved_word()
}

/// `[mode] [name] type [DEFAULT value]`; the name may come first.
fn parameter(reader: &mut Reader<'_>) -> SqlResult<WrittenParameter> {
    let mut mode = mode(reader);
    let start = reader.place();
    let (mut name, mut of) = (None, None);
    // The type alone, if it ends the parameter; else the first word is the name.
    if let Ok(found) = reader.data_type()
        && ends_parameter(reader)
    {
        of = Some(found);
    }
    if of.is_none() {
        reader.go_back(start);
        name = Some(parameter_name(reader)?);
        mode = mode.or_else(|| self::mode(reader));
    }
    let of = match of {
        Some(of) => of,
        None => reader.data_type()?,
    };
    let has_default = reader.take_word("default") || reader.take_operator("=");
    let default = if has_default { Some(reader.written_expression()?) } else { None };
    Ok(WrittenParameter { name, mode: mode.unwrap_or(b'i'), of, default })
}

fn ends_parameter(reader: &Reader<'_>) -> bool {
    reader.is_character(',')
        || reader.is_character(')')
        || reader.is_word("default")
        || reader.is_operator("=")
}

fn mode(reader: &mut Reader<'_>) -> Option<u8> {
    Some(match reader.take_one_of(&["in", "out", "inout", "variadic"])? {
        "in" if reader.take_word("out") => b'b',
        "in" => b'i',
        "out" => b'o',
        "inout" => b'b',
        _ => b'v',
    })
}

fn set<T>(slot: &mut Option<T>, value: T, place: Option<u32>) -> SqlResult<()> {
    if slot.is_some() {
        let message = "conflicting or redundant options";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(place));
    }
    *slot = Some(value);
    Ok(())
}

/// One option after the result; `false`: there is none.
fn option(reader: &mut Reader<'_>, create: &mut CreateFunction) -> SqlResult<bool> {
    let place = reader.position();
    if reader.take_word("language") {
        let name = match reader.take_string() {
            Some(name) => name,
            None => reader.unreserved_word()?,
        };
        set(&mut create.language, FunctionLanguage { name }, place)?;
    } else if reader.take_word("as") {
        let position = reader.position();
        let start = reader.place();
        let text = reader.string()?;
        if reader.is_character(',') {
            return Err(SqlError::unsupported("a function in a library"));
        }
        let literal = reader.text_since(start);
        set(&mut create.body, FunctionBody::of(text, literal.statement(), position), place)?;
    } else if reader.is_word("return") || reader.is_words(&["begin", "atomic"]) {
        return Err(SqlError::unsupported("a function whose body is not a text"));
    } else {
        return property(reader, &mut create.properties);
    }
    Ok(true)
}

/// One property; `false`: there is none.
fn property(reader: &mut Reader<'_>, properties: &mut FunctionProperties) -> SqlResult<bool> {
    let place = reader.position();
    if let Some(word) = reader.take_one_of(&["immutable", "stable", "volatile"]) {
        set(&mut properties.volatility, word.as_bytes()[0], place)?;
    } else if reader.take_word("strict") || reader.take(&["returns", "null", "on", "null", "input"]) {
        set(&mut properties.is_strict, true, place)?;
    } else if reader.take(&["called", "on", "null", "input"]) {
        set(&mut properties.is_strict, false, place)?;
    } else if reader.take(&["not", "leakproof"]) {
        set(&mut properties.is_leakproof, false, place)?;
    } else if reader.take_word("leakproof") {
        set(&mut properties.is_leakproof, true, place)?;
    } else if reader.take_word("parallel") {
        let word = reader.label()?;
        let parallel = match word.as_str() {
            "safe" => b's',
            "restricted" => b'r',
            "unsafe" => b'u',
            _ => {
                let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        set(&mut properties.parallel, parallel, place)?;
    } else if reader.take_word("cost") {
        let cost = positive(reader, "COST must be positive")?;
        set(&mut properties.cost, cost, place)?;
    } else if reader.take_word("rows") {
        let rows = positive(reader, "ROWS must be positive")?;
        set(&mut properties.rows, rows, place)?;
    } else if reader.take(&["external", "security"]) || reader.take_word("security") {
        if reader.take_word("definer") {
            return Err(SqlError::unsupported("SECURITY DEFINER"));
        }
        reader.expect_word("invoker")?;
    } else {
        const OTHERS: [&str; 4] = ["transform", "window", "support", "set"];
        if let Some(word) = OTHERS.iter().find(|word| reader.is_word(word)) {
            return Err(SqlError::unsupported(format!("{} of a function", word.to_uppercase())));
        }
        return Ok(false);
    }
    Ok(true)
}

fn positive(reader: &mut Reader<'_>, message: &str) -> SqlResult<f64> {
    let number = reader.take_number().and_then(|number| number.parse::<f64>().ok());
    match number.ok_or_else(|| reader.error())? {
        number if number > 0.0 => Ok(number),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)),
    }
}

/// After `ALTER FUNCTION`, `ALTER ROUTINE`.
pub(super) fn alter(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let function = routine(reader)?;
    let action = if reader.take(&["owner", "to"]) {
        FunctionAction::SetOwner(role_name(reader)?)
    } else if reader.take(&["rename", "to"]) {
        FunctionAction::Rename(reader.name()?)
    } else if reader.take(&["set", "schema"]) {
        FunctionAction::SetSchema(reader.name()?)
    } else {
        let mut properties = FunctionProperties::default();
        if !property(reader, &mut properties)? {
            return Err(reader.error());
        }
        while property(reader, &mut properties)? {}
        reader.take_word("restrict");
        FunctionAction::SetProperties(properties)
    };
    Ok(Definition::AlterFunction(AlterFunction { function, action }))
}

/// A name, and the types of its arguments if they are said.
pub(super) fn routine(reader: &mut Reader<'_>) -> SqlResult<RoutineName> {
    let name = reader.object_name()?;
    if !reader.take_character('(') {
        return Ok(RoutineName { name, arguments: None });
    }
    let arguments = if reader.take_operator("*") || reader.is_character(')') {
        Vec::new()
    } else {
        reader.list(argument)?.into_iter().flatten().collect()
    };
    reader.expect_character(')')?;
    Ok(RoutineName { name, arguments: Some(arguments) })
}

/// `[mode] [name] type`; `None`: an output.
fn argument(reader: &mut Reader<'_>) -> SqlResult<Option<DataType>> {
    let mode = mode(reader);
    let start = reader.place();
    let given = |of| Ok((mode != Some(b'o')).then_some(of));
    if let Ok(of) = reader.data_type()
        && (reader.is_character(',') || reader.is_character(')'))
    {
        return given(of);
    }
    // That was the name.
    reader.go_back(start);
    parameter_name(reader)?;
    let of = reader.data_type()?;
    given(of)
}

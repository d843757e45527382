//! Types, indexes and constraints as text of SQL, in PostgreSQL's words.

use seawall_values::system::system;
use seawall_values::user_types::{PLACE_MARK, VALUE, element_of_user_array, is_user_type};
use seawall_values::{Oid, SqlResult, TypeReference, oid};

use super::names::{quoted, relation_text, type_text};
use super::source::Source;
use crate::schema::user_type::{DomainCheck, UserTypeKind};
use crate::schema::{
    Constraint, ConstraintKind, Definition, ForeignKey, Index, IndexKey, IndexedValue, ReferentialAction,
    Table,
};

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// All schemas and parentheses: what can be run anywhere.
    Exact,
    /// For people: without schemas of the search path, and without parentheses around the whole.
    Pretty,
}

/// A system type as `format_type` shows it; `None`: it is not in the catalogs, or not in `pg_catalog`. Without a modifier `-1` the name is
/// that of SQL's grammar: `character`, where one with a modifier of -1 is `bpchar`.
pub fn system_type(of: Oid, modifier: Option<i32>) -> Option<String> {
    let row = system().type_by_oid(of)?;
    if row.element != 0 && row.length == -1 && row.name.starts_with('_') {
        return system_type(row.element, modifier).map(|element| element + "[]");
    }
    let length = modifier.filter(|modifier| *modifier >= 4).map(|modifier| modifier - 4);
    let bits = modifier.filter(|modifier| *modifier >= 0);
    let with = |name: &str, number: Option<i32>| match number {
        Some(number) => format!("{name}({number})"),
        None => name.to_owned(),
    };
    Some(match of {
        oid::BOOL => "boolean".to_owned(),
        oid::INT2 => "smallint".to_owned(),
        oid::INT4 => "integer".to_owned(),
        oid::INT8 => "bigint".to_owned(),
        oid::FLOAT4 => "real".to_owned(),
        oid::FLOAT8 => "double precision".to_owned(),
        oid::BPCHAR if modifier.is_some() && length.is_none() => "bpchar".to_owned(),
        oid::BPCHAR => with("character", length),
        oid::VARCHAR => with("character varying", length),
        oid::BIT if modifier.is_some() && bits.is_none() => "\"bit\"".to_owned(),
        oid::BIT => with("bit", bits),
        oid::VARBIT => with("bit varying", bits),
        oid::TIME => with("time", bits) + " without time zone",
        oid::TIMETZ => with("time", bits) + " with time zone",
        oid::TIMESTAMP => with("timestamp", bits) + " without time zone",
        oid::TIMESTAMPTZ => with("timestamp", bits) + " with time zone",
        oid::INTERVAL => bits.map_or_else(|| "interval".to_owned(), interval),
        oid::NUMERIC => length.map_or_else(|| "numeric".to_owned(), numeric),
        _ if row.namespace == super::numbers::PG_CATALOG => with(&quoted(&row.name), bits),
        _ => return None,
    })
}

/// `numeric(p,s)`. A scale has eleven bits and may be negative.
fn numeric(modifier: i32) -> String {
    let scale = modifier & 0x7FF;
    format!("numeric({},{})", modifier >> 16 & 0xFFFF, (scale ^ 1024) - 1024)
}

/// `interval` with its fields and precision.
fn interval(modifier: i32) -> String {
    const MONTH: i32 = 1 << 1;
    const YEAR: i32 = 1 << 2;
    const DAY: i32 = 1 << 3;
    const HOUR: i32 = 1 << 10;
    const MINUTE: i32 = 1 << 11;
    const SECOND: i32 = 1 << 12;
    let fields = [
        (YEAR, " year"),
        (MONTH, " month"),
        (DAY, " day"),
        (HOUR, " hour"),
        (MINUTE, " minute"),
        (SECOND, " second"),
        (YEAR | MONTH, " year to month"),
        (DAY | HOUR, " day to hour"),
        (DAY | HOUR | MINUTE, " day to minute"),
        (DAY | HOUR | MINUTE | SECOND, " day to second"),
        (HOUR | MINUTE, " hour to minute"),
        (HOUR | MINUTE | SECOND, " hour to second"),
        (MINUTE | SECOND, " minute to second"),
    ];
    let found = fields.iter().find(|(mask, _)| *mask == modifier >> 16 & 0x7FFF);
    let words = found.map_or("", |(_, words)| words);
    match modifier & 0xFFFF {
        0xFFFF => format!("interval{words}"),
        precision => format!("interval{words}({precision})"),
    }
}

/// A column's type.
///
/// # Errors
/// What the source says.
pub fn column_type(source: &mut dyn Source, of: TypeReference) -> SqlResult<String> {
    type_text(source, of.oid, Some(of.modifier))
}

/// The name of an index's column: that of the table's column, or of the function called.
pub(super) fn key_name(table: &Table, key: &IndexKey) -> String {
    match &key.what {
        IndexedValue::Column(position) => {
            table.columns.get(*position).map_or_else(String::new, |column| column.name.clone())
        }
        IndexedValue::Expression(expression) => function_called(expression).unwrap_or("expr").to_owned(),
    }
}

/// The name of the function, if the expression is a call and nothing else.
fn function_called(expression: &str) -> Option<&str> {
    let name = expression.split('(').next().filter(|name| name.len() < expression.len())?;
    let is_name = !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '.');
    (is_name && is_closed_by_its_end(&expression[name.len()..]))
        .then(|| name.rsplit('.').next().unwrap_or(name))
}

/// Whether the parenthesis that a text begins with is closed by its last character.
fn is_closed_by_its_end(text: &str) -> bool {
    let mut depth = 0;
    let mut quote = None;
    for (position, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return position + 1 == text.len();
                }
            }
            (None, _) => {}
        }
    }
    false
}

/// An expression, without the parentheses around the whole if it is for people.
pub fn expression(text: &str, style: Style) -> &str {
    if style == Style::Pretty && text.starts_with('(') && is_closed_by_its_end(text) {
        return &text[1..text.len() - 1];
    }
    text
}

/// An expression with names in the place of the numbers that stand for relations: `nextval('s'::regclass)`.
///
/// # Errors
/// What the source says.
pub fn with_relation_names(source: &mut dyn Source, text: &str) -> SqlResult<String> {
    const CAST: &str = "'::regclass";
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(end) = rest.find(CAST) {
        let begin = rest[..end].rfind('\'').map_or(end, |quote| quote + 1);
        match rest[begin..end].parse() {
            Ok(oid) => {
                let name = relation_text(source, oid)?.replace('\'', "''");
                shown.push_str(&rest[..begin]);
                shown.push_str(&name);
            }
            Err(_) => shown.push_str(&rest[..end]),
        }
        shown.push_str(CAST);
        rest = &rest[end + CAST.len()..];
    }
    shown.push_str(rest);
    with_type_names(source, &shown)
}

/// An expression with names in the place of the numbers that stand for types of users, and labels in that of places: `'sad'::mood`.
fn with_type_names(source: &mut dyn Source, text: &str) -> SqlResult<String> {
    const CAST: &str = "::pg_catalog.\"";
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(CAST) {
        let after = &rest[at + CAST.len()..];
        let end = after.find('"').unwrap_or(after.len());
        let cast = &rest[at..(at + CAST.len() + end + 1).min(rest.len())];
        let is_twice =
            |cast: &str| rest[at..].strip_prefix(cast).is_some_and(|after| after.starts_with(cast));
        if is_twice(&format!("{cast}[]")) || is_twice(cast) {
            // The text of a view has a cast around a label that may have one already.
            let length = if is_twice(cast) { cast.len() } else { cast.len() + 2 };
            let once = format!("{}{}", &rest[..at], &rest[at + length..]);
            shown.push_str(&with_type_names(source, &once)?);
            return Ok(shown);
        }
        match after[..end].parse().ok().filter(|of| is_user_type(*of)) {
            Some(of) => {
                let value = with_labels(source, &rest[..at], of)?;
                shown.push_str(&value);
                shown.push_str("::");
                shown.push_str(&type_text(source, of, None)?);
            }
            None => shown.push_str(&rest[..at + CAST.len() + end + 1]),
        }
        rest = after.get(end + 1..).unwrap_or("");
    }
    shown.push_str(rest);
    Ok(shown)
}

/// The query of a view, with names in the place of the numbers of relations and types.
///
/// # Errors
/// What the source says.
pub(super) fn view_query(source: &mut dyn Source, text: &str) -> SqlResult<String> {
    const NUMBERED: &str = "pg_catalog.\"";
    let text = with_type_names(source, text)?;
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find(NUMBERED) {
        shown.push_str(&rest[..at]);
        let after = &rest[at + NUMBERED.len()..];
        let end = after.find('"').unwrap_or(after.len());
        let Ok(number) = after[..end].parse::<Oid>() else {
            shown.push_str(NUMBERED);
            rest = after;
            continue;
        };
        rest = after.get(end + 1..).unwrap_or("");
        if is_user_type(number) {
            shown.push_str(&type_text(source, number, None)?);
            continue;
        }
        let mut known_as = None;
        while let Some((name, after)) = rest.strip_prefix('.').map(first_name) {
            (known_as, rest) = (Some(name), after);
        }
        shown.push_str(&relation_text(source, number)?);
        let now = source.definition(number)?.map(|found| quoted(super::heading(&found).name));
        if let Some(name) = known_as.filter(|name| now.as_deref() != Some(*name)) {
            shown.push(' ');
            shown.push_str(name);
        }
    }
    shown.push_str(rest);
    Ok(shown)
}

/// The name that a text begins with, in quotes or not, and what comes after it.
fn first_name(text: &str) -> (&str, &str) {
    let end = match text.strip_prefix('"') {
        None => text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '$'),
        Some(quoted) => {
            let mut letters = quoted.char_indices().peekable();
            let mut end = None;
            while let Some((at, letter)) = letters.next() {
                if letter == '"' && letters.next_if(|(_, next)| *next == '"').is_none() {
                    end = Some(at + 2);
                    break;
                }
            }
            end
        }
    };
    text.split_at(end.unwrap_or(text.len()))
}

/// The text before the cast to an enum, in which places of labels are marked.
fn with_labels(source: &mut dyn Source, text: &str, of: Oid) -> SqlResult<String> {
    let Some((before, value)) = text.rsplit_once('\'').and_then(|(front, _)| {
        let begin = front.rfind('\'')? + 1;
        Some((&text[..begin], &front[begin..]))
    }) else {
        return Ok(text.to_owned());
    };
    if !value.contains(PLACE_MARK) {
        return Ok(text.to_owned());
    }
    let element = element_of_user_array(of).unwrap_or(of);
    let types = source.user_types()?;
    let labels = match types.iter().find(|known| known.oid == element).map(|known| &known.kind) {
        Some(UserTypeKind::Enum(labels)) => labels.as_slice(),
        _ => &[],
    };
    let mut shown = before.to_owned();
    let mut parts = value.split(PLACE_MARK);
    shown.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let digits =
            part.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(part.len());
        let label = part[..digits].parse().ok().and_then(|place: i64| {
            labels.iter().find(|label| label.place == place).map(|label| label.text.replace('\'', "''"))
        });
        shown.push_str(&label.unwrap_or_default());
        shown.push_str(&part[digits..]);
    }
    shown.push('\'');
    Ok(shown)
}

/// A condition of a domain, with `VALUE` as PostgreSQL writes it.
pub(super) fn domain_condition(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            letter if letter.is_alphanumeric() || letter == '_' => {
                rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len())
            }
            other => other.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        shown.push_str(if word == VALUE { "VALUE" } else { word });
        rest = after;
    }
    shown
}

/// A condition of a domain as `ALTER DOMAIN .. ADD` takes it.
///
/// # Errors
/// What the source says.
pub fn domain_check(source: &mut dyn Source, check: &DomainCheck, style: Style) -> SqlResult<String> {
    let condition = domain_condition(expression(&check.condition, style));
    let not_valid = if check.is_validated { "" } else { " NOT VALID" };
    with_type_names(source, &format!("CHECK ({condition}){not_valid}"))
}

fn column_list(table: &Table, positions: &[usize]) -> String {
    let columns = positions.iter().filter_map(|position| table.columns.get(*position));
    columns.map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

/// What an index orders by at one place, without its order.
pub(crate) fn index_key(table: &Table, key: &IndexKey, style: Style) -> String {
    match &key.what {
        IndexedValue::Column(_) => quoted(&key_name(table, key)),
        IndexedValue::Expression(text) if function_called(text).is_some() => text.clone(),
        IndexedValue::Expression(text) => format!("({})", expression(text, style)),
    }
}

/// A column of an index by its number from 1, as `pg_get_indexdef` with a number shows it; `None`: there is no such column.
pub(super) fn index_column(table: &Table, index: &Index, number: usize, style: Style) -> Option<String> {
    let position = number.checked_sub(1)?;
    match index.keys.get(position) {
        Some(key) => Some(index_key(table, key, style)),
        None => {
            let column = index.included.get(position - index.keys.len())?;
            table.columns.get(*column).map(|column| quoted(&column.name))
        }
    }
}

/// `CREATE INDEX`.
///
/// # Errors
/// What the source says.
pub fn index(source: &mut dyn Source, table: &Table, index: &Index, style: Style) -> SqlResult<String> {
    let is_unique = index.is_unique || table.deferrable_constraint(index).is_some();
    let unique = if is_unique { "UNIQUE " } else { "" };
    let on = table_text(source, table, style)?;
    let keys: Vec<String> = index
        .keys
        .iter()
        .map(|key| {
            let order = match (key.is_descending, key.is_nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            index_key(table, key, style) + order
        })
        .collect();
    let mut text =
        format!("CREATE {unique}INDEX {} ON {on} USING btree ({})", quoted(&index.name), keys.join(", "));
    if !index.included.is_empty() {
        text += &format!(" INCLUDE ({})", column_list(table, &index.included));
    }
    if index.is_nulls_not_distinct {
        text += " NULLS NOT DISTINCT";
    }
    if let Some(predicate) = &index.predicate {
        text += &format!(" WHERE {}", expression(predicate, style));
    }
    with_type_names(source, &text)
}

/// The name of a table, with its schema unless that is left out for people.
fn table_text(source: &mut dyn Source, table: &Table, style: Style) -> SqlResult<String> {
    match style {
        Style::Pretty => relation_text(source, table.oid),
        Style::Exact => {
            let namespace = super::names::namespace_name(source, table.namespace)?.unwrap_or_default();
            Ok(format!("{}.{}", quoted(&namespace), quoted(&table.name)))
        }
    }
}

/// A constraint as `ALTER TABLE .. ADD CONSTRAINT name` takes it.
///
/// # Errors
/// What the source says.
pub fn constraint(
    source: &mut dyn Source,
    table: &Table,
    constraint: &Constraint,
    style: Style,
) -> SqlResult<String> {
    let mut text = match &constraint.kind {
        ConstraintKind::Check(condition) => format!("CHECK ({})", expression(condition, style)),
        ConstraintKind::Unique(oid) => match table.indexes.iter().find(|index| index.oid == *oid) {
            Some(index) => unique(table, index),
            None => String::new(),
        },
        ConstraintKind::ForeignKey(key) => foreign_key(source, table, key)?,
    };
    if constraint.is_deferrable {
        text += " DEFERRABLE";
    }
    if constraint.is_deferred {
        text += " INITIALLY DEFERRED";
    }
    if !constraint.is_validated {
        text += " NOT VALID";
    }
    with_type_names(source, &text)
}

fn unique(table: &Table, index: &Index) -> String {
    let word = match (index.is_primary, index.is_nulls_not_distinct) {
        (true, _) => "PRIMARY KEY",
        (false, true) => "UNIQUE NULLS NOT DISTINCT",
        (false, false) => "UNIQUE",
    };
    let keys: Vec<String> = index.keys.iter().map(|key| index_key(table, key, Style::Exact)).collect();
    let mut text = format!("{word} ({})", keys.join(", "));
    if !index.included.is_empty() {
        text += &format!(" INCLUDE ({})", column_list(table, &index.included));
    }
    text
}

fn foreign_key(source: &mut dyn Source, table: &Table, key: &ForeignKey) -> SqlResult<String> {
    let target_columns = match source.definition(key.target)? {
        Some(Definition::Table(target)) => column_list(&target, &key.target_columns),
        _ => String::new(),
    };
    let target = relation_text(source, key.target)?;
    let mut text =
        format!("FOREIGN KEY ({}) REFERENCES {target}({target_columns})", column_list(table, &key.columns));
    if key.is_match_full {
        text += " MATCH FULL";
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != ReferentialAction::NoAction {
            text += &format!(" ON {event} {}", action_words(action));
        }
    }
    Ok(text)
}

/// An action in the words of SQL.
pub(super) fn action_words(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}

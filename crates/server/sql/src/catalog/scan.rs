//! A scan of a system relation: its initial rows, then live ones, a definition at a time.

use std::collections::VecDeque;

use seawall_values::set_returning::Rows;
use seawall_values::{Datum, Oid, SqlError, SqlResult};

use super::initial::initial_rows;
use super::live::{Live, array, live};
use super::names::Names;
use super::numbers::{BOOTSTRAP_ROLE, PG_CATALOG, SEAWALL, relation_of_type};
use super::source::Source;
use super::{information_schema, oid_of, relation, relation_named, relations};
use crate::schema::Definition;

/// The type `aclitem[]`.
const ACLITEM_ARRAY: Oid = 1034;

/// Rows of a system relation, pulled one by one. It keeps no more than the rows of one definition, and holds nothing of its source
/// between calls.
#[derive(Debug)]
pub struct Scan {
    columns: Vec<usize>,
    /// Those of `columns` that are access lists.
    access_lists: Vec<usize>,
    filter: Vec<(usize, Datum)>,
    initial: &'static [Vec<Datum>],
    live: Option<&'static Live>,
    next: Next,
    has_rest_made: bool,
    names: Option<Names>,
    ready: VecDeque<Vec<Datum>>,
}

/// Which definitions are still to be read.
#[derive(Debug)]
enum Next {
    /// System relations from this position on, then all others.
    System(usize),
    /// Those with larger numbers.
    After(Oid),
    /// The relation with this number.
    Numbered(Oid),
    /// The relations with this name.
    Named(String),
    /// What is made once.
    Rest,
    /// None.
    Done,
}

impl Scan {
    /// Rows of a relation with these columns, by position. Rows that a filter (column, value) rules out are left out; values of numbers,
    /// texts and booleans are compared, others not, so the caller looks at its condition again.
    ///
    /// # Errors
    /// There is no such relation.
    pub fn open(oid: Oid, columns: &[usize], filter: &[(usize, Datum)]) -> SqlResult<Scan> {
        let relation = relation(oid)
            .ok_or_else(|| SqlError::internal(format!("could not open relation with OID {oid}")))?;
        let rows = initial_rows(relation.name);
        let number = filter.iter().find_map(|(column, value)| match value {
            Datum::Oid(number) if *column == 0 => Some(*number),
            _ => None,
        });
        let live = live(relation.name);
        let is_never = filter.iter().any(|(_, value)| value.is_null());
        Ok(Scan {
            columns: columns.to_vec(),
            access_lists: (0..columns.len())
                .filter(|place| {
                    relation.columns.get(columns[*place]).is_some_and(|(_, of)| of.oid == ACLITEM_ARRAY)
                })
                .collect(),
            initial: match number {
                _ if is_never => &[],
                Some(number) => rows.numbered(number),
                None => rows.all(),
            },
            next: if is_never { Next::Done } else { first(live, filter) },
            filter: filter.to_vec(),
            live,
            has_rest_made: is_never,
            names: None,
            ready: VecDeque::new(),
        })
    }

    /// The next row; `None`: there are no more.
    ///
    /// # Errors
    /// What the source says.
    pub fn next(&mut self, source: &mut dyn Source) -> SqlResult<Option<Vec<Datum>>> {
        while let Some((row, rest)) = self.initial.split_first() {
            self.initial = rest;
            if self.is_wanted(row) {
                let mut row = self.project(row);
                self.name_owner(&mut row, source)?;
                return Ok(Some(row));
            }
        }
        loop {
            while let Some(row) = self.ready.pop_front() {
                if self.is_wanted(&row) {
                    return Ok(Some(self.project(&row)));
                }
            }
            if !self.make_more(source)? {
                return Ok(None);
            }
        }
    }

    /// All rows at once, for a reader that has no source when it pulls them. They take memory: a scan does not.
    ///
    /// # Errors
    /// As `open` and `next`.
    pub fn rows(
        relation: Oid,
        columns: &[usize],
        filter: &[(usize, Datum)],
        source: &mut dyn Source,
    ) -> SqlResult<Rows> {
        let mut scan = Scan::open(relation, columns, filter)?;
        let mut rows = Vec::new();
        while let Some(row) = scan.next(source)? {
            rows.push(row);
        }
        Ok(Box::new(rows.into_iter().map(Ok)))
    }

    /// Makes the rows of the next definition, or all of them; `false`: there are no more.
    fn make_more(&mut self, source: &mut dyn Source) -> SqlResult<bool> {
        let Some(live) = self.live else { return Ok(false) };
        let mut definitions = Vec::new();
        match live {
            Live::Once(make) => {
                if matches!(self.next, Next::Done) {
                    return Ok(false);
                }
                self.next = Next::Done;
                let names = Self::names(&mut self.names, source)?;
                make(source, names, &mut self.ready)?;
                return Ok(true);
            }
            Live::Both { once, .. } | Live::Each { rest: Some(once), .. }
                if matches!(self.next, Next::Rest) =>
            {
                self.next = Next::Done;
                let names = Self::names(&mut self.names, source)?;
                once(source, names, &mut self.ready)?;
                return Ok(true);
            }
            Live::Each { .. } | Live::Both { .. } => {
                let names = Self::names(&mut self.names, source)?;
                let has_more = self.next.take(source, names, &mut definitions)?;
                let has_rest = matches!(live, Live::Both { .. } | Live::Each { rest: Some(_), .. });
                if has_rest && matches!(self.next, Next::Done) && !self.has_rest_made {
                    (self.next, self.has_rest_made) = (Next::Rest, true);
                } else if !has_more {
                    return Ok(false);
                }
            }
        }
        let (Live::Each { make, .. } | Live::Both { each: make, .. }) = live else { return Ok(false) };
        let names = Self::names(&mut self.names, source)?;
        for definition in &definitions {
            make(definition, source, names, &mut self.ready)?;
        }
        Ok(true)
    }

    /// Writes the name of the role that made the database into the access lists of an initial row.
    fn name_owner(&mut self, row: &mut [Datum], source: &mut dyn Source) -> SqlResult<()> {
        if self.access_lists.iter().all(|place| row[*place].is_null()) {
            return Ok(());
        }
        let owner = Self::names(&mut self.names, source)?.role(BOOTSTRAP_ROLE);
        for place in &self.access_lists {
            if let Datum::Array(list) = &row[*place] {
                row[*place] = array(list.element, list.values.iter().map(|item| renamed(item, &owner)));
            }
        }
        Ok(())
    }

    fn names<'a>(names: &'a mut Option<Names>, source: &mut dyn Source) -> SqlResult<&'a Names> {
        if names.is_none() {
            *names = Some(Names::read(source)?);
        }
        names.as_ref().ok_or_else(|| SqlError::internal("names of schemas and roles are missing"))
    }

    fn is_wanted(&self, row: &[Datum]) -> bool {
        self.filter.iter().all(|(column, value)| row.get(*column).is_none_or(|found| may_equal(found, value)))
    }

    fn project(&self, row: &[Datum]) -> Vec<Datum> {
        self.columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
    }
}

/// An item of an initial access list, where the owner is called `postgres`.
fn renamed(item: &Datum, owner: &str) -> Datum {
    let Datum::Text(item) = item else { return Datum::Null };
    let item = match item.strip_prefix("postgres=") {
        Some(rest) => format!("{owner}={rest}"),
        None => item.to_string(),
    };
    Datum::text(item.strip_suffix("/postgres").map_or(item.clone(), |rest| format!("{rest}/{owner}")))
}

/// Whether a scan of a system relation with a value for this column reads only the definitions that have it.
pub(crate) fn finds_by(oid: Oid, column: usize) -> bool {
    match relation(oid).and_then(|relation| live(relation.name)) {
        Some(Live::Each { numbers, names, .. }) => numbers.contains(&column) || names.contains(&column),
        Some(Live::Both { numbers, .. }) => numbers.contains(&column),
        Some(Live::Once(_)) | None => false,
    }
}

/// As `finds_by`, for names.
pub(crate) fn finds_by_name(oid: Oid, column: usize) -> bool {
    let live = relation(oid).and_then(|relation| live(relation.name));
    matches!(live, Some(Live::Each { names, .. }) if names.contains(&column))
}

/// What a scan begins with: a filter on a number or a name of a relation saves reading the others.
fn first(live: Option<&Live>, filter: &[(usize, Datum)]) -> Next {
    let (numbers, names, has_system) = match live {
        Some(Live::Each { numbers, names, has_system, .. }) => (*numbers, *names, *has_system),
        Some(Live::Both { numbers, .. }) => (*numbers, &[][..], false),
        Some(Live::Once(_)) | None => return Next::After(0),
    };
    for (column, value) in filter {
        match value {
            Datum::Oid(number) if numbers.contains(column) => {
                return Next::Numbered(relation_of_type(*number).map_or(*number, |(relation, _)| relation));
            }
            Datum::Text(name) if names.contains(column) => return Next::Named(name.to_string()),
            _ => {}
        }
    }
    if has_system { Next::System(0) } else { Next::After(0) }
}

impl Next {
    /// Reads definitions and moves on; `false`: there are no more.
    fn take(
        &mut self,
        source: &mut dyn Source,
        names: &Names,
        into: &mut Vec<Definition>,
    ) -> SqlResult<bool> {
        match std::mem::replace(self, Next::Done) {
            Next::System(position) => match relations::all().get(position) {
                Some(relation) => {
                    into.push(Definition::System(relation.clone()));
                    *self = Next::System(position + 1);
                }
                None => *self = Next::After(0),
            },
            Next::After(after) => {
                let Some(definition) = source.definition_after(after)? else { return Ok(false) };
                *self = Next::After(oid_of(&definition));
                into.push(definition);
            }
            Next::Numbered(number) => match relation(number) {
                Some(relation) => into.push(Definition::System(relation)),
                None => into.extend(source.definition(number)?.map(with_table)),
            },
            Next::Named(name) => {
                for namespace in [PG_CATALOG, information_schema(), SEAWALL] {
                    into.extend(relation_named(namespace, &name).map(Definition::System));
                }
                for namespace in names.namespaces() {
                    into.extend(source.definition_named(namespace, &name)?.map(with_table));
                }
            }
            Next::Rest | Next::Done => return Ok(false),
        }
        Ok(true)
    }
}

/// Rows of indexes are made with those of their table.
fn with_table(definition: Definition) -> Definition {
    match definition {
        Definition::Index(table, _) => Definition::Table(table),
        other => other,
    }
}

fn may_equal(found: &Datum, value: &Datum) -> bool {
    match (found, value) {
        (Datum::Null, _) => false,
        (Datum::Text(found), Datum::Text(value)) => found == value,
        (Datum::Bool(found), Datum::Bool(value)) => found == value,
        (Datum::Char(found), Datum::Char(value)) => found == value,
        _ => match (integer(found), integer(value)) {
            (Some(found), Some(value)) => found == value,
            _ => true,
        },
    }
}

fn integer(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int2(number) => Some(i64::from(*number)),
        Datum::Int4(number) => Some(i64::from(*number)),
        Datum::Int8(number) => Some(*number),
        Datum::Oid(number) => Some(i64::from(*number)),
        _ => None,
    }
}

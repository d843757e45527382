//! Rows of tables and of system relations.

use std::cmp::Ordering;
use std::sync::Arc;

use seawall_values::set_returning::Rows;
use seawall_values::{Datum, SqlError, SqlResult, oid};

use super::compare::{compare, is_padded};
use super::context::Context;
use super::node::Node;
use super::plan::{KeyValue, NewestPlan, RangePlan, ScanPlan, SystemPlan};
use super::storage::{KeyBound, KeyRange, ScanRequest, TableScan};

/// A scan in ranges of a key, one after the other.
pub(crate) struct Scan {
    plan: Arc<ScanPlan>,
    /// The ranges that are left, the next one last.
    ranges: Vec<KeyRange>,
    is_started: bool,
    current: Option<Box<dyn TableScan>>,
}

impl Scan {
    pub(crate) fn new(plan: &Arc<ScanPlan>) -> Scan {
        Scan { plan: plan.clone(), ranges: Vec::new(), is_started: false, current: None }
    }

    fn start(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.is_started = true;
        if self.plan.ranges.is_empty() {
            self.ranges.push(KeyRange::default());
            return Ok(());
        }
        for range in &self.plan.ranges {
            resolve(range, self.plan.is_reverse, context, &mut self.ranges)?;
        }
        self.ranges.reverse();
        Ok(())
    }
}

impl Node for Scan {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if !self.is_started {
            self.start(context)?;
        }
        let plan = &*self.plan;
        let values = plan.base..plan.base + plan.columns.len() + usize::from(plan.with_identity);
        loop {
            let Some(scan) = &mut self.current else {
                let Some(range) = self.ranges.pop() else { return Ok(false) };
                self.current = Some(context.storage.open_scan(&request(plan, &range))?);
                continue;
            };
            context.tick()?;
            if !scan.next(&mut context.row[values.clone()])? {
                self.current = None;
                continue;
            }
            if accept(plan, context)? {
                return Ok(true);
            }
        }
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        let is_constant = self.plan.ranges.is_empty();
        if is_constant && !self.is_started {
            self.start(context)?;
            if let Some(range) = self.ranges.pop() {
                self.current = Some(context.storage.open_scan(&request(&self.plan, &range))?);
            }
        }
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.ranges.clear();
        self.is_started = false;
        self.current = None;
        Ok(())
    }
}

/// Completes a row, and tests it.
fn accept(plan: &ScanPlan, context: &mut Context<'_>) -> SqlResult<bool> {
    if let Some(slot) = plan.table_oid {
        context.row[slot] = Datum::Oid(plan.table.oid);
    }
    plan.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(context))
}

fn request<'a>(plan: &'a ScanPlan, range: &'a KeyRange) -> ScanRequest<'a> {
    ScanRequest {
        table: &plan.table,
        index: plan.index.as_ref(),
        range,
        is_reverse: plan.is_reverse,
        columns: &plan.columns,
        with_identity: plan.with_identity,
    }
}

/// At most one row, by a full unique key.
pub(crate) struct Lookup {
    plan: Arc<ScanPlan>,
    range: KeyRange,
    is_done: bool,
}

impl Lookup {
    pub(crate) fn new(plan: &Arc<ScanPlan>) -> Lookup {
        Lookup { plan: plan.clone(), range: KeyRange::default(), is_done: false }
    }
}

impl Node for Lookup {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(false);
        }
        context.tick()?;
        let plan = &*self.plan;
        self.range.equal.clear();
        for range in &plan.ranges {
            for value in &range.equal {
                match value.resolve(context)? {
                    Resolved::Value(value) => self.range.equal.push(value),
                    Resolved::Nothing | Resolved::Below | Resolved::Above => return Ok(false),
                }
            }
        }
        let values = plan.base..plan.base + plan.columns.len() + usize::from(plan.with_identity);
        let is_found = context.storage.get(&request(plan, &self.range), &mut context.row[values])?;
        Ok(is_found && accept(plan, context)?)
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.is_done = false;
        Ok(())
    }
}

/// A value of a key, as its column's type has it.
enum Resolved {
    Value(Datum),
    /// The condition is never true.
    Nothing,
    /// It is before all values of the type.
    Below,
    /// It is after all values of the type.
    Above,
}

impl KeyValue {
    fn resolve(&self, context: &mut Context<'_>) -> SqlResult<Resolved> {
        if self.is_null_test {
            return Ok(Resolved::Value(Datum::Null));
        }
        Ok(self.convert(self.value.evaluate(context)?))
    }

    fn convert(&self, value: Datum) -> Resolved {
        let wide = match value {
            Datum::Null => return Resolved::Nothing,
            Datum::Int2(value) => i64::from(value),
            Datum::Int4(value) => i64::from(value),
            Datum::Int8(value) => value,
            other => return Resolved::Value(other),
        };
        let converted = match self.of {
            oid::INT2 => i16::try_from(wide).map(Datum::Int2).ok(),
            oid::INT4 => i32::try_from(wide).map(Datum::Int4).ok(),
            _ => Some(Datum::Int8(wide)),
        };
        match converted {
            Some(value) => Resolved::Value(value),
            None if wide < 0 => Resolved::Below,
            None => Resolved::Above,
        }
    }
}

/// Computes a range; with a list, one for each different element. Conditions that are never true give none.
fn resolve(
    plan: &RangePlan,
    is_reverse: bool,
    context: &mut Context<'_>,
    ranges: &mut Vec<KeyRange>,
) -> SqlResult<()> {
    let mut range = KeyRange::default();
    for value in &plan.equal {
        match value.resolve(context)? {
            Resolved::Value(value) => range.equal.push(value),
            Resolved::Nothing | Resolved::Below | Resolved::Above => return Ok(()),
        }
    }
    if let Some(list) = &plan.list {
        return resolve_list(list, &range, is_reverse, context, ranges);
    }
    for (value, is_inclusive) in &plan.lower {
        match value.resolve(context)? {
            Resolved::Value(value) => {
                tighten(&mut range.lower, value, *is_inclusive, value_type(plan), Ordering::Greater);
            }
            Resolved::Below => {}
            Resolved::Nothing | Resolved::Above => return Ok(()),
        }
    }
    for (value, is_inclusive) in &plan.upper {
        match value.resolve(context)? {
            Resolved::Value(value) => {
                tighten(&mut range.upper, value, *is_inclusive, value_type(plan), Ordering::Less);
            }
            Resolved::Above => {}
            Resolved::Nothing | Resolved::Below => return Ok(()),
        }
    }
    if !is_empty(&range, value_type(plan)) {
        ranges.push(range);
    }
    Ok(())
}

fn value_type(plan: &RangePlan) -> bool {
    plan.lower.iter().chain(&plan.upper).any(|(value, _)| is_padded(value.of))
}

/// Keeps the tighter of two bounds.
fn tighten(
    bound: &mut Option<KeyBound>,
    value: Datum,
    is_inclusive: bool,
    is_padded: bool,
    tighter: Ordering,
) {
    let replaces = bound.as_ref().is_none_or(|known| {
        let ordering = compare(&value, &known.value, is_padded);
        ordering == tighter || (ordering == Ordering::Equal && !is_inclusive)
    });
    if replaces {
        *bound = Some(KeyBound { value, is_inclusive });
    }
}

fn is_empty(range: &KeyRange, is_padded: bool) -> bool {
    let (Some(lower), Some(upper)) = (&range.lower, &range.upper) else { return false };
    match compare(&lower.value, &upper.value, is_padded) {
        Ordering::Less => false,
        Ordering::Equal => !(lower.is_inclusive && upper.is_inclusive),
        Ordering::Greater => true,
    }
}

fn resolve_list(
    list: &KeyValue,
    prefix: &KeyRange,
    is_reverse: bool,
    context: &mut Context<'_>,
    ranges: &mut Vec<KeyRange>,
) -> SqlResult<()> {
    let array = match list.value.evaluate(context)? {
        Datum::Array(array) => array,
        Datum::Null => return Ok(()),
        other => return Err(SqlError::internal(format!("a list of keys is {other:?}"))),
    };
    let mut values: Vec<Datum> = Vec::with_capacity(array.values.len());
    for value in &array.values {
        if let Resolved::Value(value) = list.convert(value.clone()) {
            values.push(value);
        }
    }
    let is_padded = is_padded(list.of);
    values.sort_by(|left, right| compare(left, right, is_padded));
    values.dedup_by(|left, right| compare(left, right, is_padded) == Ordering::Equal);
    if is_reverse {
        values.reverse();
    }
    ranges.extend(values.into_iter().map(|value| {
        let mut equal = prefix.equal.clone();
        equal.push(value);
        KeyRange { equal, lower: None, upper: None }
    }));
    Ok(())
}

/// The newest version of one row, which the transaction has locked.
pub(crate) struct Newest {
    plan: Arc<NewestPlan>,
    is_done: bool,
}

impl Newest {
    pub(crate) fn new(plan: &Arc<NewestPlan>) -> Newest {
        Newest { plan: plan.clone(), is_done: false }
    }
}

impl Node for Newest {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(false);
        }
        let plan = &*self.plan;
        let Datum::Bytea(identity) = context.row[plan.identity].clone() else { return Ok(false) };
        let values = plan.base..plan.base + plan.columns.len();
        let row = &mut context.row[values];
        if !context.storage.fetch_newest(&plan.table, &identity, &plan.columns, row)? {
            return Ok(false);
        }
        if let Some(slot) = plan.table_oid {
            context.row[slot] = Datum::Oid(plan.table.oid);
        }
        plan.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(context))
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.is_done = false;
        Ok(())
    }
}

/// Rows of a system relation.
pub(crate) struct System {
    plan: Arc<SystemPlan>,
    rows: Option<Rows>,
}

impl System {
    pub(crate) fn new(plan: &Arc<SystemPlan>) -> System {
        System { plan: plan.clone(), rows: None }
    }

    fn open(plan: &SystemPlan, context: &mut Context<'_>) -> SqlResult<Rows> {
        let mut filter = Vec::with_capacity(plan.equal.len());
        for (position, value) in &plan.equal {
            match value.evaluate(context)? {
                Datum::Null => return Ok(Box::new(std::iter::empty())),
                value => filter.push((*position, value)),
            }
        }
        context.storage.scan_system(plan.relation, &plan.columns, &filter)
    }
}

impl Node for System {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let plan = &*self.plan;
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(System::open(plan, context)?),
        };
        for row in rows {
            context.tick()?;
            context.restore(&plan.slots, row?);
            let is_wanted = match &plan.filter {
                Some(filter) => filter.is_true(context)?,
                None => true,
            };
            if is_wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn prepare(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        Ok(())
    }

    fn rewind(&mut self, _context: &mut Context<'_>) -> SqlResult<()> {
        self.rows = None;
        Ok(())
    }
}

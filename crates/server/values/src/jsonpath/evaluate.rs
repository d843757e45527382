//! The items that a path selects from a value.

use std::sync::Arc;

use super::{Arithmetic, Method, Node, Path, Step};
use crate::datum::{Jsonb, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::find_member;
use crate::numeric;

/// Why there is no result.
pub(super) enum Failure {
    /// An error of the path: a predicate is unknown then, and a silent call gives nothing.
    Path(Box<SqlError>),
    /// An error that nothing hides.
    Statement(Box<SqlError>),
}

pub(super) type Outcome<T> = Result<T, Failure>;

/// What a path is asked for.
pub(crate) struct Selection<'a> {
    pub(crate) path: &'a Path,
    /// The value.
    pub(crate) root: &'a Jsonb,
    /// An object of variables.
    pub(crate) variables: &'a Jsonb,
    /// Whether errors of the path are hidden: the items before the error are the result.
    pub(crate) is_silent: bool,
}

/// The items, and whether an error ended them.
///
/// # Errors
/// Those of the path, unless it is silent.
pub(crate) fn select(selection: &Selection<'_>) -> SqlResult<(Vec<Jsonb>, bool)> {
    if !matches!(selection.variables, Jsonb::Object(_)) {
        let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object")
            .with_detail(detail));
    }
    let mut evaluation = Evaluation {
        root: selection.root,
        variables: selection.variables,
        is_lax: selection.path.is_lax,
        ignores_structure: selection.path.is_lax,
        array_lengths: Vec::new(),
        depth: 0,
    };
    let mut found = Vec::new();
    match evaluation.items(&selection.path.expression, selection.root, &mut found) {
        Ok(()) => Ok((found, false)),
        Err(Failure::Path(_)) if selection.is_silent => Ok((found, true)),
        Err(Failure::Path(error) | Failure::Statement(error)) => Err(error),
    }
}

/// `2203x` and the like.
#[cold]
pub(super) fn failure(code: &[u8; 5], message: impl Into<String>) -> Failure {
    Failure::Path(SqlError::new(SqlState::new(code), message))
}

/// Levels of evaluation: each operator, step and level of the value is one.
const DEPTH_MAX: usize = 2_500;

pub(super) struct Evaluation<'a> {
    root: &'a Jsonb,
    variables: &'a Jsonb,
    pub(super) is_lax: bool,
    /// Whether absent parts are no errors.
    ignores_structure: bool,
    /// Lengths of the arrays whose subscripts are computed, the innermost last.
    array_lengths: Vec<usize>,
    depth: usize,
}

fn number(value: impl Into<num_bigint::BigInt>) -> Jsonb {
    Jsonb::Number(Numeric::Finite { digits: value.into(), scale: 0 })
}

impl Evaluation<'_> {
    /// Adds the items of an expression.
    pub(super) fn items(&mut self, node: &Node, current: &Jsonb, found: &mut Vec<Jsonb>) -> Outcome<()> {
        self.deeper(|evaluation| evaluation.node(node, current, found))
    }

    /// Goes a level deeper.
    pub(super) fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= DEPTH_MAX {
            return Err(Failure::Statement(crate::json::too_deep()));
        }
        self.depth += 1;
        let outcome = body(self);
        self.depth -= 1;
        outcome
    }

    fn node(&mut self, node: &Node, current: &Jsonb, found: &mut Vec<Jsonb>) -> Outcome<()> {
        match node {
            Node::Steps(start, steps) => match **start {
                // The most frequent starts need no copy.
                Node::Root => self.steps(steps, self.root, current, self.is_lax, found),
                Node::Current => self.steps(steps, current, current, self.is_lax, found),
                ref start => {
                    let mut starts = Vec::new();
                    self.items(start, current, &mut starts)?;
                    starts.iter().try_for_each(|start| self.steps(steps, start, current, self.is_lax, found))
                }
            },
            Node::Root => {
                found.push(self.root.clone());
                Ok(())
            }
            Node::Current => {
                found.push(current.clone());
                Ok(())
            }
            Node::Literal(value) => {
                found.push(value.clone());
                Ok(())
            }
            Node::Last => {
                let length = self.array_lengths.last().copied().unwrap_or(0);
                found.push(number(i64::try_from(length).unwrap_or(i64::MAX) - 1));
                Ok(())
            }
            Node::Variable(name) => {
                found.push(self.variable(name)?);
                Ok(())
            }
            Node::Arithmetic(operator, left, right) => {
                let left = self.operand(left, current, *operator, "left")?;
                let right = self.operand(right, current, *operator, "right")?;
                found.push(Jsonb::Number(compute(*operator, &left, &right)?));
                Ok(())
            }
            Node::Sign(is_minus, inner) => self.signed(*is_minus, inner, current, found),
            predicate => {
                let truth = self.truth(predicate, current)?;
                found.push(truth.map_or(Jsonb::Null, Jsonb::Bool));
                Ok(())
            }
        }
    }

    fn variable(&self, name: &str) -> Outcome<Jsonb> {
        let value = match self.variables {
            Jsonb::Object(members) => find_member(members, name).map(|at| members[at].1.clone()),
            _ => None,
        };
        value.ok_or_else(|| {
            let message = format!("could not find jsonpath variable \"{name}\"");
            Failure::Statement(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        })
    }

    /// The items of an operand; in `lax` mode, elements in the place of arrays.
    pub(super) fn unwrapped(&mut self, node: &Node, current: &Jsonb) -> Outcome<Vec<Jsonb>> {
        let mut items = Vec::new();
        self.items(node, current, &mut items)?;
        if !self.is_lax || !items.iter().any(|item| matches!(item, Jsonb::Array(_))) {
            return Ok(items);
        }
        let mut elements = Vec::new();
        for item in items {
            match item {
                Jsonb::Array(inner) => elements.extend(inner),
                other => elements.push(other),
            }
        }
        Ok(elements)
    }

    fn operand(
        &mut self,
        node: &Node,
        current: &Jsonb,
        operator: Arithmetic,
        side: &str,
    ) -> Outcome<Numeric> {
        let items = self.unwrapped(node, current)?;
        match <[Jsonb; 1]>::try_from(items) {
            Ok([Jsonb::Number(number)]) => Ok(number),
            _ => Err(failure(
                b"22038",
                format!(
                    "{side} operand of jsonpath operator {} is not a single numeric value",
                    operator.symbol()
                ),
            )),
        }
    }

    fn signed(
        &mut self,
        is_minus: bool,
        node: &Node,
        current: &Jsonb,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        for item in self.unwrapped(node, current)? {
            let Jsonb::Number(number) = item else {
                let symbol = if is_minus { '-' } else { '+' };
                let message = format!("operand of unary jsonpath operator {symbol} is not a numeric value");
                return Err(failure(b"2203B", message));
            };
            found.push(Jsonb::Number(if is_minus { number.negated() } else { number }));
        }
        Ok(())
    }

    /// Takes the steps from an item. `unwraps`: the first step takes an array as its elements, where it is for single values.
    fn steps(
        &mut self,
        steps: &[Step],
        item: &Jsonb,
        current: &Jsonb,
        unwraps: bool,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        match steps.split_first() {
            None => {
                found.push(item.clone());
                Ok(())
            }
            Some((step, rest)) => {
                self.deeper(|evaluation| evaluation.step((step, rest, steps), item, current, unwraps, found))
            }
        }
    }

    /// Takes the first step, then the rest; `steps` are all of them.
    fn step(
        &mut self,
        (step, rest, steps): (&Step, &[Step], &[Step]),
        item: &Jsonb,
        current: &Jsonb,
        unwraps: bool,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        match (step, item) {
            (Step::Member(_) | Step::AnyMember | Step::Filter(_), Jsonb::Array(elements)) if unwraps => {
                elements.iter().try_for_each(|element| self.steps(steps, element, current, false, found))
            }
            (Step::Method(method), Jsonb::Array(elements))
                if unwraps && !matches!(method, Method::Size | Method::Type) =>
            {
                elements.iter().try_for_each(|element| self.steps(steps, element, current, false, found))
            }
            (Step::Member(key), Jsonb::Object(members)) => match find_member(members, key) {
                Some(at) => self.steps(rest, &members[at].1, current, self.is_lax, found),
                None => self.absent(b"2203A", || format!("JSON object does not contain key \"{key}\"")),
            },
            (Step::Member(_), _) => self
                .absent(b"2203A", || "jsonpath member accessor can only be applied to an object".to_owned()),
            (Step::AnyMember, Jsonb::Object(members)) => {
                let mut values = members.iter().map(|(_, value)| value);
                values.try_for_each(|value| self.steps(rest, value, current, self.is_lax, found))
            }
            (Step::AnyMember, _) => self.absent(b"2203C", || {
                "jsonpath wildcard member accessor can only be applied to an object".to_owned()
            }),
            (Step::AnyElement, Jsonb::Array(elements)) => {
                elements.iter().try_for_each(|element| self.steps(rest, element, current, self.is_lax, found))
            }
            (Step::AnyElement, _) if self.is_lax => self.steps(rest, item, current, true, found),
            (Step::AnyElement, _) => self.absent(b"22039", || {
                "jsonpath wildcard array accessor can only be applied to an array".to_owned()
            }),
            (Step::Elements(subscripts), _) => self.elements(subscripts, rest, item, current, found),
            (Step::Descendants(first, last), _) => {
                let bounds = (first.unwrap_or(u32::MAX), last.unwrap_or(u32::MAX));
                self.descendants(bounds, rest, item, current, found)
            }
            (Step::Filter(predicate), _) => match self.truth(predicate, item)? {
                Some(true) => self.steps(rest, item, current, self.is_lax, found),
                _ => Ok(()),
            },
            (Step::Method(method), _) => {
                let Some(result) = self.method(*method, item)? else { return Ok(()) };
                self.steps(rest, &result, current, self.is_lax, found)
            }
        }
    }

    /// Nothing, where absent parts are no errors.
    fn absent(&self, code: &[u8; 5], message: impl FnOnce() -> String) -> Outcome<()> {
        if self.ignores_structure { Ok(()) } else { Err(failure(code, message())) }
    }

    fn elements(
        &mut self,
        subscripts: &[(Node, Option<Node>)],
        rest: &[Step],
        item: &Jsonb,
        current: &Jsonb,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        let elements = match item {
            Jsonb::Array(elements) => elements.as_slice(),
            other if self.is_lax => std::slice::from_ref(other),
            _ => {
                return self.absent(b"22039", || {
                    "jsonpath array accessor can only be applied to an array".to_owned()
                });
            }
        };
        let count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
        for (first, last) in subscripts {
            self.array_lengths.push(elements.len());
            let bounds = self.bounds(first, last.as_ref(), item);
            self.array_lengths.pop();
            let (first, last) = bounds?;
            if !self.ignores_structure && (first < 0 || first > last || last >= count) {
                return Err(failure(b"22033", "jsonpath array subscript is out of bounds"));
            }
            for index in first.max(0)..=last.min(count - 1) {
                let element = usize::try_from(index).ok().and_then(|index| elements.get(index));
                if let Some(element) = element {
                    self.steps(rest, element, current, self.is_lax, found)?;
                }
            }
        }
        Ok(())
    }

    fn bounds(&mut self, first: &Node, last: Option<&Node>, item: &Jsonb) -> Outcome<(i64, i64)> {
        let first = self.index(first, item)?;
        let last = last.map_or(Ok(first), |last| self.index(last, item))?;
        Ok((first, last))
    }

    fn index(&mut self, node: &Node, item: &Jsonb) -> Outcome<i64> {
        let mut items = Vec::new();
        self.items(node, item, &mut items)?;
        let Ok([Jsonb::Number(number)]) = <[Jsonb; 1]>::try_from(items) else {
            return Err(failure(b"22033", "jsonpath array subscript is not a single numeric value"));
        };
        numeric::to_integer::<i32>(&number.truncated(0), "integer")
            .map(i64::from)
            .map_err(|_| failure(b"22033", "jsonpath array subscript is out of integer range"))
    }

    fn descendants(
        &mut self,
        bounds: (u32, u32),
        rest: &[Step],
        item: &Jsonb,
        current: &Jsonb,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        let ignored = std::mem::replace(&mut self.ignores_structure, true);
        let outcome = match bounds.0 {
            0 => self.steps(rest, item, current, self.is_lax, found),
            _ => Ok(()),
        };
        let outcome = outcome.and_then(|()| self.below(bounds, 1, rest, item, current, found));
        self.ignores_structure = ignored;
        outcome
    }

    fn below(
        &mut self,
        (first, last): (u32, u32),
        level: u32,
        rest: &[Step],
        item: &Jsonb,
        current: &Jsonb,
        found: &mut Vec<Jsonb>,
    ) -> Outcome<()> {
        let children: Vec<&Jsonb> = match item {
            Jsonb::Array(elements) => elements.iter().collect(),
            Jsonb::Object(members) => members.iter().map(|(_, value)| value).collect(),
            _ => return Ok(()),
        };
        for child in children {
            let is_leaf = !matches!(child, Jsonb::Array(_) | Jsonb::Object(_));
            if level >= first || (first == u32::MAX && last == u32::MAX && is_leaf) {
                self.steps(rest, child, current, self.is_lax, found)?;
            }
            if level < last {
                self.deeper(|evaluation| {
                    evaluation.below((first, last), level + 1, rest, child, current, found)
                })?;
            }
        }
        Ok(())
    }

    fn method(&self, method: Method, item: &Jsonb) -> Outcome<Option<Jsonb>> {
        let numeric = |change: fn(&Numeric) -> Numeric| match item {
            Jsonb::Number(number) => Ok(Some(Jsonb::Number(change(number)))),
            _ => Err(failure(
                b"22036",
                format!("jsonpath item method .{}() can only be applied to a numeric value", method.name()),
            )),
        };
        match method {
            Method::Type => Ok(Some(Jsonb::String(Arc::from(type_name(item))))),
            Method::Size => match item {
                Jsonb::Array(elements) => Ok(Some(number(elements.len()))),
                _ if self.is_lax => Ok(Some(number(1))),
                _ => {
                    let message = "jsonpath item method .size() can only be applied to an array".to_owned();
                    self.absent(b"22039", || message).map(|()| None)
                }
            },
            Method::Abs => numeric(Numeric::absolute),
            Method::Floor => numeric(Numeric::floor),
            Method::Ceiling => numeric(Numeric::ceiling),
            Method::Double => double(item).map(Some),
        }
    }
}

/// `.double()`: a number stays as it is, a text becomes one.
fn double(item: &Jsonb) -> Outcome<Jsonb> {
    match item {
        Jsonb::Number(number) => match numeric::to_f64(number) {
            Ok(_) => Ok(item.clone()),
            Err(_) => Err(failure(
                b"22036",
                "numeric argument of jsonpath item method .double() is out of range for type double precision",
            )),
        },
        Jsonb::String(text) => {
            let parsed = crate::text_form::floats::parse::<f64>(text).ok().filter(|value| value.is_finite());
            let number = parsed.and_then(|value| numeric::from_f64(value).ok());
            number.map(Jsonb::Number).ok_or_else(|| {
                failure(
                    b"22036",
                    "string argument of jsonpath item method .double() is not a valid representation of a double precision number",
                )
            })
        }
        _ => Err(failure(
            b"22036",
            "jsonpath item method .double() can only be applied to a string or numeric value",
        )),
    }
}

fn type_name(item: &Jsonb) -> &'static str {
    match item {
        Jsonb::Null => "null",
        Jsonb::Bool(_) => "boolean",
        Jsonb::Number(_) => "number",
        Jsonb::String(_) => "string",
        Jsonb::Array(_) => "array",
        Jsonb::Object(_) => "object",
    }
}

fn compute(operator: Arithmetic, left: &Numeric, right: &Numeric) -> Outcome<Numeric> {
    let computed = match operator {
        Arithmetic::Add => numeric::add(left, right),
        Arithmetic::Subtract => numeric::sub(left, right),
        Arithmetic::Multiply => numeric::mul(left, right),
        Arithmetic::Divide => numeric::div(left, right),
        Arithmetic::Modulo => numeric::rem(left, right),
    };
    computed.map_err(Failure::Path)
}

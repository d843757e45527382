//! Conversions between types: when PostgreSQL makes them, and how.

use std::sync::Arc;

use seawall_values::system::{CastContext, CastMethod, FunctionRow, system};
use seawall_values::user_types::is_domain;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::types::{
    STRING, array_of, category, element_of, is_composite, is_polymorphic, is_preferred, type_name,
};
use super::{Binder, constant};
use crate::algebra::{Call, Expression, ExpressionKind, Written};
use crate::session::functions::is_session_function;

/// How a value of one type becomes one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Nothing is done.
    Relabel,
    /// By a function.
    Function(Oid),
    /// Element by element.
    Elements,
    /// Through the text forms.
    Text,
}

/// How `source` becomes `target` in this context, if it does.
pub(crate) fn conversion(source: Oid, target: Oid, context: CastContext) -> Option<Conversion> {
    if source == target {
        return Some(Conversion::Relabel);
    }
    if let Some(cast) = system().cast(source, target) {
        return (cast.context >= context).then_some(match cast.method {
            CastMethod::Function(function) => Conversion::Function(function),
            CastMethod::Binary => Conversion::Relabel,
            CastMethod::Text => Conversion::Text,
        });
    }
    // These two are arrays that are written in another way.
    if matches!(
        (source, element_of(target)),
        (oid::INT2VECTOR, Some(oid::INT2)) | (oid::OIDVECTOR, Some(oid::OID))
    ) {
        return Some(Conversion::Relabel);
    }
    if let (Some(from), Some(to)) = (element_of(source), element_of(target)) {
        return conversion(from, to, context).map(|inner| match inner {
            Conversion::Text => Conversion::Text,
            _ => Conversion::Elements,
        });
    }
    let is_by_text = (context <= CastContext::Assignment && category(target) == STRING)
        || (context == CastContext::Explicit && category(source) == STRING);
    is_by_text.then_some(Conversion::Text)
}

/// Whether all of these arguments can be given to parameters of these types.
pub(super) fn can_coerce_all(sources: &[Oid], targets: &[Oid], context: CastContext) -> bool {
    let each = sources.iter().zip(targets).all(|(source, target)| can_coerce(*source, *target, context));
    each && (!targets.iter().any(|target| is_polymorphic(*target))
        || polymorphic_types(sources, targets).is_ok())
}

pub(crate) fn can_coerce(source: Oid, target: Oid, context: CastContext) -> bool {
    source == target
        || target == oid::ANY
        || is_polymorphic(target)
        || source == oid::UNKNOWN
        || (source == oid::RECORD && is_composite(target))
        || (is_composite(source) && matches!(target, oid::RECORD))
        || conversion(source, target, context).is_some()
}

/// What the polymorphic types stand for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polymorphic {
    /// `anyelement`.
    pub(super) element: Option<Oid>,
    /// `anycompatible`.
    pub(super) compatible: Option<Oid>,
}

impl Polymorphic {
    /// The type that a declared one stands for.
    pub(super) fn resolve(self, declared: Oid) -> Option<Oid> {
        match declared {
            oid::ANYELEMENT | oid::ANYNONARRAY | oid::ANYENUM => self.element,
            oid::ANYARRAY => self.element.and_then(array_of),
            oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => self.compatible,
            oid::ANYCOMPATIBLEARRAY => self.compatible.and_then(array_of),
            _ if is_polymorphic(declared) => None,
            _ => Some(declared),
        }
    }
}

/// What the polymorphic parameters stand for with these arguments.
pub(super) fn polymorphic_types(sources: &[Oid], targets: &[Oid]) -> SqlResult<Polymorphic> {
    let mut found = Polymorphic::default();
    let mut array = None;
    let mut compatible: Vec<Oid> = Vec::new();
    let mut needs_compatible = false;
    let mismatch = |message: String| SqlError::new(SqlState::DATATYPE_MISMATCH, message);
    for (source, target) in sources.iter().zip(targets) {
        match *target {
            oid::ANYELEMENT | oid::ANYNONARRAY | oid::ANYENUM => {
                if *source == oid::UNKNOWN {
                    continue;
                }
                if *target == oid::ANYNONARRAY && element_of(*source).is_some() {
                    return Err(mismatch("type matched to anynonarray is an array type".to_owned()));
                }
                if *target == oid::ANYENUM && type_kind(*source) != b'e' {
                    return Err(mismatch("type matched to anyenum is not an enum type".to_owned()));
                }
                match found.element {
                    Some(known) if known != *source => {
                        return Err(mismatch(
                            "arguments declared \"anyelement\" are not all alike".to_owned(),
                        )
                        .with_detail(format!(
                            "{} versus {}",
                            type_name(known),
                            type_name(*source)
                        )));
                    }
                    _ => found.element = Some(*source),
                }
            }
            oid::ANYARRAY => {
                if *source == oid::UNKNOWN {
                    continue;
                }
                let element = if *source == oid::INT2VECTOR {
                    Some(oid::INT2)
                } else if *source == oid::OIDVECTOR {
                    Some(oid::OID)
                } else {
                    element_of(*source)
                };
                let Some(element) = element else {
                    return Err(mismatch(format!(
                        "argument declared anyarray is not an array but type {}",
                        type_name(*source)
                    )));
                };
                match array {
                    Some(known) if known != element => {
                        return Err(mismatch("arguments declared \"anyarray\" are not all alike".to_owned()));
                    }
                    _ => array = Some(element),
                }
            }
            oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => {
                needs_compatible = true;
                compatible.push(*source);
            }
            oid::ANYCOMPATIBLEARRAY => {
                needs_compatible = true;
                if *source != oid::UNKNOWN {
                    let Some(element) = element_of(*source) else {
                        return Err(mismatch(format!(
                            "argument declared anycompatiblearray is not an array but type {}",
                            type_name(*source)
                        )));
                    };
                    compatible.push(element);
                }
            }
            target if is_polymorphic(target) && *source != oid::UNKNOWN => {
                return Err(mismatch("ranges are not supported".to_owned()));
            }
            _ => {}
        }
    }
    if let Some(element) = array {
        match found.element {
            Some(known) if known != element => {
                return Err(mismatch(
                    "argument declared anyarray is not consistent with argument declared anyelement"
                        .to_owned(),
                )
                .with_detail(format!("{}[] versus {}", type_name(element), type_name(known))));
            }
            _ => found.element = Some(element),
        }
    }
    if needs_compatible {
        let common = if compatible.is_empty() { Some(oid::TEXT) } else { common_type(&compatible) };
        let is_common = |target: &Oid| {
            compatible.iter().all(|source| can_coerce(*source, *target, CastContext::Implicit))
        };
        let Some(common) = common.filter(is_common) else {
            return Err(mismatch(
                "arguments of anycompatible family cannot be cast to a common type".to_owned(),
            ));
        };
        found.compatible = Some(common);
    }
    Ok(found)
}

fn type_kind(oid: Oid) -> u8 {
    if seawall_values::user_types::is_composite(oid) {
        return b'c';
    }
    if seawall_values::user_types::is_enum(oid) {
        return b'e';
    }
    super::types::type_row(oid).map_or(0, |row| row.kind)
}

/// The type that all of these can become: the rules of section 10.5. `None`: their categories differ.
pub(crate) fn common_type(types: &[Oid]) -> Option<Oid> {
    let mut chosen = *types.first()?;
    for next in &types[1..] {
        let next = *next;
        if next == oid::UNKNOWN || next == chosen {
            continue;
        }
        if chosen == oid::UNKNOWN {
            chosen = next;
        } else if category(next) != category(chosen) {
            return None;
        } else if !is_preferred(category(chosen), chosen)
            && can_coerce(chosen, next, CastContext::Implicit)
            && !can_coerce(next, chosen, CastContext::Implicit)
        {
            chosen = next;
        }
    }
    Some(if chosen == oid::UNKNOWN { oid::TEXT } else { chosen })
}

/// The first two of these whose categories differ, for messages.
fn mismatch(types: &[Oid]) -> (Oid, Oid) {
    let first = types.iter().copied().find(|oid| *oid != oid::UNKNOWN).unwrap_or(oid::UNKNOWN);
    let other = types.iter().copied().find(|oid| *oid != oid::UNKNOWN && category(*oid) != category(first));
    (first, other.unwrap_or(first))
}

impl Binder<'_> {
    /// The type that these expressions share in `construct`, such as `CASE` or `UNION`.
    pub(super) fn common_type_of(&self, expressions: &[&Expression], construct: &str) -> SqlResult<Oid> {
        let types: Vec<Oid> = expressions.iter().map(|expression| expression.of.oid).collect();
        common_type(&types).ok_or_else(|| {
            let (first, other) = mismatch(&types);
            let at = expressions.iter().find(|expression| expression.of.oid == other);
            let message =
                format!("{construct} types {} and {} cannot be matched", type_name(first), type_name(other));
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .at(at.and_then(|expression| expression.position))
        })
    }

    /// Converts to the common type, with the modifier that all share, if they do.
    pub(super) fn coerce_common(
        &mut self,
        expression: Expression,
        target: Oid,
        construct: &str,
    ) -> SqlResult<Expression> {
        if !can_coerce(expression.of.oid, target, CastContext::Implicit) {
            let message = format!(
                "{construct} could not convert type {} to {}",
                type_name(expression.of.oid),
                type_name(target)
            );
            return Err(SqlError::new(SqlState::CANNOT_COERCE, message).at(expression.position));
        }
        self.coerce(expression, target, CastContext::Implicit, Written::ImplicitCast)
    }

    /// Converts without a modifier. It must be possible: `can_coerce` says so.
    pub(crate) fn coerce(
        &mut self,
        expression: Expression,
        target: Oid,
        context: CastContext,
        written: Written,
    ) -> SqlResult<Expression> {
        let source = expression.of.oid;
        if source == target || target == oid::ANY {
            return Ok(expression);
        }
        if is_polymorphic(target) {
            // An unknown literal is taken as text; all others are what they are.
            if source != oid::UNKNOWN {
                return Ok(expression);
            }
            return self.coerce(expression, oid::TEXT, context, written);
        }
        let position = expression.position;
        if source == oid::UNKNOWN {
            match &expression.kind {
                ExpressionKind::Constant(Datum::Text(text)) => {
                    let text = text.clone();
                    return self.literal(&text, TypeReference::of(target), position);
                }
                ExpressionKind::Constant(_) => {
                    return Ok(Expression { of: TypeReference::of(target), ..expression });
                }
                ExpressionKind::Parameter(index) => return self.type_parameter(*index, target, position),
                // The result of a subquery or a union that nothing has given a type.
                _ => {
                    let as_text = Expression { of: TypeReference::of(oid::TEXT), ..expression };
                    return self.coerce(as_text, target, CastContext::Explicit, written);
                }
            }
        }
        let Some(how) = conversion(source, target, context) else {
            if let Some(converted) = self.coerce_row(&expression, target, context)? {
                return Ok(converted);
            }
            return Err(self.cannot_cast(source, target, position));
        };
        let of = TypeReference::of(target);
        Ok(match how {
            Conversion::Relabel => {
                Expression { kind: ExpressionKind::Relabel(Box::new(expression)), of, position }
            }
            Conversion::Text => {
                Expression { kind: ExpressionKind::ConvertByText(Box::new(expression)), of, position }
            }
            Conversion::Function(function) => {
                let call = cast_call(function, expression, -1, context, written)?;
                let result = call.function.result;
                // The names of objects are the session's to look up.
                let kind = match is_session_function(&call.function.source) {
                    true => ExpressionKind::SessionCall(call),
                    false => ExpressionKind::Call(call),
                };
                // The function of a cast of smallint to oid gives an integer.
                let made = TypeReference::of(result);
                let call = Expression { kind, of: made, position };
                match result == target {
                    true => call,
                    false => Expression { kind: ExpressionKind::Relabel(Box::new(call)), of, position },
                }
            }
            Conversion::Elements => {
                let (from, to) =
                    (element_of(source).unwrap_or(oid::UNKNOWN), element_of(target).unwrap_or(oid::UNKNOWN));
                let element = self.new_column();
                let inner = super::column(element, TypeReference::of(from));
                let converted = Box::new(self.coerce(inner, to, context, Written::ImplicitCast)?);
                let kind =
                    ExpressionKind::ConvertElements { array: Box::new(expression), element, converted };
                Expression { kind, of, position }
            }
        })
    }

    fn cannot_cast(&self, source: Oid, target: Oid, position: Option<u32>) -> Box<SqlError> {
        let message = format!("cannot cast type {} to {}", type_name(source), type_name(target));
        SqlError::new(SqlState::CANNOT_COERCE, message).at(position)
    }

    /// `ROW(..)` as a row of a table: field by field.
    fn coerce_row(
        &mut self,
        expression: &Expression,
        target: Oid,
        context: CastContext,
    ) -> SqlResult<Option<Expression>> {
        if target == oid::RECORD && is_composite(expression.of.oid) {
            let kind = ExpressionKind::Relabel(Box::new(expression.clone()));
            return Ok(Some(Expression {
                kind,
                of: TypeReference::of(target),
                position: expression.position,
            }));
        }
        if expression.of.oid != oid::RECORD || !super::types::is_row_type(target) {
            return Ok(None);
        }
        let ExpressionKind::Row(fields) = &expression.kind else { return Ok(None) };
        let columns = self.row_columns(target)?;
        if columns.len() != fields.len() {
            let detail = if fields.len() < columns.len() {
                "Input has too few columns."
            } else {
                "Input has too many columns."
            };
            return Err(self.cannot_cast(oid::RECORD, target, expression.position).with_detail(detail));
        }
        let mut converted = Vec::with_capacity(fields.len());
        let domains = self.row_domains(target)?;
        for (index, (field, (_, of))) in fields.iter().zip(columns).enumerate() {
            let domain = domains.get(index).copied().unwrap_or(0);
            let of = if domain == 0 { of } else { TypeReference { oid: domain, modifier: of.modifier } };
            let field = match &field.kind {
                // A literal in a row that has no type yet.
                ExpressionKind::Constant(Datum::Text(text)) if field.of.oid == oid::TEXT => {
                    let kind = ExpressionKind::Constant(Datum::Text(text.clone()));
                    Expression { kind, of: TypeReference::of(oid::UNKNOWN), position: field.position }
                }
                _ => field.clone(),
            };
            let value = self.coerce_to(field, of, context, Written::ImplicitCast)?;
            let value = value.ok_or_else(|| self.cannot_cast(oid::RECORD, target, expression.position))?;
            converted.push(value);
        }
        let kind = ExpressionKind::Row(converted);
        Ok(Some(Expression { kind, of: TypeReference::of(target), position: expression.position }))
    }

    /// Converts as a written cast or an assignment does: the type, then its length or precision.
    pub(crate) fn coerce_to(
        &mut self,
        expression: Expression,
        target: TypeReference,
        context: CastContext,
        written: Written,
    ) -> SqlResult<Option<Expression>> {
        if is_domain(target.oid) {
            return self.coerce_to_domain(expression, target.oid, context, written);
        }
        if !can_coerce(expression.of.oid, target.oid, context) {
            return Ok(None);
        }
        let position = expression.position;
        // The text of an interval is read with its fields.
        if target.oid == oid::INTERVAL
            && let (oid::UNKNOWN, ExpressionKind::Constant(Datum::Text(text))) =
                (expression.of.oid, &expression.kind)
        {
            let text = text.clone();
            return self.literal(&text, target, position).map(Some);
        }
        // An integer becomes as many bits as the type has, not one that is filled up.
        if let Some(Conversion::Function(function)) = conversion(expression.of.oid, target.oid, context)
            && takes_modifier(function)
        {
            let call = cast_call(function, expression, target.modifier, context, written)?;
            return Ok(Some(Expression { kind: ExpressionKind::Call(call), of: target, position }));
        }
        let converted = self.coerce(expression, target.oid, context, written)?;
        self.with_modifier(converted, target.modifier, context).map(Some)
    }

    /// Applies a length or precision.
    pub(crate) fn with_modifier(
        &mut self,
        expression: Expression,
        modifier: i32,
        context: CastContext,
    ) -> SqlResult<Expression> {
        if modifier < 0 || expression.of.modifier == modifier {
            return Ok(expression);
        }
        let (position, of) = (expression.position, TypeReference { oid: expression.of.oid, modifier });
        if let Some(element) = element_of(of.oid) {
            if length_function(element).is_none() {
                return Ok(Expression { of, ..expression });
            }
            let id = self.new_column();
            let inner = super::column(id, TypeReference::of(element));
            let converted = Box::new(self.with_modifier(inner, modifier, context)?);
            let kind =
                ExpressionKind::ConvertElements { array: Box::new(expression), element: id, converted };
            return Ok(Expression { kind, of, position });
        }
        let Some(function) = length_function(of.oid) else { return Ok(Expression { of, ..expression }) };
        let call = cast_call(function, expression, modifier, context, Written::ImplicitCast)?;
        Ok(Expression { kind: ExpressionKind::Call(call), of, position })
    }

    /// A parameter whose type is found out here, or was before.
    pub(super) fn type_parameter(
        &mut self,
        index: usize,
        target: Oid,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let known = self.parameters.get(index).copied().unwrap_or(oid::UNKNOWN);
        if known == oid::UNKNOWN {
            if let Some(parameter) = self.parameters.get_mut(index) {
                *parameter = target;
            }
            let of = TypeReference::of(target);
            return Ok(Expression { kind: ExpressionKind::Parameter(index), of, position });
        }
        if known == target {
            let of = TypeReference::of(target);
            return Ok(Expression { kind: ExpressionKind::Parameter(index), of, position });
        }
        Err(SqlError::new(
            SqlState::AMBIGUOUS_PARAMETER,
            format!("inconsistent types deduced for parameter ${}", index + 1),
        )
        .with_detail(format!("{} versus {}", type_name(known), type_name(target)))
        .at(position))
    }

    /// A condition: of type boolean.
    pub(crate) fn coerce_to_boolean(
        &mut self,
        expression: Expression,
        construct: &str,
    ) -> SqlResult<Expression> {
        let (of, position) = (expression.of.oid, expression.position);
        if !can_coerce(of, oid::BOOL, CastContext::Assignment) {
            let message = format!("argument of {construct} must be type boolean, not type {}", type_name(of));
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(position));
        }
        self.coerce(expression, oid::BOOL, CastContext::Assignment, Written::ImplicitCast)
    }

    /// Such as of `LIMIT`.
    pub(super) fn coerce_to_type(
        &mut self,
        expression: Expression,
        target: Oid,
        construct: &str,
    ) -> SqlResult<Expression> {
        let (of, position) = (expression.of.oid, expression.position);
        if !can_coerce(of, target, CastContext::Assignment) {
            let message = format!(
                "argument of {construct} must be type {}, not type {}",
                type_name(target),
                type_name(of)
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(position));
        }
        self.coerce(expression, target, CastContext::Assignment, Written::ImplicitCast)
    }

    /// A literal or parameter that nothing has given a type is text.
    pub(crate) fn known(&mut self, expression: Expression) -> SqlResult<Expression> {
        if expression.of.oid != oid::UNKNOWN {
            return Ok(expression);
        }
        self.coerce(expression, oid::TEXT, CastContext::Implicit, Written::ImplicitCast)
    }
}

/// The function that applies a length or precision to values of this type.
fn length_function(oid: Oid) -> Option<Oid> {
    match system().cast(oid, oid)?.method {
        CastMethod::Function(function) => Some(function),
        CastMethod::Binary | CastMethod::Text => None,
    }
}

/// Whether the function of a cast to another type applies the length itself.
fn takes_modifier(function: Oid) -> bool {
    system().function(function).is_some_and(|row| row.arguments.len() > 1)
}

/// The call of a cast's function, which takes the modifier and whether the cast was written, too, if it has room for them.
fn cast_call(
    function: Oid,
    argument: Expression,
    modifier: i32,
    context: CastContext,
    written: Written,
) -> SqlResult<Call> {
    let row: &FunctionRow = system()
        .function(function)
        .ok_or_else(|| SqlError::internal(format!("no function {function} of a cast")))?;
    let mut arguments = vec![argument];
    if row.arguments.len() > 1 {
        arguments.push(constant(Datum::Int4(modifier), oid::INT4));
    }
    if row.arguments.len() > 2 {
        arguments.push(constant(Datum::Bool(context == CastContext::Explicit), oid::BOOL));
    }
    Ok(Call { function: Arc::new(row.clone()), arguments, written })
}

//! Functions and operators: which one is meant, and its arguments as it declares them.

use std::sync::Arc;

use seawall_values::system::{CastContext, FunctionKind, FunctionRow, OperatorRow, SEAWALL, system};
use seawall_values::{
    Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, functions, oid, set_returning,
};

use super::candidates::{Candidate, best, exact, matching};
use super::coerce::{Conversion, Polymorphic, conversion, polymorphic_types};
use super::types::{array_of, element_of, is_polymorphic, type_name};
use super::{Binder, constant};
use crate::algebra::{Call, Expression, ExpressionKind, Written};
use crate::catalog;
use crate::schema::function::Function;
use crate::session::functions::is_session_function;

/// An argument as it was written: perhaps with a name.
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: Expression,
}

/// A function that was chosen, with its arguments as it declares them.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) function: Arc<FunctionRow>,
    pub(super) arguments: Vec<Expression>,
    /// The type of its result, of one row.
    pub(super) result: Oid,
    /// It is one that a user has made.
    pub(super) own: Option<Arc<Function>>,
}

/// A name such as `pg_catalog.lower`.
#[derive(Clone, Debug)]
pub(super) struct FunctionName {
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

impl FunctionName {
    /// The functions that may be meant.
    fn functions(&self) -> &'static [FunctionRow] {
        match self.schema.as_deref() {
            Some("information_schema") => system().functions_in(catalog::information_schema(), &self.name),
            Some("seawall") => system().functions_in(SEAWALL, &self.name),
            None | Some("pg_catalog") => system().functions_named(&self.name),
            Some(_) => &[],
        }
    }
}

impl std::fmt::Display for FunctionName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(formatter, "{schema}.{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

fn is_of_system(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema" | "seawall")
}

/// One way to call a function.
struct Way<'f> {
    function: &'f FunctionRow,
    /// For each parameter that is given or has a default: the argument's position.
    order: Vec<Option<usize>>,
    /// How many arguments make up the array of a `VARIADIC` parameter.
    variadic: Option<usize>,
    types: Vec<Oid>,
}

impl Binder<'_> {
    /// The call of a function by its name. A function that is a cast in disguise (`text(x)`) gives that.
    pub(super) fn call(
        &mut self,
        name: &FunctionName,
        arguments: Vec<Argument>,
        is_variadic: bool,
        position: Option<u32>,
    ) -> SqlResult<FunctionOrCast> {
        if let Some(schema) = &name.schema
            && !is_of_system(schema)
        {
            // That of an unknown schema is another error.
            self.definitions.relation(Some(schema), "")?;
        }
        let sources: Vec<Oid> = arguments.iter().map(|argument| argument.value.of.oid).collect();
        let own = self.functions_beside(name, &sources)?;
        let rows: Vec<FunctionRow> = own.iter().map(|function| function.row()).collect();
        let mut ways = ways(name.functions(), &arguments, is_variadic);
        ways.extend(self::ways(&rows, &arguments, is_variadic));
        let candidates: Vec<Candidate> = ways
            .iter()
            .enumerate()
            .map(|(index, way)| Candidate { index, types: way.types.clone() })
            .collect();
        let chosen = match exact_way(&ways, &sources, &candidates) {
            Some(exact) => Some(exact),
            None => {
                if let Some(cast) = self.function_as_cast(name, &arguments)? {
                    return Ok(FunctionOrCast::Cast(Box::new(cast)));
                }
                let fitting = matching_ways(&ways, &sources, &candidates);
                let several = fitting.len() > 1;
                let best = best_way(&ways, &sources, fitting);
                if best.is_none() && several {
                    let message =
                        format!("function {} is not unique", signature(&name.to_string(), &arguments));
                    return Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
                        .with_hint(
                            "Could not choose a best candidate function. You might need to add explicit type casts.",
                        )
                        .at(position));
                }
                best
            }
        };
        let Some(chosen) = chosen else {
            let message = format!("function {} does not exist", signature(&name.to_string(), &arguments));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .with_hint(
                    "No function matches the given name and argument types. You might need to add explicit type casts.",
                )
                .at(position));
        };
        let way = &ways[chosen.index];
        let mut chosen = self.complete(way, arguments, position)?;
        chosen.own = own.into_iter().find(|own| own.oid == chosen.function.oid);
        if chosen.own.is_some() {
            return Ok(FunctionOrCast::Function(Box::new(chosen)));
        }
        if chosen.function.namespace == catalog::information_schema() {
            // PostgreSQL writes these in SQL: they have names of their own.
            let source = format!("{}/{}", chosen.function.name, chosen.function.arguments.len());
            Arc::make_mut(&mut chosen.function).source = source;
        }
        if is_variadic && chosen.function.variadic == oid::ANY {
            takes_array(&mut chosen)?;
        }
        Ok(FunctionOrCast::Function(Box::new(chosen)))
    }

    /// The functions of users that may be meant; none, if one of the system has just these arguments: that comes before them.
    fn functions_beside(&mut self, name: &FunctionName, sources: &[Oid]) -> SqlResult<Vec<Arc<Function>>> {
        let is_exact = |function: &FunctionRow| function.variadic == 0 && function.arguments == sources;
        if name.schema.as_deref().is_some_and(is_of_system) || name.functions().iter().any(is_exact) {
            return Ok(Vec::new());
        }
        self.own_functions(name)
    }

    /// `text(x)` and `int4(x)`: a cast that no function makes.
    fn function_as_cast(
        &mut self,
        name: &FunctionName,
        arguments: &[Argument],
    ) -> SqlResult<Option<Expression>> {
        let [Argument { name: None, value }] = arguments else { return Ok(None) };
        let Some(target) = system().type_by_name(&name.name).map(|row| row.oid) else { return Ok(None) };
        let source = value.of.oid;
        let is_cast = source == oid::UNKNOWN
            || matches!(
                conversion(source, target, CastContext::Explicit),
                Some(Conversion::Relabel | Conversion::Text)
            );
        if !is_cast || is_polymorphic(target) {
            return Ok(None);
        }
        self.coerce(value.clone(), target, CastContext::Explicit, Written::ExplicitCast).map(Some)
    }

    /// The arguments in the order of the parameters, converted, with defaults, and those of a `VARIADIC` list as an array.
    fn complete(
        &mut self,
        way: &Way<'_>,
        arguments: Vec<Argument>,
        position: Option<u32>,
    ) -> SqlResult<Chosen> {
        let function = way.function;
        let mut given: Vec<Option<Expression>> =
            arguments.into_iter().map(|argument| Some(argument.value)).collect();
        let mut ordered = Vec::with_capacity(way.order.len());
        for (parameter, source) in way.order.iter().enumerate() {
            let value = match source.and_then(|index| given.get_mut(index)).and_then(Option::take) {
                Some(value) => value,
                None if system().function(function.oid).is_none() => self.own_default(function, parameter)?,
                None => default_argument(function, parameter).ok_or_else(|| {
                    SqlError::unsupported(format!("the default of a parameter of {}", function.name))
                })?,
            };
            ordered.push(value);
        }
        let sources: Vec<Oid> = ordered.iter().map(|value| value.of.oid).collect();
        let meant = polymorphic_types(&sources, &way.types).map_err(|error| error.at(position))?;
        let mut converted = Vec::with_capacity(ordered.len());
        for (value, declared) in ordered.into_iter().zip(&way.types) {
            let target = if is_polymorphic(*declared) {
                match meant.resolve(*declared) {
                    Some(target) => target,
                    None if value.of.oid == oid::UNKNOWN
                        && function.result != *declared
                        && !is_polymorphic(function.result) =>
                    {
                        oid::TEXT
                    }
                    None => return Err(undetermined(*declared).at(position)),
                }
            } else {
                *declared
            };
            converted.push(self.coerce(value, target, CastContext::Implicit, Written::ImplicitCast)?);
        }
        let result =
            result_type(function, meant).ok_or_else(|| undetermined(function.result).at(position))?;
        if let Some(count) = way.variadic {
            let list = converted.split_off(converted.len() - count);
            converted.push(self.variadic_array(function, meant, list)?);
        }
        Ok(Chosen { function: Arc::new(function.clone()), arguments: converted, result, own: None })
    }

    fn variadic_array(
        &mut self,
        function: &FunctionRow,
        meant: Polymorphic,
        list: Vec<Expression>,
    ) -> SqlResult<Expression> {
        let element = meant
            .resolve(function.variadic)
            .or_else(|| list.first().map(|value| value.of.oid))
            .unwrap_or(oid::TEXT);
        let array = array_of(element).ok_or_else(|| no_array(element))?;
        let kind = ExpressionKind::Array { elements: list, element, is_nested: false };
        Ok(Expression { kind, of: TypeReference::of(array), position: None })
    }

    /// `left operator right`, or `operator right`.
    pub(super) fn operator(
        &mut self,
        schema: Option<&str>,
        name: &str,
        left: Option<Expression>,
        right: Expression,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let left_type = left.as_ref().map(|left| left.of.oid);
        let operator = self.choose_operator(schema, name, left_type, right.of.oid, position)?;
        let (function, result, meant) =
            self.operator_function(operator, left_type, right.of.oid, position)?;
        let mut arguments = Vec::with_capacity(2);
        for (value, declared) in
            left.into_iter().map(|left| (left, operator.left)).chain([(right, operator.right)])
        {
            let target = if is_polymorphic(declared) {
                meant.resolve(declared).ok_or_else(|| undetermined(declared).at(position))?
            } else {
                declared
            };
            arguments.push(self.coerce(value, target, CastContext::Implicit, Written::ImplicitCast)?);
        }
        let call = Call { function, arguments, written: Written::Operator(operator.oid) };
        self.implemented(call, result, position)
    }

    fn operator_function(
        &mut self,
        operator: &OperatorRow,
        left: Option<Oid>,
        right: Oid,
        position: Option<u32>,
    ) -> SqlResult<(Arc<FunctionRow>, Oid, Polymorphic)> {
        let function = system()
            .function(operator.function)
            .ok_or_else(|| SqlError::unsupported(format!("operator {}", operator.name)).at(position))?;
        let (mut sources, mut targets) = (vec![right], vec![operator.right]);
        if let Some(left) = left {
            sources.insert(0, left);
            targets.insert(0, operator.left);
        }
        let meant = polymorphic_types(&sources, &targets).map_err(|error| error.at(position))?;
        let result = match operator.result {
            declared if is_polymorphic(declared) => {
                meant.resolve(declared).ok_or_else(|| undetermined(declared).at(position))?
            }
            declared => declared,
        };
        Ok((Arc::new(function.clone()), result, meant))
    }

    /// The function of an operator for two types, such as `=` for `USING`, `IN` and `CASE`.
    pub(super) fn choose_operator(
        &mut self,
        schema: Option<&str>,
        name: &str,
        left: Option<Oid>,
        right: Oid,
        position: Option<u32>,
    ) -> SqlResult<&'static OperatorRow> {
        let all = match schema {
            None | Some("pg_catalog") => system().operators_named(name),
            Some(_) => &[],
        };
        let of_arity: Vec<&'static OperatorRow> =
            all.iter().filter(|operator| (operator.left == 0) == left.is_none()).collect();
        let types = |operator: &OperatorRow| match left {
            Some(_) => vec![operator.left, operator.right],
            None => vec![operator.right],
        };
        let candidates: Vec<Candidate> = of_arity
            .iter()
            .enumerate()
            .map(|(index, operator)| Candidate { index, types: types(operator) })
            .collect();
        let sources: Vec<Oid> = left.into_iter().chain([right]).collect();
        // An unknown side is first taken to have the type of the other one.
        let same = match (left, right) {
            (Some(oid::UNKNOWN), right) if right != oid::UNKNOWN => Some(vec![right, right]),
            (Some(left), oid::UNKNOWN) if left != oid::UNKNOWN => Some(vec![left, left]),
            _ => None,
        };
        let chosen = exact(same.as_ref().unwrap_or(&sources), &candidates);
        let mut several = false;
        let chosen = chosen.or_else(|| {
            let fitting = matching(&sources, &candidates);
            several = fitting.len() > 1;
            best(&sources, fitting)
        });
        if let Some(chosen) = chosen {
            return Ok(of_arity[chosen.index]);
        }
        let written = match left {
            Some(left) => format!("{} {name} {}", type_name(left), type_name(right)),
            None => format!("{name} {}", type_name(right)),
        };
        let error = if several {
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {written}"))
                .with_hint(
                    "Could not choose a best candidate operator. You might need to add explicit type casts.",
                )
        } else {
            let types = if left.is_some() { "name and argument types" } else { "name and argument type" };
            let casts = if left.is_some() { "explicit type casts" } else { "an explicit type cast" };
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {written}"))
                .with_hint(format!("No operator matches the given {types}. You might need to add {casts}."))
        };
        Err(error.at(position))
    }

    /// The call as an expression, if its function is there.
    pub(super) fn implemented(
        &mut self,
        call: Call,
        result: Oid,
        position: Option<u32>,
    ) -> SqlResult<Expression> {
        let of = TypeReference::of(result);
        let source = &call.function.source;
        if functions::implementation(source).is_some() {
            return Ok(Expression { kind: ExpressionKind::Call(call), of, position });
        }
        if is_session_function(source) {
            return Ok(Expression { kind: ExpressionKind::SessionCall(call), of, position });
        }
        Err(not_there(&call.function).at(position))
    }
}

/// What the name of a function gave.
#[derive(Debug)]
pub(super) enum FunctionOrCast {
    Function(Box<Chosen>),
    Cast(Box<Expression>),
}

/// `0A000` for a function of PostgreSQL's that Seawall lacks.
pub(super) fn not_there(function: &FunctionRow) -> Box<SqlError> {
    let types: Vec<String> = function.arguments.iter().map(|oid| type_name(*oid)).collect();
    SqlError::unsupported(format!("function {}({})", function.name, types.join(", ")))
}

/// Whether the set-returning function is there.
pub(super) fn has_set_implementation(function: &FunctionRow) -> bool {
    set_returning::set_implementation(&function.source).is_some() || is_session_function(&function.source)
}

/// A function of any arguments gets an array of them: an implementation of its own expands the array.
fn takes_array(chosen: &mut Chosen) -> SqlResult<()> {
    let last = chosen.arguments.last();
    if last.is_none_or(|array| element_of(array.of.oid).is_none()) {
        let message = "VARIADIC argument must be an array";
        return Err(
            SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(last.and_then(|array| array.position))
        );
    }
    Arc::make_mut(&mut chosen.function).source.push_str("/variadic");
    Ok(())
}

fn no_array(element: Oid) -> Box<SqlError> {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("could not find array type for data type {}", type_name(element)),
    )
}

fn undetermined(declared: Oid) -> Box<SqlError> {
    let message = if is_polymorphic(declared) {
        "could not determine polymorphic type because input has type unknown".to_owned()
    } else {
        format!("could not determine actual type of {}", type_name(declared))
    };
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

fn result_type(function: &FunctionRow, meant: Polymorphic) -> Option<Oid> {
    if is_polymorphic(function.result) { meant.resolve(function.result) } else { Some(function.result) }
}

fn signature(name: &str, arguments: &[Argument]) -> String {
    let argument = |argument: &Argument| match &argument.name {
        Some(name) => format!("{name} => {}", type_name(argument.value.of.oid)),
        None => type_name(argument.value.of.oid),
    };
    let types: Vec<String> = arguments.iter().map(argument).collect();
    format!("{name}({})", types.join(", "))
}

/// All ways to call functions of this name with so many arguments.
fn ways<'f>(functions: &'f [FunctionRow], arguments: &[Argument], is_variadic: bool) -> Vec<Way<'f>> {
    let count = arguments.len();
    let mut ways = Vec::new();
    for function in functions {
        if function.kind == FunctionKind::Procedure {
            continue;
        }
        if arguments.iter().any(|argument| argument.name.is_some()) {
            ways.extend(named_way(function, arguments));
            continue;
        }
        let declared = function.arguments.len();
        let needed = declared - usize::from(function.defaults).min(declared);
        if function.variadic != 0 && !is_variadic && count >= declared {
            let mut types = function.arguments[..declared - 1].to_vec();
            let listed = count - (declared - 1);
            types.resize(count, function.variadic);
            let is_any = function.variadic == oid::ANY;
            ways.push(Way {
                function,
                order: (0..count).map(Some).collect(),
                variadic: (!is_any).then_some(listed),
                types,
            });
        }
        // An array takes the place of the list only where `VARIADIC` is written.
        if count >= needed && count <= declared && (function.variadic == 0 || is_variadic) {
            let order = (0..declared).map(|position| (position < count).then_some(position)).collect();
            ways.push(Way { function, order, variadic: None, types: function.arguments.clone() });
        }
    }
    ways
}

fn named_way<'f>(function: &'f FunctionRow, arguments: &[Argument]) -> Option<Way<'f>> {
    let declared = function.arguments.len();
    let mut order: Vec<Option<usize>> = vec![None; declared];
    for (index, argument) in arguments.iter().enumerate() {
        let parameter = match &argument.name {
            None => index,
            Some(name) => function.names.iter().take(declared).position(|known| known == name)?,
        };
        let slot = order.get_mut(parameter)?;
        if slot.is_some() {
            return None;
        }
        *slot = Some(index);
    }
    let needed = declared - usize::from(function.defaults).min(declared);
    if order[..needed].iter().any(Option::is_none) {
        return None;
    }
    Some(Way { function, order, variadic: None, types: function.arguments.clone() })
}

/// The types of the arguments in the order of the parameters; those of defaults match whatever is declared.
fn in_order(way: &Way<'_>, sources: &[Oid]) -> Vec<Oid> {
    let source = |(slot, declared): (&Option<usize>, &Oid)| {
        slot.and_then(|index| sources.get(index)).copied().unwrap_or(*declared)
    };
    way.order.iter().zip(&way.types).map(source).collect()
}

fn exact_way(ways: &[Way<'_>], sources: &[Oid], candidates: &[Candidate]) -> Option<Candidate> {
    let mut exact = candidates.iter().filter(|candidate| {
        let way = &ways[candidate.index];
        in_order(way, sources) == way.types
    });
    let first = exact.next()?;
    // A function that is called as it is declared comes before one with a list or with defaults.
    let plain = std::iter::once(first).chain(exact).min_by_key(|candidate| {
        let way = &ways[candidate.index];
        (way.variadic.is_some(), way.order.len())
    });
    plain.cloned()
}

fn matching_ways(ways: &[Way<'_>], sources: &[Oid], candidates: &[Candidate]) -> Vec<Candidate> {
    let fitting: Vec<Candidate> = candidates
        .iter()
        .filter(|candidate| {
            let way = &ways[candidate.index];
            super::coerce::can_coerce_all(&in_order(way, sources), &way.types, CastContext::Implicit)
        })
        .cloned()
        .collect();
    let plain: Vec<Candidate> =
        fitting.iter().filter(|candidate| ways[candidate.index].variadic.is_none()).cloned().collect();
    if plain.is_empty() { fitting } else { plain }
}

fn best_way(ways: &[Way<'_>], sources: &[Oid], fitting: Vec<Candidate>) -> Option<Candidate> {
    // With defaults, only the parameters that are given are compared.
    let given = |candidate: &Candidate| {
        let way = &ways[candidate.index];
        let types = (0..sources.len()).map(|argument| {
            let slot = way.order.iter().position(|slot| *slot == Some(argument));
            slot.and_then(|slot| way.types.get(slot)).copied().unwrap_or(oid::ANY)
        });
        Candidate { index: candidate.index, types: types.collect() }
    };
    let mut compared: Vec<Candidate> = fitting.iter().map(given).collect();
    // The fewest defaults win among the same types.
    compared.sort_by_key(|candidate| ways[candidate.index].order.len());
    compared.dedup_by(|later, earlier| {
        later.types == earlier.types && ways[later.index].order.len() > ways[earlier.index].order.len()
    });
    best(sources, compared)
}

/// Defaults of parameters of PostgreSQL's own functions.
fn default_argument(function: &FunctionRow, parameter: usize) -> Option<Expression> {
    let declared = *function.arguments.get(parameter)?;
    let name = function.names.get(parameter).map(String::as_str);
    let datum = match (function.name.as_str(), name, declared) {
        ("make_interval", Some("secs"), _) => Datum::Float8(0.0),
        ("make_interval", ..) => Datum::Int4(0),
        ("jsonb_set" | "jsonb_set_lax", Some("create_if_missing"), _)
        | ("parse_ident", Some("strict"), _) => Datum::Bool(true),
        ("jsonb_set_lax", ..) => Datum::text("use_json_null"),
        ("jsonb_insert", ..) => Datum::Bool(false),
        (_, Some("silent" | "use_json_as_text"), _) => Datum::Bool(false),
        (_, Some("vars"), _) => return Some(constant_json()),
        ("normalize", ..) | ("is_normalized", ..) => Datum::text("NFC"),
        ("pg_terminate_backend", ..) => Datum::Int8(0),
        ("pg_stat_statements_reset", _, oid::OID) => Datum::Oid(0),
        ("pg_stat_statements_reset", ..) => Datum::Int8(0),
        ("wait_for_lsn", Some("timeout_ms"), _) => Datum::Int8(0),
        ("pg_promote", Some("wait"), _) => Datum::Bool(true),
        ("pg_promote", ..) => Datum::Int4(60),
        _ => return None,
    };
    Some(constant(datum, declared))
}

fn constant_json() -> Expression {
    constant(Datum::Jsonb(Arc::new(seawall_values::datum::Jsonb::Object(Vec::new()))), oid::JSONB)
}

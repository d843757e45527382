//! `CREATE FUNCTION`, `ALTER FUNCTION`, and functions as statements name them.

use std::sync::Arc;

use seawall_values::system::{CastContext, system};
use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::super::Session;
use crate::algebra::Written;
use crate::bind::types::{is_composite, is_polymorphic, type_name};
use crate::bind::{Clause, element_type};
use crate::parse::Text;
use crate::parse::statement::definition::{
    AlterFunction, CreateFunction, FunctionAction, FunctionLanguage, FunctionProperties, RoutineName,
    WrittenParameter,
};
use crate::schema::function::{Function, FunctionParameter};

/// Parameters of a function, at most.
const PARAMETERS_MAX: usize = 100;

fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

impl Session {
    pub(super) fn create_function(&mut self, text: &Text, create: &CreateFunction) -> SqlResult<()> {
        let namespace = self.namespace_of_new(&create.name, false)?;
        let language = create.language.as_ref().ok_or_else(|| invalid("no language specified"))?;
        check_language(language)?;
        let parameters = self.function_parameters(text, create)?;
        let (result, returns_set) = self.function_result(text, create, &parameters)?;
        let body = create.body.as_ref().ok_or_else(|| invalid("no function body specified"))?;
        let function = Function {
            oid: 0,
            name: create.name.name.clone(),
            namespace,
            owner: self.asker.user,
            parameters,
            result,
            returns_set,
            volatility: b'v',
            is_strict: false,
            is_leakproof: false,
            parallel: b'u',
            cost: 100.0,
            rows: if returns_set { 1000.0 } else { 0.0 },
            body: body.text.clone(),
        };
        self.check_leakproof(&create.properties)?;
        let function = with_properties(&function, &create.properties)?;
        check_types(&function)?;
        self.check_body(&function).map_err(|mut error| {
            let placed = |position: u32| body.offset.map(|offset| offset.saturating_add(position));
            error.position = error.position.and_then(placed);
            error
        })?;
        self.with_definer(|definer| definer.create_function(&function, create.or_replace))
    }

    fn function_parameters(
        &mut self,
        text: &Text,
        create: &CreateFunction,
    ) -> SqlResult<Vec<FunctionParameter>> {
        let mut parameters: Vec<FunctionParameter> = Vec::with_capacity(create.parameters.len());
        let inputs = create.parameters.iter().filter(|written| matches!(written.mode, b'i' | b'b' | b'v'));
        if inputs.count() > PARAMETERS_MAX {
            let message = format!("functions cannot have more than {PARAMETERS_MAX} arguments");
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, message));
        }
        for written in &create.parameters {
            let of = self.parameter_type(text, written)?;
            let last = parameters.iter().rfind(|known| known.is_input());
            let is_input = matches!(written.mode, b'i' | b'b' | b'v');
            if is_input && last.is_some_and(|last| last.mode == b'v') {
                return Err(invalid("VARIADIC parameter must be the last input parameter"));
            }
            if written.mode == b'v' && element_type(of).is_none() && of != oid::ANYARRAY {
                return Err(invalid("VARIADIC parameter must be an array"));
            }
            if is_input && written.default.is_none() && last.is_some_and(|last| last.default.is_some()) {
                return Err(invalid(
                    "input parameters after one with a default value must also have defaults",
                ));
            }
            let name = written.name.clone().unwrap_or_default();
            let is_same = |known: &&FunctionParameter| {
                // An input and an output of `RETURNS TABLE` see each other, too.
                known.name == name
                    && (known.is_input() == is_input
                        || known.mode == b't'
                        || written.mode == b't'
                        || known.mode == b'b'
                        || written.mode == b'b')
            };
            if !name.is_empty() && parameters.iter().any(|known| is_same(&known)) {
                return Err(invalid(format!("parameter name \"{name}\" used more than once")));
            }
            let default = self.parameter_default(written, of)?;
            parameters.push(FunctionParameter { name, mode: written.mode, of, default });
        }
        Ok(parameters)
    }

    fn parameter_type(&mut self, text: &Text, written: &WrittenParameter) -> SqlResult<Oid> {
        let found = self.bind_with(text, &[], |binder| binder.type_of(&written.of));
        let of = found.map_err(|mut error| {
            if error.code == SqlState::UNDEFINED_OBJECT && written.mode != b't' {
                error.message = error.message.replace('"', "");
            }
            error.position = None;
            error
        })?;
        Ok(of.oid)
    }

    /// The default of a parameter, in PostgreSQL's own words.
    fn parameter_default(&mut self, written: &WrittenParameter, of: Oid) -> SqlResult<Option<String>> {
        let Some(default) = &written.default else { return Ok(None) };
        if !matches!(written.mode, b'i' | b'b' | b'v') {
            return Err(invalid("only input parameters can have default values"));
        }
        let words = self.bind_with(&default.text, &[], |binder| {
            binder.words_of(&default.expr, &[], Clause::Default, |binder, value| {
                let (from, position) = (value.of.oid, value.position);
                if is_polymorphic(of) {
                    return Ok(value);
                }
                let (wanted, context) = (TypeReference::of(of), CastContext::Assignment);
                let converted = binder.coerce_to(value, wanted, context, Written::ImplicitCast)?;
                converted.ok_or_else(|| {
                    let (of, from) = (type_name(of), type_name(from));
                    let message = format!("argument of DEFAULT must be type {of}, not type {from}");
                    SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(position)
                })
            })
        })?;
        Ok(Some(words.text))
    }

    /// The type of the result, and whether there are many.
    fn function_result(
        &mut self,
        text: &Text,
        create: &CreateFunction,
        parameters: &[FunctionParameter],
    ) -> SqlResult<(Oid, bool)> {
        let mut outputs = parameters.iter().filter(|parameter| matches!(parameter.mode, b'o' | b'b' | b't'));
        let by_outputs = match (outputs.next(), outputs.next()) {
            (None, _) => None,
            (Some(only), None) => Some(only.of),
            (Some(_), Some(_)) => Some(oid::RECORD),
        };
        let Some(result) = &create.result else {
            return by_outputs
                .map(|of| (of, false))
                .ok_or_else(|| invalid("function result type must be specified"));
        };
        let Some(of) = &result.of else { return Ok((by_outputs.unwrap_or(oid::RECORD), true)) };
        let of = self.bind_with(text, &[], |binder| binder.type_of(of)).map_err(|mut error| {
            error.position = None;
            error
        })?;
        match by_outputs {
            Some(wanted) if wanted != of.oid => {
                let wanted = type_name(wanted);
                Err(invalid(format!("function result type must be {wanted} because of OUT parameters")))
            }
            _ => Ok((of.oid, result.is_set)),
        }
    }

    /// What is wrong with the text of a function, if that can be told before it is called.
    fn check_body(&mut self, function: &Function) -> SqlResult<()> {
        if function.parameters.iter().any(|parameter| is_polymorphic(parameter.of)) {
            return crate::bind::function_query(function).map(drop);
        }
        let function = Arc::new(function.clone());
        self.bind_with(&Text::new(&function.body), &[], |binder| binder.check_own(&function))
    }

    pub(super) fn alter_function(&mut self, text: &Text, alter: &AlterFunction) -> SqlResult<()> {
        let Some(function) = self.own_function(text, &alter.function)? else {
            return Err(self.no_such_function(text, &alter.function)?);
        };
        match &alter.action {
            FunctionAction::SetOwner(owner) => {
                let owner = self.role_number(owner)?;
                self.with_definer(|definer| definer.give_function(function.oid, owner))
            }
            FunctionAction::Rename(to) => {
                self.with_definer(|definer| definer.rename_function(function.oid, to))
            }
            FunctionAction::SetSchema(schema) => {
                self.with_definer(|definer| definer.move_function(function.oid, schema))
            }
            FunctionAction::SetProperties(properties) => {
                self.check_leakproof(properties)?;
                self.with_definer(|definer| {
                    definer.change_function(function.oid, |old| with_properties(old, properties))
                })
            }
        }
    }

    /// `42501` if a function is to be taken for one that tells nothing of its arguments, on the word of who is no superuser.
    fn check_leakproof(&self, properties: &FunctionProperties) -> SqlResult<()> {
        if properties.is_leakproof != Some(true) || self.asker.is_superuser {
            return Ok(());
        }
        let message = "only superuser can define a leakproof function";
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The function of a user with a name, and with these arguments if they are said.
    pub(super) fn own_function(
        &mut self,
        text: &Text,
        named: &RoutineName,
    ) -> SqlResult<Option<Arc<Function>>> {
        let types = match &named.arguments {
            None => None,
            Some(arguments) => Some(self.argument_types(text, arguments)?),
        };
        let (schema, name) = (named.name.schema.clone(), named.name.name.clone());
        let mut found =
            self.bind_with(text, &[], |binder| binder.definitions.functions(schema.as_deref(), &name))?;
        match types {
            Some(types) => Ok(found.into_iter().find(|known| known.input_types() == types)),
            None if found.len() > 1 => {
                let message = format!("function name \"{name}\" is not unique");
                Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
                    .with_hint("Specify the argument list to select the function unambiguously."))
            }
            None => Ok(found.pop()),
        }
    }

    fn argument_types(&mut self, text: &Text, arguments: &[sqlparser::ast::DataType]) -> SqlResult<Vec<Oid>> {
        let mut types = Vec::with_capacity(arguments.len());
        for of in arguments {
            types.push(self.bind_with(text, &[], |binder| binder.type_of(of))?.oid);
        }
        Ok(types)
    }

    /// `42883`.
    pub(super) fn no_such_function(&mut self, text: &Text, named: &RoutineName) -> SqlResult<Box<SqlError>> {
        let name = super::absent::dotted(&named.name);
        if !system().functions_named(&named.name.name).is_empty() {
            return Ok(SqlError::unsupported("a change of a function of the system"));
        }
        let message = match &named.arguments {
            None => format!("could not find a function named \"{name}\""),
            Some(arguments) => {
                let types = self.argument_types(text, arguments)?;
                let types: Vec<String> = types.into_iter().map(type_name).collect();
                format!("function {name}({}) does not exist", types.join(", "))
            }
        };
        Ok(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }
}

/// A function with other properties.
fn with_properties(function: &Function, properties: &FunctionProperties) -> SqlResult<Function> {
    if properties.rows.is_some() && !function.returns_set {
        let message = "ROWS is not applicable when function does not return a set";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Function {
        volatility: properties.volatility.unwrap_or(function.volatility),
        is_strict: properties.is_strict.unwrap_or(function.is_strict),
        is_leakproof: properties.is_leakproof.unwrap_or(function.is_leakproof),
        parallel: properties.parallel.unwrap_or(function.parallel),
        cost: properties.cost.unwrap_or(function.cost),
        rows: properties.rows.unwrap_or(function.rows),
        ..function.clone()
    })
}

/// Only SQL is run here.
fn check_language(language: &FunctionLanguage) -> SqlResult<()> {
    match language.name.as_str() {
        "sql" => Ok(()),
        known @ ("plpgsql" | "c" | "internal") => {
            Err(SqlError::unsupported(format!("functions in language {known}")))
        }
        name => {
            let message = format!("language \"{name}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Types that stand for others are none of values.
fn check_types(function: &Function) -> SqlResult<()> {
    let is_pseudo =
        |of: Oid| system().type_by_oid(of).is_some_and(|row| row.kind == b'p') && !is_polymorphic(of);
    if function.result == oid::VOID {
        return Err(SqlError::unsupported("a function in language sql that returns void"));
    }
    if is_pseudo(function.result) && function.result != oid::RECORD {
        let of = type_name(function.result);
        return Err(invalid(format!("SQL functions cannot return type {of}")));
    }
    if is_polymorphic(function.result) && !function.inputs().any(|input| is_polymorphic(input.of)) {
        return Err(invalid("cannot determine result data type"));
    }
    match function.inputs().find(|input| is_pseudo(input.of)) {
        Some(input) => {
            let of = type_name(input.of);
            Err(invalid(format!("SQL functions cannot have arguments of type {of}")))
        }
        None if function.inputs().any(|input| is_composite(input.of)) => {
            Err(SqlError::unsupported("a parameter of a function that is a row"))
        }
        None => Ok(()),
    }
}

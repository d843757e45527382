//! `CREATE SEQUENCE`, `ALTER SEQUENCE`, and sequences of columns.

use seawall_values::{Oid, SqlError, SqlResult, SqlState, oid};

use super::requests::{NewSequence, SequenceOptions};
use super::{Definer, column_number};
use crate::catalog::numbers::PG_CLASS;
use crate::schema::privilege::ObjectKind;
use crate::schema::sequence::SequencePosition;
use crate::schema::{Definition, Sequence};

fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Smallest and largest value of a type of sequences.
fn range_of(of: Oid) -> SqlResult<(i64, i64)> {
    match of {
        oid::INT2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
        oid::INT4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
        oid::INT8 => Ok((i64::MIN, i64::MAX)),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

/// What a sequence of this type has where it was not told otherwise.
fn default_bounds(of: Oid, is_ascending: bool) -> SqlResult<(i64, i64)> {
    let (smallest, largest) = range_of(of)?;
    Ok(if is_ascending { (1, largest) } else { (smallest, -1) })
}

/// A sequence with options put into it; `is_new`: also those that were not given.
fn with_options(old: Sequence, options: &SequenceOptions, is_new: bool) -> SqlResult<Sequence> {
    let mut sequence = old.clone();
    sequence.of = options.of.unwrap_or(old.of);
    sequence.increment = options.increment.unwrap_or(old.increment);
    if sequence.increment == 0 {
        return Err(invalid("INCREMENT must not be zero"));
    }
    let bounds = default_bounds(sequence.of, sequence.increment > 0)?;
    let old_range = range_of(old.of)?;
    // Another type moves the bounds that were those of the type before.
    let has_new_type = sequence.of != old.of;
    let range = range_of(sequence.of)?;
    sequence.minimum = match options.minimum {
        Some(minimum) => minimum.unwrap_or(bounds.0),
        None if is_new => bounds.0,
        None if has_new_type && old.minimum == old_range.0 => range.0,
        None => old.minimum,
    };
    sequence.maximum = match options.maximum {
        Some(maximum) => maximum.unwrap_or(bounds.1),
        None if is_new => bounds.1,
        None if has_new_type && old.maximum == old_range.1 => range.1,
        None => old.maximum,
    };
    let first = if sequence.increment > 0 { sequence.minimum } else { sequence.maximum };
    sequence.start = options.start.unwrap_or(if is_new { first } else { old.start });
    sequence.cache = options.cache.unwrap_or(old.cache);
    sequence.is_cycling = options.is_cycling.unwrap_or(old.is_cycling);
    check(&sequence)?;
    Ok(sequence)
}

fn check(sequence: &Sequence) -> SqlResult<()> {
    let (minimum, maximum, start) = (sequence.minimum, sequence.maximum, sequence.start);
    let (smallest, largest) = range_of(sequence.of)?;
    let of = super::index::type_name(sequence.of);
    if !(smallest..=largest).contains(&maximum) {
        return Err(invalid(format!("MAXVALUE ({maximum}) is out of range for sequence data type {of}")));
    }
    if !(smallest..=largest).contains(&minimum) {
        return Err(invalid(format!("MINVALUE ({minimum}) is out of range for sequence data type {of}")));
    }
    if minimum >= maximum {
        return Err(invalid(format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})")));
    }
    if start < minimum {
        return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({minimum})")));
    }
    if start > maximum {
        return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({maximum})")));
    }
    if sequence.cache <= 0 {
        return Err(invalid(format!("CACHE ({}) must be greater than zero", sequence.cache)));
    }
    Ok(())
}

fn check_position(sequence: &Sequence, value: i64) -> SqlResult<()> {
    let (minimum, maximum) = (sequence.minimum, sequence.maximum);
    if value < minimum {
        return Err(invalid(format!("RESTART value ({value}) cannot be less than MINVALUE ({minimum})")));
    }
    if value > maximum {
        return Err(invalid(format!("RESTART value ({value}) cannot be greater than MAXVALUE ({maximum})")));
    }
    Ok(())
}

impl Definer<'_> {
    /// `CREATE SEQUENCE`. `None`: it was there (`IF NOT EXISTS`).
    ///
    /// # Errors
    /// `42P07`, `22023`; `55000`: it cannot belong to that column.
    pub fn create_sequence(&mut self, request: &NewSequence) -> SqlResult<Option<Oid>> {
        if self.is_taken(request.namespace, &request.name, request.if_not_exists)? {
            return Ok(None);
        }
        let sequence = self.new_sequence(request.name.clone(), request.namespace, &request.options)?;
        let oid = sequence.oid;
        self.tables.store.put_sequence(self.tables.transaction, sequence, None)?;
        if let Some(owner) = request.options.owned_by {
            self.set_owned_by(oid, owner)?;
        }
        self.give_default_access(ObjectKind::Sequence, (oid, PG_CLASS, 0), request.namespace)?;
        Ok(Some(oid))
    }

    /// A sequence that belongs to no column.
    pub(super) fn new_sequence(
        &mut self,
        name: String,
        namespace: Oid,
        options: &SequenceOptions,
    ) -> SqlResult<Sequence> {
        let plain = Sequence {
            oid: self.tables.store.new_oid()?,
            name,
            namespace,
            owner: self.owner,
            of: oid::INT8,
            start: 1,
            increment: 1,
            minimum: 1,
            maximum: i64::MAX,
            cache: 1,
            is_cycling: false,
            owned_by: None,
            state: self.tables.store.new_version()?,
        };
        with_options(plain, options, true)
    }

    /// `ALTER SEQUENCE`.
    ///
    /// # Errors
    /// `22023`, `55000`, `0A000`.
    pub fn alter_sequence(&mut self, oid: Oid, options: &SequenceOptions) -> SqlResult<()> {
        let old = self.sequence_to_change(oid)?;
        self.require_owner(&Definition::Sequence(old.clone().into()))?;
        let mut sequence = with_options(old.clone(), options, false)?;
        let position = self.tables.store.sequence_position(&old)?;
        match options.restart {
            Some(value) => {
                let value = value.unwrap_or(sequence.start);
                check_position(&sequence, value)?;
                self.restart(&mut sequence, value)?;
            }
            None => check_position(&sequence, position.value)?,
        }
        self.tables.store.put_sequence(self.tables.transaction, sequence, Some(&old))?;
        match options.owned_by {
            Some(owner) => self.set_owned_by(oid, owner),
            None => Ok(()),
        }
    }

    /// Lets a sequence begin anew with a value, if the transaction commits. Another state, written at once, does that: nobody knows it
    /// before.
    pub(super) fn restart(&mut self, sequence: &mut Sequence, value: i64) -> SqlResult<()> {
        self.tables.store.discard_sequence(self.tables.transaction, sequence.state)?;
        sequence.state = self.tables.store.new_version()?;
        if value == sequence.start {
            return Ok(());
        }
        self.tables.store.set_position(sequence, SequencePosition { value, is_called: false })
    }

    pub(super) fn sequence_to_change(&mut self, oid: Oid) -> SqlResult<Sequence> {
        match self.tables.store.definition_to_change(self.tables.transaction, oid)? {
            Some(Definition::Sequence(sequence)) => Ok(Sequence::clone(&sequence)),
            Some(other) => {
                let message = format!("\"{}\" is not a sequence", crate::catalog::heading(&other).name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("relation with OID {oid} does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }

    /// `OWNED BY`.
    fn set_owned_by(&mut self, oid: Oid, owner: Option<(Oid, usize)>) -> SqlResult<()> {
        let store = self.tables.store;
        let old = self.sequence_to_change(oid)?;
        let refuse = |message: &str| SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
        if let Some((table, position)) = old.owned_by
            && let Some(Definition::Table(table)) = store.definition(self.tables.transaction, table)?
        {
            let column = &table.columns[position];
            if column.identity.is_some() && column.sequence == oid {
                let message = "cannot change ownership of identity sequence";
                let detail = format!("Sequence \"{}\" is linked to table \"{}\".", old.name, table.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail));
            }
            if column.sequence == oid {
                let mut changed = (*self.table_to_change(table.oid)?).clone();
                changed.columns[position].sequence = 0;
                self.put_changed(changed, &table)?;
            }
        }
        store.remove_dependencies(self.tables.transaction, oid, None)?;
        if let Some((table, position)) = owner {
            let table = self.table_to_change(table)?;
            if table.owner != old.owner {
                return Err(refuse("sequence must have same owner as table it is linked to"));
            }
            if table.namespace != old.namespace {
                return Err(refuse("sequence must be in same schema as table it is linked to"));
            }
            let on = (table.oid, column_number(position));
            store.put_dependency(self.tables.transaction, (oid, 0), on)?;
            let mut changed = (*table).clone();
            changed.columns[position].sequence = oid;
            self.put_changed(changed, &table)?;
        }
        let changed = Sequence { owned_by: owner, ..old.clone() };
        store.put_sequence(self.tables.transaction, changed, Some(&old))
    }
}

//! `bool_and`, `bool_or`, `every`, and `bit_and`, `bit_or`, `bit_xor`.

use std::sync::Arc;

use super::{Accumulator, Table};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("bool_and", &[oid::BOOL], |_, _| Box::new(Booleans::new(Quantifier::All))),
    ("every", &[oid::BOOL], |_, _| Box::new(Booleans::new(Quantifier::All))),
    ("bool_or", &[oid::BOOL], |_, _| Box::new(Booleans::new(Quantifier::Any))),
    ("bit_and", &[oid::INT2], |_, _| Box::new(Bitwise::new(BitOperation::And))),
    ("bit_and", &[oid::INT4], |_, _| Box::new(Bitwise::new(BitOperation::And))),
    ("bit_and", &[oid::INT8], |_, _| Box::new(Bitwise::new(BitOperation::And))),
    ("bit_and", &[oid::BIT], |_, _| Box::new(Bitwise::new(BitOperation::And))),
    ("bit_or", &[oid::INT2], |_, _| Box::new(Bitwise::new(BitOperation::Or))),
    ("bit_or", &[oid::INT4], |_, _| Box::new(Bitwise::new(BitOperation::Or))),
    ("bit_or", &[oid::INT8], |_, _| Box::new(Bitwise::new(BitOperation::Or))),
    ("bit_or", &[oid::BIT], |_, _| Box::new(Bitwise::new(BitOperation::Or))),
    ("bit_xor", &[oid::INT2], |_, _| Box::new(Bitwise::new(BitOperation::ExclusiveOr))),
    ("bit_xor", &[oid::INT4], |_, _| Box::new(Bitwise::new(BitOperation::ExclusiveOr))),
    ("bit_xor", &[oid::INT8], |_, _| Box::new(Bitwise::new(BitOperation::ExclusiveOr))),
    ("bit_xor", &[oid::BIT], |_, _| Box::new(Bitwise::new(BitOperation::ExclusiveOr))),
];

enum Quantifier {
    All,
    Any,
}

/// How many values are true and false: a row can be taken back.
struct Booleans {
    quantifier: Quantifier,
    true_count: u64,
    false_count: u64,
}

impl Booleans {
    fn new(quantifier: Quantifier) -> Booleans {
        Booleans { quantifier, true_count: 0, false_count: 0 }
    }
}

impl Accumulator for Booleans {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Bool(true)] => self.true_count += 1,
            [Datum::Bool(false)] => self.false_count += 1,
            [Datum::Null] => {}
            _ => return Err(super::misplaced(arguments)),
        }
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        match arguments {
            [Datum::Bool(true)] => self.true_count -= 1,
            [Datum::Bool(false)] => self.false_count -= 1,
            _ => {}
        }
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        if self.true_count + self.false_count == 0 {
            return Ok(Datum::Null);
        }
        Ok(Datum::Bool(match self.quantifier {
            Quantifier::All => self.false_count == 0,
            Quantifier::Any => self.true_count > 0,
        }))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[derive(Clone, Copy)]
enum BitOperation {
    And,
    Or,
    ExclusiveOr,
}

impl BitOperation {
    fn apply<T>(self, left: T, right: T) -> T
    where
        T: std::ops::BitAnd<Output = T> + std::ops::BitOr<Output = T> + std::ops::BitXor<Output = T>,
    {
        match self {
            BitOperation::And => left & right,
            BitOperation::Or => left | right,
            BitOperation::ExclusiveOr => left ^ right,
        }
    }
}

struct Bitwise {
    operation: BitOperation,
    value: Datum,
}

impl Bitwise {
    fn new(operation: BitOperation) -> Bitwise {
        Bitwise { operation, value: Datum::Null }
    }
}

impl Accumulator for Bitwise {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let [value] = arguments else { return Err(super::misplaced(arguments)) };
        self.value = match (&self.value, value) {
            (_, Datum::Null) => return Ok(()),
            (Datum::Null, value) => value.clone(),
            (Datum::Int2(left), Datum::Int2(right)) => Datum::Int2(self.operation.apply(*left, *right)),
            (Datum::Int4(left), Datum::Int4(right)) => Datum::Int4(self.operation.apply(*left, *right)),
            (Datum::Int8(left), Datum::Int8(right)) => Datum::Int8(self.operation.apply(*left, *right)),
            (Datum::Bits(left, length), Datum::Bits(right, right_length)) => {
                if length != right_length {
                    return Err(different_lengths(self.operation));
                }
                let bytes =
                    left.iter().zip(right.iter()).map(|(left, right)| self.operation.apply(*left, *right));
                Datum::Bits(Arc::from_iter(bytes), *length)
            }
            _ => return Err(super::misplaced(arguments)),
        };
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.value.clone())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.value.memory_bytes()
    }
}

#[cold]
fn different_lengths(operation: BitOperation) -> Box<SqlError> {
    let name = match operation {
        BitOperation::And => "AND",
        BitOperation::Or => "OR",
        BitOperation::ExclusiveOr => "XOR",
    };
    SqlError::new(SqlState::new(b"22026"), format!("cannot {name} bit strings of different sizes"))
}

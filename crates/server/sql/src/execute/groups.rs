//! A set of lists of values, each with a number: groups, distinct rows, keys of a hashed `IN`. Nulls are the same.

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::chains::{Chains, ENTRY_BYTES};
use super::compare::{are_same, hash_values};
use super::memory::values_bytes;

/// The set. Numbers are 0, 1, 2, .. in the order in which lists were added.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    padded: Box<[bool]>,
    chains: Chains,
    values: Vec<Datum>,
    bytes: usize,
}

/// Whether a list was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It was, with this number.
    Known(usize),
    /// It was not, and now has this number.
    New(usize),
}

impl Groups {
    /// An empty set of lists of as many values as `padded` has: which of them are `character(n)`.
    pub(crate) fn new(padded: impl Into<Box<[bool]>>) -> Groups {
        Groups { padded: padded.into(), ..Groups::default() }
    }

    pub(crate) fn padded(&self) -> &[bool] {
        &self.padded
    }

    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.chains.clear();
        self.values.clear();
        self.bytes = 0;
    }

    pub(crate) fn hash(&self, values: &[Datum]) -> u64 {
        hash_values(values.iter().zip(self.padded.iter().copied()))
    }

    /// The list with a number.
    pub(crate) fn get(&self, number: usize) -> &[Datum] {
        let width = self.padded.len();
        &self.values[number * width..(number + 1) * width]
    }

    /// The number of a list whose hash this is.
    pub(crate) fn find(&self, hash: u64, values: &[Datum]) -> Option<usize> {
        self.chains.find(hash).find(|number| are_same(self.get(*number), values, &self.padded))
    }

    /// Adds a list that is not in it.
    pub(crate) fn add(&mut self, hash: u64, values: &[Datum]) -> SqlResult<usize> {
        let number = self.len();
        if !self.chains.push(hash) {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a hash table has more than 4,294,967,294 entries",
            ));
        }
        self.bytes += values_bytes(values) + ENTRY_BYTES;
        self.values.extend_from_slice(values);
        Ok(number)
    }

    /// Adds a list, if it is not in it.
    pub(crate) fn enter(&mut self, values: &[Datum]) -> SqlResult<Entered> {
        let hash = self.hash(values);
        match self.find(hash, values) {
            Some(number) => Ok(Entered::Known(number)),
            None => self.add(hash, values).map(Entered::New),
        }
    }
}

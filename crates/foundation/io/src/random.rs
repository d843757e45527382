//! Randomness for ids, keys and nonces: nobody can guess it, and nobody draws the same twice.

use std::fmt;

/// A source of randomness.
pub trait Random: Send + Sync + fmt::Debug {
    /// Overwrites `bytes` with bytes that no other call, process or machine has drawn or can guess.
    ///
    /// # Panics
    /// If there are none: to go on with others would give a secret away.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's randomness. Each call asks it anew and nothing is kept in memory, so that a process that goes
/// on from a copy of its memory, after a fork or in a restored virtual machine, does not repeat what was drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has randomness as soon as it has started");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let draw = |_| {
            let mut bytes = [0; 24];
            OsRandom.fill(&mut bytes);
            bytes
        };
        let drawn: std::collections::BTreeSet<_> = (0..1000).map(draw).collect();
        assert_eq!(drawn.len(), 1000);
    }
}

//! The hash functions that PostgreSQL's catalog names, such as `hashtext`: programs use them for keys of advisory locks.
//!
//! The algorithm is Bob Jenkins' "lookup3" as PostgreSQL has it for little-endian machines.

use super::Table;
use super::arguments::row;
use crate::datum::Datum;
use crate::order::{interval_micros, without_blanks};

pub(super) const TABLE: Table = &[
    row!("hashtext", [Text text], Ok(hash(text.as_bytes()))),
    row!("hashtextextended", [Text text, Int8 seed], Ok(seeded(text.as_bytes(), *seed))),
    row!("hashname", [Text text], Ok(hash(text.as_bytes()))),
    row!("hashnameextended", [Text text, Int8 seed], Ok(seeded(text.as_bytes(), *seed))),
    row!("hashbpchar", [Text text], Ok(hash(without_blanks(text).as_bytes()))),
    row!("hashbpcharextended", [Text text, Int8 seed], Ok(seeded(without_blanks(text).as_bytes(), *seed))),
    row!("hashchar", [Char byte], Ok(hash_word(signed(*byte)))),
    row!("hashcharextended", [Char byte, Int8 seed], Ok(seeded_word(signed(*byte), *seed))),
    row!("hashint2", [Int2 number], Ok(hash_word(i32::from(*number).cast_unsigned()))),
    row!("hashint2extended", [Int2 number, Int8 seed], {
        Ok(seeded_word(i32::from(*number).cast_unsigned(), *seed))
    }),
    row!("hashint4", [Int4 number], Ok(hash_word(number.cast_unsigned()))),
    row!("hashint4extended", [Int4 number, Int8 seed], Ok(seeded_word(number.cast_unsigned(), *seed))),
    row!("hashint8", [Int8 number], Ok(hash_word(folded(*number)))),
    row!("hashint8extended", [Int8 number, Int8 seed], Ok(seeded_word(folded(*number), *seed))),
    row!("hashoid", [Oid number], Ok(hash_word(*number))),
    row!("hashoidextended", [Oid number, Int8 seed], Ok(seeded_word(*number, *seed))),
    row!("hashfloat4", [Float4 number], Ok(hash_float(f64::from(*number)))),
    row!("hashfloat4extended", [Float4 number, Int8 seed], Ok(seeded_float(f64::from(*number), *seed))),
    row!("hashfloat8", [Float8 number], Ok(hash_float(*number))),
    row!("hashfloat8extended", [Float8 number, Int8 seed], Ok(seeded_float(*number, *seed))),
    row!("uuid_hash", [Uuid bytes], Ok(hash(bytes))),
    row!("uuid_hash_extended", [Uuid bytes, Int8 seed], Ok(seeded(bytes, *seed))),
    row!("time_hash", [Time micros], Ok(hash_word(folded(*micros)))),
    row!("time_hash_extended", [Time micros, Int8 seed], Ok(seeded_word(folded(*micros), *seed))),
    row!("timestamp_hash", [Timestamp micros], Ok(hash_word(folded(*micros)))),
    row!("timestamp_hash_extended", [Timestamp micros, Int8 seed], Ok(seeded_word(folded(*micros), *seed))),
    row!("interval_hash", [Interval value], Ok(hash_word(folded(low_half(interval_micros(value)))))),
    row!("interval_hash_extended", [Interval value, Int8 seed], {
        Ok(seeded_word(folded(low_half(interval_micros(value))), *seed))
    }),
    row!("pg_lsn_hash", [Unsigned8 number], Ok(hash_word(folded(number.cast_signed())))),
    row!("pg_lsn_hash_extended", [Unsigned8 number, Int8 seed], {
        Ok(seeded_word(folded(number.cast_signed()), *seed))
    }),
];

/// The lower 64 bits.
fn low_half(value: i128) -> i64 {
    u64::try_from(value & i128::from(u64::MAX)).unwrap_or(0).cast_signed()
}

/// The three words that are mixed.
struct State(u32, u32, u32);

impl State {
    fn new(length: usize) -> State {
        // Values are shorter than a gigabyte, so none of the length is lost.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let word = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
        State(word, word, word)
    }

    fn seed(&mut self, seed: i64) {
        if seed == 0 {
            return;
        }
        let seed = seed.cast_unsigned().to_be_bytes();
        let [a, b, c, d, e, f, g, h] = seed;
        self.0 = self.0.wrapping_add(u32::from_be_bytes([a, b, c, d]));
        self.1 = self.1.wrapping_add(u32::from_be_bytes([e, f, g, h]));
        self.mix();
    }

    fn mix(&mut self) {
        let State(a, b, c) = self;
        for (shift, order) in [(4, 0), (6, 1), (8, 2), (16, 0), (19, 1), (4, 2)] {
            let (x, y, z) = match order {
                0 => (&mut *a, &mut *c, &mut *b),
                1 => (&mut *b, &mut *a, &mut *c),
                _ => (&mut *c, &mut *b, &mut *a),
            };
            *x = x.wrapping_sub(*y) ^ y.rotate_left(shift);
            *y = y.wrapping_add(*z);
        }
    }

    fn finish(&mut self) {
        let State(a, b, c) = self;
        for (shift, order) in [(14, 0), (11, 1), (25, 2), (16, 0), (4, 1), (14, 2), (24, 0)] {
            let (x, y) = match order {
                0 => (&mut *c, *b),
                1 => (&mut *a, *c),
                _ => (&mut *b, *a),
            };
            *x = (*x ^ y).wrapping_sub(y.rotate_left(shift));
        }
    }

    /// Adds words of twelve bytes, and the rest; the lowest byte of the third word of the rest is kept free.
    fn bytes(&mut self, bytes: &[u8]) {
        let chunks = bytes.chunks_exact(12);
        let rest = chunks.remainder();
        for chunk in chunks {
            self.add(chunk, 0);
            self.mix();
        }
        self.add(rest, 1);
        self.finish();
    }

    fn add(&mut self, bytes: &[u8], free: usize) {
        let mut padded = [0_u8; 13];
        let first = bytes.len().min(8);
        padded[..first].copy_from_slice(&bytes[..first]);
        padded[8 + free..free + bytes.len().max(8)].copy_from_slice(&bytes[first..]);
        let word =
            |at: usize| u32::from_le_bytes([padded[at], padded[at + 1], padded[at + 2], padded[at + 3]]);
        self.0 = self.0.wrapping_add(word(0));
        self.1 = self.1.wrapping_add(word(4));
        self.2 = self.2.wrapping_add(word(8));
    }

    fn short(&self) -> Datum {
        Datum::Int4(self.2.cast_signed())
    }

    fn long(&self) -> Datum {
        Datum::Int8((u64::from(self.1) << 32 | u64::from(self.2)).cast_signed())
    }
}

fn hash(bytes: &[u8]) -> Datum {
    let mut state = State::new(bytes.len());
    state.bytes(bytes);
    state.short()
}

fn seeded(bytes: &[u8], seed: i64) -> Datum {
    let mut state = State::new(bytes.len());
    state.seed(seed);
    state.bytes(bytes);
    state.long()
}

fn word(word: u32, seed: i64) -> State {
    let mut state = State::new(4);
    state.seed(seed);
    state.0 = state.0.wrapping_add(word);
    state.finish();
    state
}

fn hash_word(value: u32) -> Datum {
    word(value, 0).short()
}

fn seeded_word(value: u32, seed: i64) -> Datum {
    word(value, seed).long()
}

fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

/// A number of eight bytes as one of four: a small one has the hash that it has in a narrower type.
fn folded(number: i64) -> u32 {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    let (high, low) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    low ^ if number >= 0 { high } else { !high }
}

fn float_bytes(number: f64) -> [u8; 8] {
    if number.is_nan() { f64::NAN.to_le_bytes() } else { number.to_le_bytes() }
}

/// Both zeros have the hash 0.
fn hash_float(number: f64) -> Datum {
    if number == 0.0 { Datum::Int4(0) } else { hash(&float_bytes(number)) }
}

fn seeded_float(number: f64, seed: i64) -> Datum {
    if number == 0.0 { Datum::Int8(seed) } else { seeded(&float_bytes(number), seed) }
}

//! Tuples: the parts one after another. The parts before the last end themselves; the last is ended by the key's end.

use super::{Key, KeyError, KeyPrefix};

macro_rules! tuple_keys {
    ($(($($part:ident $index:tt,)* ; $last:ident $last_index:tt))*) => { $(
        impl<$($part: Key,)* $last: Key> Key for ($($part,)* $last,) {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)*
                self.$last_index.encode(out);
            }

            fn decode(input: &mut &[u8]) -> Result<Self, KeyError> {
                Ok(($($part::decode(input)?,)* $last::decode(input)?,))
            }

            fn encode_last(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)*
                self.$last_index.encode_last(out);
            }

            #[allow(unused_mut, reason = "a tuple of one part has no part before its last")]
            fn decode_last(mut input: &[u8]) -> Result<Self, KeyError> {
                Ok(($($part::decode(&mut input)?,)* $last::decode_last(input)?,))
            }
        }
    )* };
}

tuple_keys! {
    (; A 0)
    (A 0, ; B 1)
    (A 0, B 1, ; C 2)
    (A 0, B 1, C 2, ; D 3)
    (A 0, B 1, C 2, D 3, ; E 4)
    (A 0, B 1, C 2, D 3, E 4, ; F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, ; G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, ; H 7)
}

macro_rules! tuple_prefixes {
    ($(($($part:ident $index:tt),*) of ($($all:ident),*))*) => { $(
        impl<$($all: Key),*> KeyPrefix<($($all,)*)> for ($($part,)*) {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)*
            }
        }
    )* };
}

tuple_prefixes! {
    (A 0) of (A, B)
    (A 0) of (A, B, C)
    (A 0, B 1) of (A, B, C)
    (A 0) of (A, B, C, D)
    (A 0, B 1) of (A, B, C, D)
    (A 0, B 1, C 2) of (A, B, C, D)
    (A 0) of (A, B, C, D, E)
    (A 0, B 1) of (A, B, C, D, E)
    (A 0, B 1, C 2) of (A, B, C, D, E)
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E)
    (A 0) of (A, B, C, D, E, F)
    (A 0, B 1) of (A, B, C, D, E, F)
    (A 0, B 1, C 2) of (A, B, C, D, E, F)
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E, F)
    (A 0, B 1, C 2, D 3, E 4) of (A, B, C, D, E, F)
    (A 0) of (A, B, C, D, E, F, G)
    (A 0, B 1) of (A, B, C, D, E, F, G)
    (A 0, B 1, C 2) of (A, B, C, D, E, F, G)
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E, F, G)
    (A 0, B 1, C 2, D 3, E 4) of (A, B, C, D, E, F, G)
    (A 0, B 1, C 2, D 3, E 4, F 5) of (A, B, C, D, E, F, G)
    (A 0) of (A, B, C, D, E, F, G, H)
    (A 0, B 1) of (A, B, C, D, E, F, G, H)
    (A 0, B 1, C 2) of (A, B, C, D, E, F, G, H)
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E, F, G, H)
    (A 0, B 1, C 2, D 3, E 4) of (A, B, C, D, E, F, G, H)
    (A 0, B 1, C 2, D 3, E 4, F 5) of (A, B, C, D, E, F, G, H)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6) of (A, B, C, D, E, F, G, H)
}

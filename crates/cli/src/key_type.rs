//! Keys with types on the command line and in files: what a program writes through a `TypedTable`.
//!
//! ```text
//!   --key-type u64             7                    00 00 00 00 00 00 00 07
//!   --key-type u64,text        7,north              00 00 00 00 00 00 00 07  6e 6f 72 74 68
//!   --key-type text,i32        a\,b,-1              61 2c 62 00 01  7f ff ff ff
//! ```
//! The parts of a tuple stand between commas; a comma or a backslash in a part has a backslash before it. The key of a type that is no
//! tuple is taken as it is.

use std::fmt::Display;
use std::str::FromStr;

use seawall::key::{Key, KeyError, Timestamp};
use seawall_codec::hexadecimal::to_hexadecimal;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::failure::Failure;
use crate::files::{parse_utc, utc};
use crate::output::{Notation, escape, parse_hex};

/// More parts than any tuple of `TypedTable` has.
const PARTS_MAX: usize = 8;

/// The type of a key: a part, or several of a tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyType {
    parts: Vec<Part>,
}

macro_rules! parts {
    ($($name:literal $part:ident),*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Part { $($part),* }

        const PARTS: &[(&str, Part)] = &[$(($name, Part::$part)),*];
    };
}

parts! {
    "u8" U8, "u16" U16, "u32" U32, "u64" U64, "u128" U128, "i8" I8, "i16" I16, "i32" I32, "i64" I64, "i128" I128,
    "f32" F32, "f64" F64, "bool" Bool, "char" Char, "text" Text, "bytes" Bytes, "uuid" Uuid, "time" Time
}

impl FromStr for KeyType {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyType, String> {
        let part = |name: &str| {
            let found = PARTS.iter().find(|(known, _)| *known == name).map(|(_, part)| *part);
            found.ok_or_else(|| {
                let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
                format!("{name:?} is not a type of keys; there are: {}", names.join(", "))
            })
        };
        let parts = text.split(',').map(part).collect::<Result<Vec<Part>, String>>()?;
        match parts.len() > PARTS_MAX {
            true => Err(format!("a key has at most {PARTS_MAX} parts")),
            false => Ok(KeyType { parts }),
        }
    }
}

impl KeyType {
    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The bytes of a whole key.
    pub(crate) fn parse(&self, text: &str) -> Result<Vec<u8>, String> {
        let parts = self.split(text)?;
        self.encode(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The bytes that all keys with these first parts start with, or those of a whole key.
    pub(crate) fn parse_beginning(&self, text: &str) -> Result<Vec<u8>, String> {
        let parts = self.split(text)?;
        if parts.len() >= self.parts.len() {
            return self.parse(text);
        }
        let mut key = Vec::new();
        for (part, text) in self.parts.iter().zip(&parts) {
            part.encode(text, Place::Middle, &mut key)?;
        }
        Ok(key)
    }

    /// As `parse_beginning`, and not of a whole key.
    pub(crate) fn parse_prefix(&self, text: &str) -> Result<Vec<u8>, String> {
        match self.split(text)?.len() < self.parts.len() {
            true => self.parse_beginning(text),
            false => Err(format!("give fewer parts than the {} of the key", self.parts.len())),
        }
    }

    /// The bytes of a key whose parts are given one by one.
    pub(crate) fn encode(&self, texts: &[&str]) -> Result<Vec<u8>, String> {
        if texts.len() != self.parts.len() {
            return Err(format!("{} parts, but the type of the key has {}", texts.len(), self.parts.len()));
        }
        let mut key = Vec::new();
        for (index, (part, text)) in self.parts.iter().zip(texts).enumerate() {
            let place = if index + 1 == texts.len() { Place::Last } else { Place::Middle };
            part.encode(text, place, &mut key)?;
        }
        Ok(key)
    }

    /// The text that `parse` makes these bytes of.
    pub(crate) fn show(&self, key: &[u8]) -> Result<String, String> {
        let mut rest = key;
        let mut texts = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let place = if index + 1 == self.parts.len() { Place::Last } else { Place::Middle };
            let text = part.decode(&mut rest, place).map_err(|error| error.to_string())?;
            texts.push(if self.parts.len() > 1 { escaped(&text) } else { text });
        }
        let text = texts.join(",");
        // A number that is not one, for example.
        match self.parse(&text).as_deref() == Ok(key) {
            true => Ok(text),
            false => Err(format!("the key has no text: {} is another one", text.escape_debug())),
        }
    }

    fn split(&self, text: &str) -> Result<Vec<String>, String> {
        if self.parts.len() == 1 {
            return Ok(vec![text.to_owned()]);
        }
        let mut parts = vec![String::new()];
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let part = parts.last_mut().expect("there is one from the beginning");
            match letter {
                ',' => parts.push(String::new()),
                '\\' => match letters.next() {
                    Some(letter @ (',' | '\\')) => part.push(letter),
                    Some('n') => part.push('\n'),
                    Some('r') => part.push('\r'),
                    Some('t') => part.push('\t'),
                    Some('u') => part.push(code_point(&mut letters).ok_or_else(|| refused(text))?),
                    _ => return Err(refused(text)),
                },
                letter => part.push(letter),
            }
        }
        match parts.len() > self.parts.len() {
            true => Err(format!("{} parts, but the type of the key has {}", parts.len(), self.parts.len())),
            false => Ok(parts),
        }
    }
}

fn refused(text: &str) -> String {
    format!("{text:?}: a backslash stands before a comma, a backslash, n, r, t or u{{1b}}")
}

/// The character that `{1b}` stands for.
fn code_point(letters: &mut std::str::Chars<'_>) -> Option<char> {
    let (digits, rest) = letters.as_str().strip_prefix('{')?.split_once('}')?;
    *letters = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// The text of a part, in one printable line.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        ',' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

/// How keys are typed in and shown.
#[derive(Clone, Copy)]
pub(crate) enum KeyNotation<'a> {
    Plain(Notation),
    Typed(&'a KeyType),
}

impl<'a> KeyNotation<'a> {
    pub(crate) fn new(key_type: Option<&'a KeyType>, otherwise: Notation) -> KeyNotation<'a> {
        key_type.map_or(KeyNotation::Plain(otherwise), KeyNotation::Typed)
    }

    /// The key that `text` stands for.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, Failure> {
        match self {
            KeyNotation::Plain(notation) => notation.parse(text),
            KeyNotation::Typed(key_type) => key_type.parse(text).map_err(Failure::Usage),
        }
    }

    /// The key, or what all keys with these first parts start with.
    pub(crate) fn parse_beginning(self, text: &str) -> Result<Vec<u8>, Failure> {
        match self {
            KeyNotation::Plain(notation) => notation.parse(text),
            KeyNotation::Typed(key_type) => key_type.parse_beginning(text).map_err(Failure::Usage),
        }
    }

    /// What keys start with.
    pub(crate) fn parse_prefix(self, text: &str) -> Result<Vec<u8>, Failure> {
        match self {
            KeyNotation::Plain(notation) => notation.parse(text),
            KeyNotation::Typed(key_type) => key_type.parse_prefix(text).map_err(Failure::Usage),
        }
    }

    /// The key on a line of its own.
    pub(crate) fn show(self, key: &[u8]) -> Result<String, Failure> {
        match self {
            KeyNotation::Plain(notation) => Ok(notation.show(key)),
            // What has several parts is escaped already.
            KeyNotation::Typed(key_type) if key_type.part_count() > 1 => text_of(key_type, key),
            KeyNotation::Typed(key_type) => Ok(escape(text_of(key_type, key)?.as_bytes())),
        }
    }

    /// Sets `key` of a JSON object, or `key_hex` where the key is not text.
    pub(crate) fn set(self, object: &mut Map<String, Value>, key: &[u8]) -> Result<(), Failure> {
        match self {
            KeyNotation::Plain(notation) => notation.set(object, "key", key),
            KeyNotation::Typed(key_type) => {
                object.insert("key".to_owned(), text_of(key_type, key)?.into());
            }
        }
        Ok(())
    }
}

/// The text of a key, as `load` reads it.
pub(crate) fn text_of(key_type: &KeyType, key: &[u8]) -> Result<String, Failure> {
    key_type.show(key).map_err(|problem| {
        Failure::Usage(format!("the key {} is not of the type of --key-type: {problem}", to_hexadecimal(key)))
    })
}

/// Where in the key a part is: the end of the key ends the last one.
#[derive(Clone, Copy)]
enum Place {
    Middle,
    Last,
}

impl Place {
    fn encode<K: Key>(self, key: &K, out: &mut Vec<u8>) {
        match self {
            Place::Middle => key.encode(out),
            Place::Last => key.encode_last(out),
        }
    }

    fn decode<K: Key>(self, input: &mut &[u8]) -> Result<K, KeyError> {
        match self {
            Place::Middle => K::decode(input),
            Place::Last => K::decode_last(input),
        }
    }
}

impl Part {
    fn encode(self, text: &str, place: Place, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Part::U8 => parsed::<u8>(text, self, place, out),
            Part::U16 => parsed::<u16>(text, self, place, out),
            Part::U32 => parsed::<u32>(text, self, place, out),
            Part::U64 => parsed::<u64>(text, self, place, out),
            Part::U128 => parsed::<u128>(text, self, place, out),
            Part::I8 => parsed::<i8>(text, self, place, out),
            Part::I16 => parsed::<i16>(text, self, place, out),
            Part::I32 => parsed::<i32>(text, self, place, out),
            Part::I64 => parsed::<i64>(text, self, place, out),
            Part::I128 => parsed::<i128>(text, self, place, out),
            Part::F32 => parsed::<f32>(text, self, place, out),
            Part::F64 => parsed::<f64>(text, self, place, out),
            Part::Bool => parsed::<bool>(text, self, place, out),
            Part::Char => parsed::<char>(text, self, place, out),
            Part::Uuid => parsed::<Uuid>(text, self, place, out),
            Part::Text => parsed::<String>(text, self, place, out),
            Part::Bytes => {
                let bytes = parse_hex(text.as_bytes());
                place.encode(
                    &bytes.map_err(|problem| format!("{text:?} is not hexadecimal: {problem}"))?,
                    out,
                );
                Ok(())
            }
            Part::Time => {
                place.encode(&Timestamp::from_micros(parse_utc(text)?), out);
                Ok(())
            }
        }
    }

    fn decode(self, input: &mut &[u8], place: Place) -> Result<String, KeyError> {
        fn shown<K: Key + Display>(input: &mut &[u8], place: Place) -> Result<String, KeyError> {
            place.decode::<K>(input).map(|key| key.to_string())
        }
        match self {
            Part::U8 => shown::<u8>(input, place),
            Part::U16 => shown::<u16>(input, place),
            Part::U32 => shown::<u32>(input, place),
            Part::U64 => shown::<u64>(input, place),
            Part::U128 => shown::<u128>(input, place),
            Part::I8 => shown::<i8>(input, place),
            Part::I16 => shown::<i16>(input, place),
            Part::I32 => shown::<i32>(input, place),
            Part::I64 => shown::<i64>(input, place),
            Part::I128 => shown::<i128>(input, place),
            Part::F32 => shown::<f32>(input, place),
            Part::F64 => shown::<f64>(input, place),
            Part::Bool => shown::<bool>(input, place),
            Part::Char => shown::<char>(input, place),
            Part::Uuid => shown::<Uuid>(input, place),
            Part::Text => shown::<String>(input, place),
            Part::Bytes => place.decode::<Vec<u8>>(input).map(|bytes| to_hexadecimal(&bytes)),
            Part::Time => place.decode::<Timestamp>(input).map(|time| utc(time.as_micros())),
        }
    }
}

fn parsed<K: Key + FromStr>(text: &str, part: Part, place: Place, out: &mut Vec<u8>) -> Result<(), String> {
    let name = PARTS.iter().find(|(_, known)| *known == part).map_or("", |(name, _)| *name);
    let key = text.parse::<K>().map_err(|_| format!("{text:?} is not a key of type {name}"))?;
    place.encode(&key, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use seawall::key;

    use super::*;

    fn of(text: &str) -> KeyType {
        text.parse().unwrap()
    }

    /// As a program encodes it.
    fn is_encoded<K: Key>(key_type: &str, text: &str, key: &K) {
        let key_type = of(key_type);
        assert_eq!(key_type.parse(text), Ok(key::encode(key)), "{text}");
        assert_eq!(key_type.show(&key::encode(key)).as_deref(), Ok(text));
    }

    #[test]
    fn keys_are_those_of_typed_tables() {
        is_encoded("u8", "255", &255u8);
        is_encoded("u64", "7", &7u64);
        is_encoded("u128", "340282366920938463463374607431768211455", &u128::MAX);
        is_encoded("i64", "-5", &-5i64);
        is_encoded("f64", "-0.1", &-0.1f64);
        is_encoded("f64", "-0", &-0.0f64);
        is_encoded("f32", "inf", &f32::INFINITY);
        is_encoded("bool", "true", &true);
        is_encoded("char", "é", &'é');
        is_encoded("text", "a,\\b", &"a,\\b".to_owned());
        is_encoded("bytes", "00ff", &vec![0u8, 255]);
        is_encoded(
            "uuid",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
            &Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8),
        );
        is_encoded("time", &utc(1_500_000), &Timestamp::from_micros(1_500_000));
        is_encoded("u64,text", "7,north", &(7u64, "north".to_owned()));
        is_encoded("text,i32", "a\\,b\\\\\\n,-1", &("a,b\\\n".to_owned(), -1i32));
        is_encoded("text,text", "\\u{1b},", &("\u{1b}".to_owned(), String::new()));
        is_encoded("text,text", ",", &(String::new(), String::new()));
    }

    #[test]
    fn beginnings_are_those_of_the_keys_that_begin_so() {
        let key_type = of("u64,text,u8");
        let key = key_type.parse("7,north,1").unwrap();
        for beginning in ["7", "7,north", "7,north,1"] {
            assert!(key.starts_with(&key_type.parse_beginning(beginning).unwrap()), "{beginning}");
        }
        assert!(!key.starts_with(&key_type.parse_prefix("7,nor").unwrap()), "a part is whole");
        assert!(key_type.parse_prefix("7,north,1").is_err());
        assert!(of("text").parse_prefix("a").is_err());
    }

    #[test]
    fn what_is_not_of_the_type_is_refused() {
        for (key_type, text) in [
            ("u8", "256"),
            ("u8", ""),
            ("u64", "-1"),
            ("bool", "yes"),
            ("char", "ab"),
            ("uuid", "x"),
            ("bytes", "abc"),
            ("time", "soon"),
            ("u8,u8", "1"),
            ("u8,u8", "1,2,3"),
            ("text,text", "a\\b,c"),
            ("text,text", "a,b\\"),
        ] {
            assert!(of(key_type).parse(text).is_err(), "{key_type}: {text}");
        }
        for wrong in ["", "u7", "u8,", "U8", "u8 ,u8", "u8,u8,u8,u8,u8,u8,u8,u8,u8"] {
            assert!(wrong.parse::<KeyType>().is_err(), "{wrong}");
        }
        // Bytes that no key of the type has, and a number that is none and has no text of its own.
        assert!(of("u64").show(b"short").is_err());
        assert!(of("text").show(b"\xff").is_err());
        assert!(of("f64").show(&key::encode(&f64::from_bits(0x7ff8_0000_0000_0001))).is_err());
    }
}

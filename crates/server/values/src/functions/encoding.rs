//! Bytes as texts and back (`encode`, `decode`, `convert_*`), and hashes.

use std::fmt::Write;
use std::sync::Arc;

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::Table;
use super::arguments::row;
use super::text::bounded;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table = &[
    row!("binary_encode", [Bytea bytes, Text form], encode(bytes, form).map(Datum::text)),
    row!("binary_decode", [Text text, Text form], decode(text, form).map(datum)),
    row!("md5_text", [Text text], Ok(Datum::text(hexadecimal(&Md5::digest(text.as_bytes()))))),
    row!("md5_bytea", [Bytea bytes], Ok(Datum::text(hexadecimal(&Md5::digest(bytes))))),
    row!("sha224_bytea", [Bytea bytes], Ok(datum(Sha224::digest(bytes).to_vec()))),
    row!("sha256_bytea", [Bytea bytes], Ok(datum(Sha256::digest(bytes).to_vec()))),
    row!("sha384_bytea", [Bytea bytes], Ok(datum(Sha384::digest(bytes).to_vec()))),
    row!("sha512_bytea", [Bytea bytes], Ok(datum(Sha512::digest(bytes).to_vec()))),
    row!("pg_convert_from", [Bytea bytes, Text from], {
        Ok(Datum::text(text_of(bytes, encoding(from, "source encoding")?)?))
    }),
    row!("pg_convert_to", [Text text, Text to], {
        Ok(datum(bytes_of(text, encoding(to, "destination encoding")?)?))
    }),
    row!("pg_convert", [Bytea bytes, Text from, Text to], {
        let (from, to) = (encoding(from, "source encoding")?, encoding(to, "destination encoding")?);
        Ok(datum(bytes_of(&text_of(bytes, from)?, to)?))
    }),
    row!("length_in_encoding", [Bytea bytes, Text form], {
        let text = text_of(bytes, encoding(form, "encoding")?)?;
        Ok(Datum::Int4(bounded(text.chars().count())))
    }),
];

fn datum(bytes: Vec<u8>) -> Datum {
    Datum::Bytea(Arc::from(bytes))
}

fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes all that is written");
    }
    text
}

fn encode(bytes: &[u8], form: &str) -> SqlResult<String> {
    if bytes.len() > super::text::BYTES_MAX / 4 {
        return Err(super::text::too_long());
    }
    match form.to_ascii_lowercase().as_str() {
        "hex" => Ok(hexadecimal(bytes)),
        "base64" => Ok(base64(bytes)),
        "escape" => Ok(escaped(bytes)),
        _ => Err(invalid(format!("unrecognized encoding: \"{form}\""))),
    }
}

fn decode(text: &str, form: &str) -> SqlResult<Vec<u8>> {
    match form.to_ascii_lowercase().as_str() {
        "hex" => from_hexadecimal(text),
        "base64" => from_base64(text),
        "escape" => from_escaped(text.as_bytes()),
        _ => Err(invalid(format!("unrecognized encoding: \"{form}\""))),
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\t' | '\r')
}

fn from_hexadecimal(text: &str) -> SqlResult<Vec<u8>> {
    let digit = |character: char| {
        let value = character.to_digit(16).and_then(|value| u8::try_from(value).ok());
        value.ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{character}\"")))
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut characters = text.chars();
    // Spaces may stand between bytes, not within one.
    while let Some(high) = characters.find(|character| !is_space(*character)) {
        let high = digit(high)?;
        let low =
            characters.next().ok_or_else(|| invalid("invalid hexadecimal data: odd number of digits"))?;
        bytes.push(high << 4 | digit(low)?);
    }
    Ok(bytes)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes of a full line of 76 characters.
const BASE64_LINE_BYTES: usize = 57;

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / BASE64_LINE_BYTES + 4);
    for line in bytes.chunks(BASE64_LINE_BYTES) {
        for group in line.chunks(3) {
            let bits = group
                .iter()
                .enumerate()
                .fold(0, |bits, (index, byte)| bits | usize::from(*byte) << (16 - index * 8));
            for index in 0..4 {
                let digit = char::from(BASE64[bits >> (18 - index * 6) & 63]);
                text.push(if index <= group.len() { digit } else { '=' });
            }
        }
        if line.len() == BASE64_LINE_BYTES {
            text.push('\n');
        }
    }
    text
}

fn from_base64(text: &str) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut kept) = (0_u32, 0, 3);
    for character in text.chars().filter(|character| !is_space(*character)) {
        let value = if character == '=' {
            if kept == 3 {
                kept = match count {
                    2 | 3 => count - 1,
                    _ => return Err(invalid("unexpected \"=\" while decoding base64 sequence")),
                };
            }
            0
        } else {
            let place = BASE64.iter().position(|digit| char::from(*digit) == character);
            place.and_then(|place| u32::try_from(place).ok()).ok_or_else(|| {
                invalid(format!("invalid symbol \"{character}\" found while decoding base64 sequence"))
            })?
        };
        bits = bits << 6 | value;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..1 + kept]);
            (bits, count) = (0, 0);
        }
    }
    if count != 0 {
        return Err(invalid("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(bytes)
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 | 128.. => write!(text, "\\{byte:03o}").expect("a string takes all that is written"),
            b'\\' => text.push_str("\\\\"),
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

fn from_escaped(text: &[u8]) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => {
                let message = "invalid input syntax for type bytea";
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
            }
            _ => {
                bytes.push(*byte);
                after
            }
        };
    }
    Ok(bytes)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
    Ascii,
}

/// An encoding by its name, in which only letters and digits count.
fn encoding(name: &str, what: &str) -> SqlResult<Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        "sqlascii" => Ok(Encoding::Ascii),
        known if OTHER_ENCODINGS.contains(&known) => Err(SqlError::unsupported(format!("encoding {name}"))),
        _ => Err(invalid(format!("invalid {what} name \"{name}\""))),
    }
}

/// Encodings that PostgreSQL has and that are refused here.
const OTHER_ENCODINGS: &[&str] = &[
    "abc",
    "alt",
    "big5",
    "euccn",
    "eucjis2004",
    "eucjp",
    "euckr",
    "euctw",
    "gb18030",
    "gbk",
    "iso885910",
    "iso885913",
    "iso885914",
    "iso885915",
    "iso885916",
    "iso88592",
    "iso88593",
    "iso88594",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "iso88599",
    "johab",
    "koi8",
    "koi8r",
    "koi8u",
    "latin10",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "mskanji",
    "muleinternal",
    "shiftjis",
    "shiftjis2004",
    "sjis",
    "tcvn",
    "tcvn5712",
    "uhc",
    "vscii",
    "win",
    "win1250",
    "win1251",
    "win1252",
    "win1253",
    "win1254",
    "win1255",
    "win1256",
    "win1257",
    "win1258",
    "win866",
    "win874",
    "win932",
    "win936",
    "win949",
    "win950",
    "windows1250",
    "windows1251",
    "windows1252",
    "windows1253",
    "windows1254",
    "windows1255",
    "windows1256",
    "windows1257",
    "windows1258",
    "windows866",
    "windows874",
    "windows932",
    "windows936",
    "windows949",
    "windows950",
];

/// How many bytes a first byte of UTF-8 announces.
fn announced_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

/// `22021`: the bytes do not begin with a character.
#[cold]
pub(crate) fn invalid_sequence(rest: &[u8], encoding: &str) -> Box<SqlError> {
    let length = rest.first().map_or(0, |first| announced_length(*first));
    let bytes: Vec<String> = rest.iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"{encoding}\": {}", bytes.join(" "));
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

fn text_of(bytes: &[u8], from: Encoding) -> SqlResult<String> {
    if let Some(zero) = bytes.iter().position(|byte| *byte == 0) {
        let name = if from == Encoding::Latin1 { "LATIN1" } else { "UTF8" };
        let text = std::str::from_utf8(&bytes[..zero]);
        let at = text.map_or_else(|error| error.valid_up_to(), str::len);
        return Err(invalid_sequence(&bytes[if from == Encoding::Latin1 { zero } else { at }..], name));
    }
    if from == Encoding::Latin1 {
        return Ok(bytes.iter().map(|byte| char::from(*byte)).collect());
    }
    let text = std::str::from_utf8(bytes);
    Ok(text.map_err(|error| invalid_sequence(&bytes[error.valid_up_to()..], "UTF8"))?.to_owned())
}

fn bytes_of(text: &str, to: Encoding) -> SqlResult<Vec<u8>> {
    if to != Encoding::Latin1 {
        return Ok(text.as_bytes().to_vec());
    }
    let bytes = text
        .chars()
        .map(|character| u8::try_from(u32::from(character)).map_err(|_| untranslatable(character)));
    bytes.collect()
}

#[cold]
fn untranslatable(character: char) -> Box<SqlError> {
    let mut buffer = [0; 4];
    let bytes: Vec<String> =
        character.encode_utf8(&mut buffer).bytes().map(|byte| format!("0x{byte:02x}")).collect();
    SqlError::new(
        SqlState::UNTRANSLATABLE_CHARACTER,
        format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
            bytes.join(" ")
        ),
    )
}

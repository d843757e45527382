//! The master key: where it comes from and how it is written.
//!
//! It is 32 bytes: as they are, as 64 hexadecimal digits, or as base64 (44 characters, or 43 without the last `=`), the
//! text forms with white space before and after. 32 bytes are always taken as they are.

use std::fmt;
use std::path::PathBuf;

use base64ct::{Base64, Base64Unpadded, Encoding};
use seawall_codec::encryption::{KEY_BYTES, SecretKey};
use zeroize::Zeroizing;

use crate::error::MasterKeyError;

/// Where the master key comes from. It is read when a database is created or opened, and when it changes.
#[derive(Clone, Debug)]
pub enum MasterKey {
    /// A file, which only its owner should be able to read.
    File(PathBuf),
    /// An environment variable of this process.
    Environment(String),
    /// What a command, run by `sh -c`, writes to its standard output within a minute.
    Command(String),
    /// The program has it.
    Bytes(SecretKey),
}

impl fmt::Display for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MasterKey::File(path) => write!(formatter, "file {}", path.display()),
            MasterKey::Environment(name) => write!(formatter, "environment variable {name}"),
            MasterKey::Command(command) => write!(formatter, "command {command:?}"),
            MasterKey::Bytes(_) => formatter.write_str("the program"),
        }
    }
}

impl MasterKey {
    /// Reads the key. A file that others may read is used, with a warning in the log.
    ///
    /// # Errors
    /// `Unreadable`, or `Malformed` if it is not 32 bytes in one of the three forms.
    pub fn read(&self) -> Result<SecretKey, MasterKeyError> {
        let unreadable = |source| MasterKeyError::Unreadable { from: self.to_string(), source };
        let bytes = match self {
            MasterKey::Bytes(key) => return Ok(key.clone()),
            MasterKey::File(path) => {
                let secret = seawall_io::secret_file(path).map_err(unreadable)?;
                if secret.is_open_to_others {
                    tracing::warn!(path = %path.display(), "others may read the master key: take their rights to the \
                        file away, as `chmod 600` does");
                }
                secret.bytes
            }
            MasterKey::Environment(name) => seawall_io::environment_variable(name).map_err(unreadable)?,
            MasterKey::Command(command) => seawall_io::command_output(command).map_err(unreadable)?,
        };
        let bytes = Zeroizing::new(bytes);
        parse(&bytes).map_err(|problem| MasterKeyError::Malformed { from: self.to_string(), problem })
    }
}

fn parse(bytes: &[u8]) -> Result<SecretKey, String> {
    let text = bytes.trim_ascii();
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    match (bytes.len(), text.len()) {
        (0, _) => return Err("empty".to_owned()),
        (KEY_BYTES, _) => key.copy_from_slice(bytes),
        (_, 64) => decode_hex(text, &mut key)?,
        (_, 43) => decode_base64::<Base64Unpadded>(text, &mut key)?,
        (_, 44) => decode_base64::<Base64>(text, &mut key)?,
        (found, _) => return Err(format!("{found} bytes long")),
    }
    // A file of zeros, or a key of `xxxx`: somebody has filled in the form and forgotten the content.
    if key.iter().all(|byte| *byte == key[0]) {
        return Err("the same byte 32 times".to_owned());
    }
    Ok(SecretKey::from_bytes(*key))
}

fn decode_hex(text: &[u8], key: &mut [u8; KEY_BYTES]) -> Result<(), String> {
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digit.ok_or_else(|| "64 characters long, but they are not all hexadecimal digits".to_owned())
    };
    for (byte, pair) in key.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(())
}

fn decode_base64<E: Encoding>(text: &[u8], key: &mut [u8; KEY_BYTES]) -> Result<(), String> {
    let decoded = E::decode(text, &mut key[..]).map(<[u8]>::len);
    let problem = || format!("{} characters long, but they are not 32 bytes in base64", text.len());
    if decoded == Ok(KEY_BYTES) { Ok(()) } else { Err(problem()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn expected() -> [u8; 32] {
        std::array::from_fn(|index| u8::try_from(index).unwrap())
    }

    #[test]
    fn a_key_is_read_in_three_forms() {
        let hex_line = format!(" {HEX}\n");
        let base64_line = format!("{BASE64}\r\n");
        let unpadded = BASE64.trim_end_matches('=');
        let raw = expected();
        for text in [
            &raw[..],
            HEX.as_bytes(),
            hex_line.as_bytes(),
            BASE64.as_bytes(),
            base64_line.as_bytes(),
            unpadded.as_bytes(),
        ] {
            assert_eq!(*parse(text).unwrap().expose(), expected(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn anything_else_is_refused_without_showing_it() {
        let long = [b'a'; 65];
        let zeros = [0; 32];
        let line_after_raw = [&expected()[..], b"\n"].concat();
        let not_hex = HEX.replace('0', "g");
        let not_base64 = BASE64.replace('A', "*");
        for text in [
            &b""[..],
            b"password",
            &long,
            &zeros,
            &line_after_raw,
            not_hex.as_bytes(),
            not_base64.as_bytes(),
            &[b'0'; 64],
        ] {
            let problem = parse(text).unwrap_err();
            assert!(!problem.contains("password") && !problem.contains("ggg"), "{problem}");
        }
    }

    #[test]
    fn a_key_comes_from_a_file_or_a_command() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), HEX).unwrap();
        let sources = [MasterKey::File(file.path().to_owned()), MasterKey::Command(format!("echo {BASE64}"))];
        for source in sources {
            assert_eq!(*source.read().unwrap().expose(), expected(), "{source}");
        }
        for source in [
            MasterKey::File("/nowhere/key".into()),
            MasterKey::Environment("SEAWALL_NOT_SET_ANYWHERE".to_owned()),
            MasterKey::Command("exit 1".to_owned()),
        ] {
            let error = source.read().unwrap_err();
            assert!(matches!(error, MasterKeyError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains(&source.to_string()), "{error}");
        }
        let malformed = MasterKey::Command("echo secret".to_owned()).read().unwrap_err();
        assert!(matches!(malformed, MasterKeyError::Malformed { .. }), "{malformed}");
    }
}

//! What is kept of a password: the verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677), as `pg_authid.rolpassword` has it.
//!
//! ```text
//!   SCRAM-SHA-256$4096:<salt>$<StoredKey>:<ServerKey>       the three in base64
//! ```
//! It verifies a password and does not give it away: whoever reads it can neither log in with it nor, but for guessing, find the password.

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;
/// As PostgreSQL's.
pub const ITERATIONS: u32 = 4096;
/// As PostgreSQL's.
pub const SALT_BYTES: usize = 16;

const MECHANISM: &str = "SCRAM-SHA-256";

/// A SHA-256 hash.
pub type Hash = [u8; HASH_BYTES];

/// The verifier of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// How often the password was hashed.
    pub iterations: u32,
    /// What it was hashed with.
    pub salt: Vec<u8>,
    /// The hash of the client's key: verifies the client's proof.
    pub stored_key: Hash,
    /// Signs the server's answer.
    pub server_key: Hash,
}

/// A text is no verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no SCRAM-SHA-256 verifier")]
pub struct NotAVerifier;

impl Verifier {
    /// The verifier of a password, with a salt that nobody has used before.
    pub fn of_password(password: &str, salt: &[u8; SALT_BYTES]) -> Verifier {
        let prepared = stringprep::saslprep(password);
        // As PostgreSQL: what cannot be prepared is taken as it is.
        let password = prepared.as_deref().unwrap_or(password);
        let salted = salted_password(password.as_bytes(), salt, ITERATIONS);
        let client_key = signed(&salted, &[b"Client Key"]);
        Verifier {
            iterations: ITERATIONS,
            salt: salt.to_vec(),
            stored_key: hashed(&client_key),
            server_key: signed(&salted, &[b"Server Key"]),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored_key, server_key] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(Base64::encode_string);
        write!(formatter, "{MECHANISM}${}:{salt}${stored_key}:{server_key}", self.iterations)
    }
}

/// It is worth guessing at: no log has it.
impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verifier(hidden)")
    }
}

impl FromStr for Verifier {
    type Err = NotAVerifier;

    fn from_str(text: &str) -> Result<Verifier, NotAVerifier> {
        let mut parts = text.split('$');
        let (mechanism, salted, keys, end) = (parts.next(), parts.next(), parts.next(), parts.next());
        if mechanism != Some(MECHANISM) || end.is_some() {
            return Err(NotAVerifier);
        }
        let (iterations, salt) = salted.and_then(|part| part.split_once(':')).ok_or(NotAVerifier)?;
        let (stored_key, server_key) = keys.and_then(|part| part.split_once(':')).ok_or(NotAVerifier)?;
        let iterations = iterations.parse().ok().filter(|count| *count > 0).ok_or(NotAVerifier)?;
        let bytes = |text: &str| Base64::decode_vec(text).map_err(|_| NotAVerifier);
        let hash = |text: &str| Hash::try_from(bytes(text)?).map_err(|_| NotAVerifier);
        Ok(Verifier {
            iterations,
            salt: bytes(salt)?,
            stored_key: hash(stored_key)?,
            server_key: hash(server_key)?,
        })
    }
}

/// HMAC-SHA-256 of `parts`, one after the other.
pub fn signed(key: &[u8], parts: &[&[u8]]) -> Hash {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// SHA-256.
pub fn hashed(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// PBKDF2 with HMAC-SHA-256, one block: a client computes this of its password.
pub fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Hash {
    let key = keyed(password);
    let sign = |parts: &[&[u8]]| -> Hash {
        let mut mac = key.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    };
    let mut last = sign(&[salt, &1_u32.to_be_bytes()]);
    let mut result = last;
    for _ in 1..iterations {
        last = sign(&[&last]);
        result.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
    }
    result
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of HMAC has any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by PostgreSQL 15 of the password `pencil`.
    const OF_POSTGRESQL: &str = "SCRAM-SHA-256$4096:sMHoCwKnufdzVIZslJn1Vw==$miMhk7j3byoJQX6/Y8fCmPu3zIbP1PXnVgBYu2SmMxY=:6GSXGt36RyJjUyDVtrXOQQEO35tnKFYdeMJMc8Njsto=";

    #[test]
    fn a_verifier_is_as_postgresql_makes_it() {
        let known: Verifier = OF_POSTGRESQL.parse().unwrap();
        assert_eq!(known.to_string(), OF_POSTGRESQL);
        let salt: [u8; SALT_BYTES] = known.salt.clone().try_into().unwrap();
        assert_eq!(Verifier::of_password("pencil", &salt), known);
        assert_ne!(Verifier::of_password("Pencil", &salt), known);
    }

    /// A non-breaking space is a space, a soft hyphen nothing.
    #[test]
    fn a_password_is_prepared() {
        let salt = [7; SALT_BYTES];
        assert_eq!(Verifier::of_password("a\u{a0}b\u{ad}c", &salt), Verifier::of_password("a bc", &salt));
    }

    #[test]
    fn other_texts_are_no_verifiers() {
        for text in [
            "",
            "md5abc",
            "SCRAM-SHA-256$4096",
            "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
            "SCRAM-SHA-256$4096:AA$A:A",
        ] {
            assert_eq!(text.parse::<Verifier>(), Err(NotAVerifier), "{text}");
        }
    }
}

//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows a password, and the server that it has the verifier.
//!
//! ```text
//!   client: n,,n=user,r=<client's nonce>
//!   server: r=<both nonces>,s=<salt>,i=<iterations>
//!   client: c=biws,r=<both nonces>,p=<proof>
//!   server: v=<signature>
//! ```
//! Pure: messages in, messages out. A role that does not exist, or has no password, gets the same questions, with a salt that is the same for
//! each attempt, and fails at the end: a stranger does not learn which roles there are.

use base64ct::{Base64, Encoding};
use seawall_sql::password::{HASH_BYTES, Hash, ITERATIONS, SALT_BYTES, Verifier, hashed, signed};
use seawall_values::SqlResult;

use crate::protocol::frontend::violation;

pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// Bytes of the server's part of the nonce, as PostgreSQL's.
pub(crate) const NONCE_BYTES: usize = 18;

/// An exchange after the server's first message.
pub(crate) struct Exchange {
    verifier: Verifier,
    is_mock: bool,
    /// What the client's last message must repeat: the header of its first one.
    header: String,
    nonce: String,
    first_messages: String,
}

/// The verifier of a role that has none: nobody has its password.
pub(crate) fn mock_verifier(secret: &Hash, user: &str) -> Verifier {
    let mut salt = signed(secret, &[user.as_bytes()]).to_vec();
    salt.truncate(SALT_BYTES);
    Verifier { iterations: ITERATIONS, salt, stored_key: [0; HASH_BYTES], server_key: [0; HASH_BYTES] }
}

/// Takes the client's first message; returns the server's. `verifier`: none of a role that cannot log in with a password.
pub(crate) fn begin(
    first: &[u8],
    verifier: Option<Verifier>,
    mock: impl FnOnce() -> Verifier,
    server_nonce: &[u8; NONCE_BYTES],
) -> SqlResult<(Exchange, String)> {
    let first = text(first)?;
    // Of channel binding: not supported, or supported and not offered by this server.
    let rest = first.strip_prefix("n,").or_else(|| first.strip_prefix("y,"));
    let rest = match (rest, first.starts_with("p=")) {
        (Some(rest), _) => rest,
        (None, true) => {
            return Err(malformed(
                "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.",
            ));
        }
        (None, false) => return Err(malformed("Unexpected channel-binding flag.")),
    };
    if rest.starts_with("a=") {
        return Err(malformed("The client uses authorization identity, but it is not supported."));
    }
    let bare = rest.strip_prefix(',').ok_or_else(|| malformed("Expected a comma."))?;
    let header = first.strip_suffix(bare).unwrap_or_default().to_owned();
    let (_user, nonce) = bare
        .strip_prefix("n=")
        .and_then(|named| named.split_once(",r="))
        .ok_or_else(|| malformed("Expected attributes n and r."))?;
    let nonce = nonce.split(',').next().unwrap_or_default();
    if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(malformed("A nonce has printable characters, and no other."));
    }
    let nonce = format!("{nonce}{}", Base64::encode_string(server_nonce));
    let is_mock = verifier.is_none();
    let verifier = verifier.unwrap_or_else(mock);
    let answer = format!("r={nonce},s={},i={}", Base64::encode_string(&verifier.salt), verifier.iterations);
    let first_messages = format!("{bare},{answer}");
    Ok((Exchange { verifier, is_mock, header, nonce, first_messages }, answer))
}

impl Exchange {
    /// Takes the client's last message; returns the server's, or `None`: the password is wrong.
    pub(crate) fn finish(&self, last: &[u8]) -> SqlResult<Option<String>> {
        let last = text(last)?;
        let (without_proof, proof) =
            last.rsplit_once(",p=").ok_or_else(|| malformed("Expected attribute p at the end."))?;
        let (binding, nonce) = without_proof
            .strip_prefix("c=")
            .and_then(|bound| bound.split_once(",r="))
            .ok_or_else(|| malformed("Expected attributes c and r."))?;
        let nonce = nonce.split(',').next().unwrap_or_default();
        if binding != Base64::encode_string(self.header.as_bytes()) {
            return Err(malformed("unexpected SCRAM channel-binding attribute in client-final-message"));
        }
        if nonce != self.nonce {
            return Err(malformed("Nonce does not match."));
        }
        let proof = Base64::decode_vec(proof).ok().and_then(|bytes| Hash::try_from(bytes).ok());
        let proof = proof.ok_or_else(|| malformed("Malformed proof in client-final-message."))?;

        let signed_parts: [&[u8]; 3] = [self.first_messages.as_bytes(), b",", without_proof.as_bytes()];
        let mut client_key = signed(&self.verifier.stored_key, &signed_parts);
        client_key.iter_mut().zip(proof).for_each(|(byte, other)| *byte ^= other);
        let is_right = is_equal(&hashed(&client_key), &self.verifier.stored_key);
        let signature = signed(&self.verifier.server_key, &signed_parts);
        let is_accepted = is_right & !self.is_mock;
        Ok(is_accepted.then(|| format!("v={}", Base64::encode_string(&signature))))
    }
}

/// Takes the same time wherever the two differ.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (byte, other)| difference | (byte ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

fn text(message: &[u8]) -> SqlResult<&str> {
    let text = std::str::from_utf8(message).map_err(|_| malformed("The message is not UTF-8."))?;
    match text.contains('\0') {
        true => Err(malformed("Message length does not match input length.")),
        false => Ok(text),
    }
}

fn malformed(detail: &str) -> Box<seawall_values::SqlError> {
    violation("malformed SCRAM message").with_detail(detail)
}

#[cfg(test)]
mod tests {
    use seawall_sql::password::salted_password;

    use super::*;

    const SECRET: Hash = [9; HASH_BYTES];

    fn verifier() -> Verifier {
        Verifier::of_password("pencil", &[1; SALT_BYTES])
    }

    fn begun(first: &[u8], verifier: Option<Verifier>) -> SqlResult<(Exchange, String)> {
        begin(first, verifier, || mock_verifier(&SECRET, "alice"), &[2; NONCE_BYTES])
    }

    /// The client's side.
    fn last_message(password: &str, header: &str, first_bare: &str, answer: &str) -> String {
        let part = |name: &str| answer.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
        let salt = Base64::decode_vec(part("s=")).unwrap();
        let salted = salted_password(password.as_bytes(), &salt, part("i=").parse().unwrap());
        let client_key = signed(&salted, &[b"Client Key"]);
        let without_proof = format!("c={},r={}", Base64::encode_string(header.as_bytes()), part("r="));
        let parts = format!("{first_bare},{answer},{without_proof}");
        let mut proof = signed(&hashed(&client_key), &[parts.as_bytes()]);
        proof.iter_mut().zip(client_key).for_each(|(byte, other)| *byte ^= other);
        format!("{without_proof},p={}", Base64::encode_string(&proof))
    }

    #[test]
    fn the_right_password_is_accepted_and_no_other() {
        for header in ["n,,", "y,,"] {
            for (password, expected) in [("pencil", true), ("Pencil", false), ("", false)] {
                let first = format!("{header}n=,r=abc");
                let (exchange, answer) = begun(first.as_bytes(), Some(verifier())).unwrap();
                let last = last_message(password, header, "n=,r=abc", &answer);
                assert_eq!(exchange.finish(last.as_bytes()).unwrap().is_some(), expected, "{password}");
            }
        }
    }

    #[test]
    fn an_unknown_role_is_asked_the_same_and_fails() {
        let (exchange, answer) = begun(b"n,,n=,r=abc", None).unwrap();
        let (_, again) = begun(b"n,,n=,r=abc", None).unwrap();
        assert_eq!(answer, again);
        let last = last_message("pencil", "n,,", "n=,r=abc", &answer);
        assert_eq!(exchange.finish(last.as_bytes()).unwrap(), None);
    }

    #[test]
    fn malformed_messages_are_refused() {
        for first in [
            &b""[..],
            b"n",
            b"p=tls-unique,,n=,r=abc",
            b"n,a=x,n=,r=abc",
            b"n,,r=abc",
            b"n,,n=,r=",
            b"\xff",
            b"n,,n=,r=a\0",
        ] {
            assert!(begun(first, Some(verifier())).is_err(), "{first:?}");
        }
        let (exchange, answer) = begun(b"n,,n=,r=abc", Some(verifier())).unwrap();
        let good = last_message("pencil", "n,,", "n=,r=abc", &answer);
        for last in [
            String::new(),
            good.replace("c=biws", "c=eSws"),
            good.replace("r=abc", "r=abd"),
            format!("{good}x"),
            good.replace(",p=", ",q="),
        ] {
            assert!(exchange.finish(last.as_bytes()).is_err(), "{last}");
        }
    }
}

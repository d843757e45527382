//! What the bytes of a client mean, without a server: for whoever looks at recorded ones, and for fuzzers.

use bytes::BytesMut;
use seawall_values::SqlResult;

use super::frontend::{self, Frame, next_frame};
use super::startup_packet::{StartupPacket, next_packet};
use crate::scram;
use crate::startup::options;

/// Longer messages are refused.
const BYTES_MAX: usize = 1 << 20;

/// Each message of a client's `bytes` as one line, from the start-up packet on, as the server understands them. After the last line
/// there is nothing that is a message, or not all of one.
pub fn explain(bytes: &[u8]) -> Vec<String> {
    let mut input = BytesMut::from(bytes);
    let mut lines = Vec::new();
    loop {
        match next_packet(&mut input) {
            Ok(Some(packet)) => {
                lines.push(format!("{packet:?}"));
                match packet {
                    StartupPacket::Startup { parameters, .. } => {
                        lines.extend(
                            parameters.get("options").map(|text| format!("{:?}", options::parse(text))),
                        );
                        break;
                    }
                    StartupPacket::Cancel { .. } => return lines,
                    StartupPacket::TlsRequest | StartupPacket::GssapiRequest => {}
                }
            }
            Ok(None) => return lines,
            Err(error) => {
                lines.push(error.to_string());
                return lines;
            }
        }
    }
    let mut exchange = None;
    loop {
        match next_frame(&mut input, BYTES_MAX) {
            Ok(Some(frame)) => lines.push(explained(&frame, &mut exchange)),
            Ok(None) => return lines,
            Err(error) => {
                lines.push(format!("{error:?}"));
                return lines;
            }
        }
    }
}

fn explained(frame: &Frame, exchange: &mut Option<scram::Exchange>) -> String {
    let body = &frame.body[..];
    match frame.kind {
        b'Q' => format!("Query {:?}", frontend::text(body)),
        b'f' => format!("CopyFail {:?}", frontend::text(body)),
        b'P' => format!("{:?}", frontend::parse(body)),
        b'B' => format!("{:?}", frontend::bind(body)),
        b'D' => format!("Describe {:?}", frontend::target(body, "DESCRIBE")),
        b'C' => format!("Close {:?}", frontend::target(body, "CLOSE")),
        b'E' => format!("{:?}", frontend::execute(body)),
        b'd' => format!("CopyData of {} bytes", body.len()),
        b'p' => format!("{:?}", authentication(body, exchange)),
        kind => format!("{} {:?}", char::from(kind), frontend::empty(body)),
    }
}

/// A message of a login with a password that nobody has.
fn authentication(body: &[u8], exchange: &mut Option<scram::Exchange>) -> SqlResult<Option<String>> {
    if let Some(begun) = exchange {
        return begun.finish(body);
    }
    let (_mechanism, first) = frontend::sasl_initial(body)?;
    let mock = || scram::mock_verifier(&[0; 32], "nobody");
    let (begun, answer) = scram::begin(first.unwrap_or_default(), None, mock, &[0; scram::NONCE_BYTES])?;
    *exchange = Some(begun);
    Ok(Some(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_length(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len() + 4).unwrap().to_be_bytes(), bytes].concat()
    }

    #[test]
    fn a_session_is_explained() {
        let tls = with_length(&80_877_103_u32.to_be_bytes());
        let startup = with_length(b"\0\x03\0\0user\0bob\0options\0-c\0\0");
        let lines = explain(&[&tls[..], &startup, b"Q\0\0\0\x06a\0X\0\0\0\x04?"].concat());
        let starts = ["TlsRequest", "Startup", "Err(", "Query Ok(\"a\")", "X Ok(())", "Kind(63)"];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    }
}

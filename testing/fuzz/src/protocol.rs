//! What a client of the SQL server sends, and the rules of who may connect.

use seawall_server::{AccessRule, explain};

use crate::input::Entries;

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("protocol", protocol), ("access_rule", access_rule)];

/// All bytes of a client, from its start-up packet to its end. No message is less than four bytes, whatever it says.
pub fn protocol(data: &[u8]) {
    let lines = explain(data);
    assert!(lines.len() <= data.len() / 4 + 2, "{} lines of {} bytes", lines.len(), data.len());
}

/// A rule. One that is accepted is the same when it was written.
pub fn access_rule(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(rule) = text.parse::<AccessRule>() {
        assert_eq!(rule.to_string().parse::<AccessRule>().as_ref(), Ok(&rule));
    }
}

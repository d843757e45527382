//! How much log is kept for standbys: by slots at most, and without any.

use seawall_settings::{Settings, parse_bytes};

use crate::failure::Failure;

const LIMIT: &str = "server.max_slot_wal_keep_size";

/// The limit in bytes; `None`: there is none.
pub(super) fn limit(settings: &Settings) -> Result<Option<u64>, Failure> {
    match settings.text(LIMIT) {
        None | Some("0" | "-1") => Ok(None),
        Some(text) => parse_bytes(text)
            .map(Some)
            .map_err(|problem| Failure::Usage(format!("{}: {LIMIT}: {problem}", settings.origin(LIMIT)))),
    }
}

/// Bytes of the newest log that are kept in any case.
pub(super) fn kept(settings: &Settings) -> u64 {
    settings.bytes("server.wal_keep_size").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_or_none() {
        let of = |text: &str| limit(&Settings::parse(text, "the file").unwrap());
        let set = |value: &str| of(&format!("[server]\nmax_slot_wal_keep_size = \"{value}\""));
        assert_eq!(of("").unwrap(), None);
        assert_eq!((set("0").unwrap(), set("-1").unwrap()), (None, None));
        assert_eq!(set("64GiB").unwrap(), Some(64 << 30));
        let parsed = Settings::parse("[server]\nwal_keep_size = \"1GiB\"", "the file").unwrap();
        assert_eq!((kept(&parsed), kept(&Settings::parse("", "the file").unwrap())), (1 << 30, 0));
        let error = set("-2").unwrap_err().to_string();
        assert!(error.contains("server.max_slot_wal_keep_size: expected a number of bytes"), "{error}");
    }
}

//! Values as users write them: times, numbers of bytes, compressions.

use std::time::Duration;

use seawall_archive::{Compression, Packing};

/// A number and one of `s`, `m`, `h`, `d` and `w`.
///
/// # Errors
/// What is expected.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let refuse = || "expected a number and s, m, h, d or w, such as 36h or 14d".to_owned();
    let unit = text.chars().last().ok_or_else(refuse)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(refuse()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| refuse())?;
    number
        .checked_mul(seconds)
        .filter(|seconds| *seconds < 1 << 40)
        .map(Duration::from_secs)
        .ok_or_else(refuse)
}

/// A number of bytes, more than none, with or without a unit.
///
/// # Errors
/// What is expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let refuse = || "expected a number of bytes, such as 500MiB, 64GiB or 1TiB".to_owned();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" => 1,
        "MiB" | "MB" => 1 << 20,
        "GiB" | "GB" => 1 << 30,
        "TiB" | "TB" => 1_u64 << 40,
        _ => return Err(refuse()),
    };
    let number: u64 = number.parse().map_err(|_| refuse())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(refuse)
}

/// How objects are compressed: `none`, `lz4`, `zstd` or `zstd:LEVEL`.
///
/// # Errors
/// What is expected.
pub fn parse_compression(text: &str) -> Result<Packing, String> {
    let default = Packing::default();
    let refuse = || "expected none, lz4, zstd, or zstd:1 to zstd:19".to_owned();
    let (name, level) = match text.split_once(':') {
        None => (text, None),
        Some((name, level)) => (name, Some(level.parse::<i32>().map_err(|_| refuse())?)),
    };
    match (name, level) {
        ("none", None) => Ok(Packing { compression: Compression::None, ..default }),
        ("lz4", None) => Ok(Packing { compression: Compression::Lz4, ..default }),
        ("zstd", None) => Ok(Packing { compression: Compression::Zstd, ..default }),
        ("zstd", Some(zstd_level)) if (1..=19).contains(&zstd_level) => {
            Ok(Packing { compression: Compression::Zstd, zstd_level })
        }
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("30m", 1800), ("36h", 129_600), ("14d", 1_209_600), ("4w", 2_419_200)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "d", "7", "-1d", "1.5h", "1y", "99999999999999999d", "7\u{e9}"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!(parse_bytes("64GiB"), Ok(64 << 30));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for text in ["", "7 bananas", "99999999TiB", "0", "-1", "GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn compressions_have_a_name_and_zstd_a_level() {
        assert_eq!(parse_compression("zstd:7").map(|packing| packing.zstd_level), Ok(7));
        for text in ["none", "lz4", "zstd", "zstd:19"] {
            assert!(parse_compression(text).is_ok(), "{text}");
        }
        for text in ["", "gzip", "zstd:20", "zstd:", "lz4:3"] {
            assert!(parse_compression(text).is_err(), "{text}");
        }
    }
}

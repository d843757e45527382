//! A PostgreSQL that is installed here: its programs, and who may run them.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// `SEAWALL_POSTGRESQL` names the directory of its programs; else it is looked for where Debian puts them, and in the PATH.
pub(crate) fn programs() -> Result<PathBuf, String> {
    if let Some(directory) = std::env::var_os("SEAWALL_POSTGRESQL") {
        return Ok(directory.into());
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut releases: Vec<PathBuf> = debian.map(|entry| entry.unwrap().path().join("bin")).collect();
    releases.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = releases.into_iter().rev().chain(std::env::split_paths(&path));
    let mut places = places.filter(|place| place.join("initdb").is_file() && place.join("pgbench").is_file());
    places.next().ok_or_else(|| "PostgreSQL is not installed (or set SEAWALL_POSTGRESQL)".to_owned())
}

/// Somebody else than root, if we are root.
pub(crate) fn unprivileged() -> Result<Option<(u32, u32)>, String> {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    if own != 0 {
        return Ok(None);
    }
    let number = |flag: &str| -> Option<u32> {
        let output = Command::new("id").args([flag, "postgres"]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match (number("-u"), number("-g")) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        _ => Err("PostgreSQL does not run as root, and there is no user postgres".to_owned()),
    }
}

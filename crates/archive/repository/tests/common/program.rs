//! Programs of others that tests run: found, or installed where `SEAWALL_TEST_INSTALL=1` asks for it, or else the test says why it is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_testing::Need;

/// Where stores are installed that the machine does not have.
pub(crate) fn installed_stores() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("stores")
}

/// The program `name`: what the environment variable says, or one in the PATH or in `place`, where else `install` puts it.
/// The reason, where it cannot be had.
pub(crate) fn find_or_install(
    variable: &str,
    name: &str,
    place: &Path,
    install: &mut Command,
) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain([place.to_owned()]);
    if let Some(found) = places.find(|place| place.join(name).is_file()) {
        return Ok(found.join(name));
    }
    let program = place.join(name);
    seawall_testing::install(&program, install)?;
    Ok(program)
}

/// Says that a test is skipped, and why, where there is no such program.
pub(crate) fn or_skipped(program: &Result<PathBuf, String>) -> Option<&Path> {
    match program {
        Ok(program) => Some(program),
        Err(reason) => {
            Need::Stores.skip(reason);
            None
        }
    }
}

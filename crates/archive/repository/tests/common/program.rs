//! Programs of others that tests run: found, or installed where `SEAWALL_TEST_INSTALL=1` asks for it, or else the test says why it is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seawall_testing::Need;

const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);

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
    if std::env::var_os("SEAWALL_TEST_INSTALL").is_none_or(|value| value != "1") {
        return Err(format!("{name} is not installed; SEAWALL_TEST_INSTALL=1 lets {install:?} install it"));
    }
    installed(install).map_err(|problem| format!("{name} is not installed: {install:?}: {problem}"))?;
    Ok(place.join(name))
}

/// Runs what installs a program, which may download much and gets five minutes for that.
#[expect(clippy::disallowed_methods, reason = "the time that an installation takes, and no test")]
fn installed(install: &mut Command) -> Result<(), String> {
    let messages = tempfile::NamedTempFile::new().unwrap();
    install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.reopen().unwrap());
    let mut child = install.spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() < INSTALL_TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
            None => {
                child.kill().and_then(|()| child.wait()).unwrap();
                return Err(format!("not done after {INSTALL_TIMEOUT:?}"));
            }
        }
    };
    let said = std::fs::read_to_string(messages.path()).unwrap();
    if status.success() { Ok(()) } else { Err(said.lines().last().unwrap_or_default().to_owned()) }
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

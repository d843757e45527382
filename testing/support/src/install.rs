//! Programs and packages of others that tests install where `SEAWALL_TEST_INSTALL=1` asks for it.

use std::fs::OpenOptions;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Makes sure that `file` is there, which `install` makes if `SEAWALL_TEST_INSTALL=1` allows it. Tests of several processes may ask
/// at one time: one of them installs.
///
/// # Errors
/// The reason why it is not there.
pub fn install(file: &Path, install: &mut Command) -> Result<(), String> {
    if file.exists() {
        return Ok(());
    }
    let name = file.file_name().unwrap_or_default().display().to_string();
    if std::env::var_os("SEAWALL_TEST_INSTALL").is_none_or(|value| value != "1") {
        return Err(format!("{name} is not installed; SEAWALL_TEST_INSTALL=1 lets {install:?} install it"));
    }
    let lock = locked(file).map_err(|error| format!("{name} is not installed: {error}"))?;
    let made = if file.exists() { Ok(()) } else { run(install) };
    drop(lock);
    made.map_err(|problem| format!("{name} is not installed: {install:?}: {problem}"))?;
    if file.exists() { Ok(()) } else { Err(format!("{name} is not installed: {install:?} did not make it")) }
}

/// A lock for the place of `file`, until it is dropped.
fn locked(file: &Path) -> std::io::Result<std::fs::File> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    let name = format!("seawall-install-{:016x}.lock", hasher.finish());
    let lock = OpenOptions::new().create(true).append(true).open(std::env::temp_dir().join(name))?;
    lock.lock()?;
    Ok(lock)
}

/// Runs what may download much, and gets five minutes for that.
#[expect(clippy::disallowed_methods, reason = "the time that an installation takes, and no test")]
fn run(install: &mut Command) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut messages = tempfile::tempfile().map_err(text)?;
    install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.try_clone().map_err(text)?);
    let mut child = install.spawn().map_err(text)?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(text)? {
            Some(status) => break status,
            None if begun.elapsed() < INSTALL_TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
            None => {
                child.kill().and_then(|()| child.wait()).map_err(text)?;
                return Err(format!("not done after {INSTALL_TIMEOUT:?}"));
            }
        }
    };
    let mut said = String::new();
    messages.rewind().and_then(|()| messages.read_to_string(&mut said)).map_err(text)?;
    if status.success() { Ok(()) } else { Err(said.lines().last().unwrap_or_default().to_owned()) }
}

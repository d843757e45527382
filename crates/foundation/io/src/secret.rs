//! Secrets from outside the database: a file, an environment variable, or what a command prints. What they mean is not
//! known here.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::error::DiskError;

/// A longer secret is refused, so that a wrong path or command costs no memory.
pub const SECRET_BYTES_MAX: usize = 4096;
/// Rights of a secret file that let others than its owner have the secret.
pub const OPEN_TO_OTHERS: u32 = 0o077;

/// A command that has not ended after this long is killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// What was read, and who else can.
#[derive(Debug)]
pub struct Secret {
    /// The bytes, all of them.
    pub bytes: Vec<u8>,
    /// Users other than the owner may read it, as far as the file's mode says.
    pub is_open_to_others: bool,
}

/// Reads the whole file at `path`, which may be a pipe.
///
/// # Errors
/// What opening or reading says, with the path; `InvalidData` if it is longer than [`SECRET_BYTES_MAX`].
pub fn secret_file(path: &Path) -> io::Result<Secret> {
    let named = |operation, error| DiskError::wrap(operation, path.display().to_string(), error);
    #[expect(
        clippy::disallowed_methods,
        reason = "io opens files; this one is outside of the database's directory"
    )]
    let file = File::open(path).map_err(|error| named("open", error))?;
    let mode = file.metadata().map_err(|error| named("metadata", error))?.mode();
    let bytes = read_bounded(file).map_err(|error| named("read", error))?;
    Ok(Secret { bytes, is_open_to_others: mode & OPEN_TO_OTHERS != 0 })
}

/// The bytes of an environment variable of this process.
///
/// # Errors
/// `NotFound` if it is not set, `InvalidData` if it is longer than [`SECRET_BYTES_MAX`].
pub fn environment_variable(name: &str) -> io::Result<Vec<u8>> {
    let has_no_name = name.is_empty() || name.contains(['=', '\0']);
    let value = if has_no_name { None } else { std::env::var_os(name) };
    let value = value.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not set"))?;
    let bytes = value.into_vec();
    if bytes.len() > SECRET_BYTES_MAX { Err(too_long()) } else { Ok(bytes) }
}

/// Runs `command` with `sh -c` and returns what it writes to its standard output. It gets no input; its standard error
/// is that of this process, so that what it complains about is seen.
///
/// # Errors
/// If it cannot be started or ends with a status other than 0; `TimedOut` if it runs for a minute; `InvalidData` if it
/// prints more than [`SECRET_BYTES_MAX`].
pub fn command_output(command: &str) -> io::Result<Vec<u8>> {
    output_within(command, COMMAND_TIMEOUT)
}

fn output_within(command: &str, timeout: Duration) -> io::Result<Vec<u8>> {
    let mut child =
        Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("its standard output was asked for");
    // The pipe has no time-out of its own. If the command has handed it to another process that lives on, this thread
    // stays until that one ends.
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || sender.send(read_bounded(output)));
    let read = receiver.recv_timeout(timeout).unwrap_or_else(|error| {
        let kind = match error {
            RecvTimeoutError::Timeout => io::ErrorKind::TimedOut,
            RecvTimeoutError::Disconnected => io::ErrorKind::BrokenPipe,
        };
        Err(io::Error::new(kind, format!("it has not ended after {} s and was killed", timeout.as_secs())))
    });
    if read.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    match read {
        Ok(_) if !status.success() => Err(io::Error::other(format!("it failed: {status}"))),
        other => other,
    }
}

fn read_bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = SECRET_BYTES_MAX as u64 + 1;
    source.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > SECRET_BYTES_MAX { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {SECRET_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_file_is_read_with_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"secret").unwrap();
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let secret = secret_file(file.path()).unwrap();
            assert_eq!((secret.bytes.as_slice(), secret.is_open_to_others), (&b"secret"[..], open));
        }
        std::fs::write(file.path(), [1; SECRET_BYTES_MAX + 1]).unwrap();
        assert_eq!(secret_file(file.path()).unwrap_err().kind(), ErrorKind::InvalidData);
        let missing = secret_file(Path::new("/nowhere/key")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/key"), "{missing}");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(secret_file(Path::new("/")).is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_told() {
        assert!(!environment_variable("PATH").unwrap().is_empty());
        for name in ["SEAWALL_NOT_SET_ANYWHERE", "", "A=B", "A\0B"] {
            assert_eq!(environment_variable(name).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_command_prints_fails_or_is_killed() {
        assert_eq!(command_output("printf secret").unwrap(), b"secret");
        assert_eq!(command_output("cat").unwrap(), b"");
        let failed = command_output("printf secret; exit 3").unwrap_err();
        assert!(failed.to_string().contains('3'), "{failed}");
        let missing = command_output("/nowhere/command 2>/dev/null").unwrap_err();
        assert!(missing.to_string().contains("127"), "{missing}");
        let endless = command_output("while true; do echo more; done 2>/dev/null").unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::InvalidData);
        let slow = output_within("exec sleep 100", Duration::from_millis(20)).unwrap_err();
        assert_eq!(slow.kind(), ErrorKind::TimedOut);
    }
}

//! Tests that mount a small disk: each runs once more in mounts of its own. That takes root, or a system that lets everybody have that.

use std::process::{Command, Output};

use seawall_testing::Need;

const INSIDE: &str = "SEAWALL_TEST_INSIDE";

/// Runs `test`, which has this name, where what it mounts is nobody else's.
pub(crate) fn in_own_mounts(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", program]);
        command
    };
    let reason = match unshare("true").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(said(&output)),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = reason {
        Need::SmallDisk.skip(reason);
        return;
    }
    let own = std::env::current_exe().unwrap();
    let mut command = unshare(own.to_str().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(INSIDE, "yes");
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}\n{}", said(&output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

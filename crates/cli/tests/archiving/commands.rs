//! What people and programs see of the archive commands: warnings, files of statistics.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::cluster::{Cluster, code, is_done, message};

/// A directory of statistics belongs to the user of whatever reads them: a link there must not lead a more powerful writer elsewhere.
#[test]
fn statistics_are_not_written_through_a_link() {
    let mut cluster = Cluster::new(1);
    let (file, victim) = (cluster.place("seawall.prom"), cluster.place("victim"));
    std::fs::write(&victim, b"precious").unwrap();
    symlink(&victim, cluster.place("seawall.new")).unwrap();
    symlink(&victim, &file).unwrap();
    cluster.options = vec![format!("--prometheus-file={file}")];
    is_done(&cluster.push(&cluster.log.name(0)));
    seawall_testing::wait_until("the statistics", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("seawall_archive_lag_segments"))
    });
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!std::fs::symlink_metadata(&file).unwrap().is_symlink());
}

#[test]
fn secrets_that_everybody_may_read_are_warned_of_when_an_agent_is_started() {
    let mut cluster = Cluster::new(1);
    let file = cluster.place("archive.conf");
    std::fs::write(&file, b"AWS_SECRET_ACCESS_KEY = hunter2\n").unwrap();
    cluster.environment = vec![("SEAWALL_CONFIG", file.clone())];
    let push = |mode| {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let output = cluster.push_other("00000002.history");
        assert_eq!(code(&output), 0, "{}", message(&output));
        message(&output)
    };
    let said = push(0o644);
    assert!(said.contains(&file) && said.contains("chmod") && !said.contains("hunter2"), "{said}");
    assert_eq!(push(0o644), "", "the agent runs: said once, not for each segment");
    is_done(&cluster.run("archive-stop", &[]));
    assert_eq!(push(0o640), "");
}

/// Commands that work with one repository do not take a list for a path.
#[test]
fn several_repositories_in_the_variable_are_refused_by_commands_for_one() {
    let cluster = Cluster::new(0);
    cluster.make("second");
    let both = format!("{} {}", cluster.repository(), cluster.place("second"));
    for arguments in [
        &["repo", "info"][..],
        &["restore", "nowhere"],
        &["backup", "list"],
        &["backup", "--postgresql"],
    ] {
        let mut command = cluster.command(arguments[0], &arguments[1..]);
        let output = command.env("SEAWALL_REPOSITORY", &both).output().unwrap();
        let said = message(&output);
        assert_eq!(code(&output), 2, "{arguments:?}: {said}");
        assert!(said.contains("SEAWALL_REPOSITORY") && said.contains("--repository"), "{said}");
    }
}

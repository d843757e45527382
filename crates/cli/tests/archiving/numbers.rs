//! What transfers took: in the status, in the text file for Prometheus, and in the log; and what limits them.

use crate::cluster::{Cluster, is_done, message};

/// The agent's log.
fn log_of(cluster: &Cluster) -> String {
    let spools = std::fs::read_dir(cluster.place("spool")).unwrap();
    let logs = spools.map(|spool| spool.unwrap().path().join("agent.log"));
    logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect()
}

#[test]
fn durations_bytes_and_requests_are_told() {
    let mut cluster = Cluster::new(3);
    let prometheus = cluster.place("archive.prom");
    cluster.options = vec![
        "--log-level=info".to_owned(),
        format!("--prometheus-file={prometheus}"),
        "--threads=1".to_owned(),
        "--get-in-flight=2".to_owned(),
    ];
    for index in 0..3 {
        is_done(&cluster.push(&cluster.log.name(index)));
    }
    let name = cluster.log.name(1);
    is_done(&cluster.get(&name, "pg_wal/fetched"));
    let status = cluster.json("archive-status", &["--json"]);
    let repository = &status["repositories"][0];
    assert_eq!(repository["uploads"]["count"], 3, "{status}");
    let longest = repository["uploads"]["longest_ms"].as_f64().unwrap();
    assert!(longest > 0.0 && repository["uploads"]["median_ms"].as_f64().unwrap() <= longest, "{status}");
    let bytes: u64 = (0..3)
        .map(|index| std::fs::metadata(cluster.path_in_repository(&cluster.log.name(index))).unwrap().len())
        .sum();
    assert!(repository["put_bytes"].as_u64().unwrap() == bytes, "{bytes}: {status}");
    assert!(repository["upload_bytes"].as_u64().unwrap() <= bytes, "{bytes}: {status}");
    assert_eq!(repository["requests"]["put"], 3, "{status}");
    assert!(repository["requests"]["get"].as_u64().unwrap() >= 1, "{status}");
    assert!(repository["get_bytes"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(status["acknowledgements"]["count"], 3, "{status}");
    assert!(status["answers"]["count"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!(status["fetches"]["count"], 1, "{status}");
    let text = message_of(&cluster, &["archive-status"]);
    for words in
        ["uploads 3: half within", "requests: 3 puts", "acknowledgements: 3", "fetches when asked for: 1"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let log = log_of(&cluster);
    for words in [
        format!("UTC uploaded {name} to {}", cluster.repository()),
        format!("UTC acknowledged {name}: "),
        format!("UTC fetched {name} from {}", cluster.repository()),
    ] {
        assert_eq!(log.matches(&words).count(), 1, "{words}: {log}");
    }
    let written = std::fs::read_to_string(&prometheus).unwrap();
    assert!(written.contains("seawall_archive_repository_upload_duration_seconds_bucket"), "{written}");
}

/// Failures alone, unless it is told otherwise.
#[test]
fn the_log_has_no_line_for_a_success_by_itself() {
    let cluster = Cluster::new(1);
    is_done(&cluster.push(&cluster.log.name(0)));
    let log = log_of(&cluster);
    assert!(!log.contains("uploaded"), "{log}");
}

fn message_of(cluster: &Cluster, words: &[&str]) -> String {
    let output = cluster.run(words[0], &words[1..]);
    assert!(output.status.success(), "{}", message(&output));
    String::from_utf8(output.stdout).unwrap()
}

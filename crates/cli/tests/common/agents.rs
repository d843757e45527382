//! Archive agents that tests have started.

use std::path::Path;
use std::process::Command;

/// The agents whose spool begins with this path, which is on their command line.
pub(crate) fn agents(spool: &str) -> Vec<u32> {
    let is_ours = |process: &Path| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.len() > 2 && words[1] == b"archive-agent" && words[2].starts_with(spool.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let ours = processes.filter(|process| is_ours(process));
    ours.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
}

/// Kills them; whether there was one.
pub(crate) fn kill_agents(spool: &str) -> bool {
    let ours = agents(spool);
    for process in &ours {
        // It may have ended meanwhile.
        Command::new("kill").arg("-9").arg(process.to_string()).output().unwrap();
    }
    // What they held is free when they have ended, which is some time after the signal.
    seawall_testing::wait_until("killed agents to end", || !ours.iter().any(|process| is_running(*process)));
    !ours.is_empty()
}

fn is_running(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

//! Archive agents that tests have started.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Kills the agents whose spool begins with this path, which is on their command line; whether there was one.
pub(crate) fn kill_agents(spool: &str) -> bool {
    let is_ours = |process: &Path| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.len() > 2 && words[1] == b"archive-agent" && words[2].starts_with(spool.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let ours: Vec<PathBuf> = processes.filter(|process| is_ours(process)).collect();
    for process in &ours {
        // It may have ended meanwhile.
        Command::new("kill").arg("-9").arg(process.file_name().unwrap()).output().unwrap();
    }
    !ours.is_empty()
}

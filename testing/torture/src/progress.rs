//! Which seeds are under way, told to the process that started this one, which says so if this one hangs or crashes.
//!
//! ```text
//!   stdout, with --progress:  {"Begins":17}  {"Begins":18}  {"Found":{..}}  {"Ends":17}  ...  the report
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Report, say};

/// Whether somebody wants to know.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    Begins(u64),
    Ends(u64),
    /// Before the report, which may never come.
    Found(Finding),
}

/// From now on all is told. This process ends with the one that listens.
pub(crate) fn begin() {
    IS_TOLD.store(true, Ordering::SeqCst);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        eprintln!("seawall-torture: this process will outlive the one that started it: {error}");
    }
}

/// Does the work of a seed, counts it, and tells of it and of what it found.
pub(crate) fn seed<T>(seed: u64, report: &mut Report, work: impl FnOnce(&mut Report) -> T) -> T {
    tell(|| Event::Begins(seed));
    let before = report.findings.len();
    let result = work(report);
    report.count("seeds", 1);
    report.findings[before..].iter().for_each(|finding| tell(|| Event::Found(finding.clone())));
    tell(|| Event::Ends(seed));
    result
}

fn tell(event: impl FnOnce() -> Event) {
    if IS_TOLD.load(Ordering::SeqCst) {
        say(serde_json::to_string(&event()).expect("numbers and texts are JSON"));
    }
}

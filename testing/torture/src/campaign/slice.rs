//! Some seeds of one torture, in a child process: what hangs or crashes there is a finding, and the campaign goes on.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child::{self, Ended, Outcome};
use crate::error::TortureError;
use crate::finding::{Finding, Report};
use crate::progress::Event;

/// Slices take about a minute; one on a busy machine, built for debugging, many of these. After this it hangs.
pub(super) const SLICE_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 7200 } else { 1200 });

/// One kind of torture, as a campaign runs it.
pub(super) struct Torture {
    /// The sub-command.
    pub(super) name: &'static str,
    /// Seeds of a slice: about a quarter of a minute of two processors.
    pub(super) seeds: u64,
    /// The option that says how many seeds.
    pub(super) count: &'static str,
    /// Further options.
    pub(super) words: &'static [&'static str],
}

impl Torture {
    /// A slice from `seed` on, that tells of each.
    pub(super) fn command(&self, program: &Path, seed: u64) -> Command {
        let mut command = Command::new(program);
        command.args(self.arguments(seed, self.seeds)).args(["--json", "--progress"]);
        command
    }

    fn arguments(&self, seed: u64, seeds: u64) -> Vec<String> {
        let words =
            [self.name, "--seed", &seed.to_string(), self.count, &seeds.to_string()].map(str::to_owned);
        words.into_iter().chain(self.words.iter().map(|&word| word.to_owned())).collect()
    }
}

/// What became of it.
pub(super) struct Slice {
    pub(super) report: Report,
    /// So many seeds were begun.
    pub(super) seeds: u64,
    pub(super) seconds: f64,
    /// Why the torture cannot run here.
    pub(super) unavailable: Option<String>,
}

/// What the child has told so far.
#[derive(Default)]
struct Progress {
    begun: BTreeSet<u64>,
    ended: u64,
    under_way: BTreeSet<u64>,
    findings: Vec<Finding>,
}

impl Slice {
    /// Runs `command`, the slice of `torture` from seed `first` on.
    pub(super) fn run(
        torture: &Torture,
        command: Command,
        first: u64,
        limit: Duration,
    ) -> Result<Slice, TortureError> {
        let mut progress = Progress::default();
        let outcome = child::run(command, limit, |line| progress.see(line))?;
        let seconds = outcome.time.as_secs_f64();
        let (report, seeds) = match outcome.ended {
            Ended::Quietly | Ended::Failed(FOUND) => {
                let report: Report = serde_json::from_str(&outcome.last_line)?;
                let seeds = report.seeds();
                (report, seeds)
            }
            Ended::Failed(UNAVAILABLE) => {
                let unavailable = Some(outcome.last_error);
                return Ok(Slice { report: Report::new(torture.name), seeds: 0, seconds, unavailable });
            }
            Ended::Failed(FAILED) => {
                return Err(TortureError::Child { torture: torture.name, said: outcome.last_error });
            }
            Ended::Failed(_) | Ended::Crashed(_) | Ended::Hung | Ended::TestFailed(_) => {
                progress.into_report(torture, first, &outcome)
            }
        };
        if !report.findings.is_empty() {
            // Their files are there.
            drop(outcome.scratch.keep());
        }
        Ok(Slice { report, seeds, seconds, unavailable: None })
    }
}

const FOUND: i32 = crate::FOUND as i32;
const FAILED: i32 = crate::FAILED as i32;
const UNAVAILABLE: i32 = crate::UNAVAILABLE as i32;

impl Progress {
    fn see(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Event::Begins(seed)) => {
                self.begun.insert(seed);
                self.under_way.insert(seed);
            }
            Ok(Event::Ends(seed)) => {
                self.ended += 1;
                self.under_way.remove(&seed);
            }
            Ok(Event::Found(finding)) => self.findings.push(finding),
            // The report.
            Err(_) => {}
        }
    }

    /// Of a child that hung or crashed; how many seeds were begun. One that began none has tried all in vain.
    fn into_report(self, torture: &Torture, first: u64, outcome: &Outcome) -> (Report, u64) {
        let seeds = self.begun.last().map_or(torture.seeds, |last| last + 1 - first);
        let mut report = Report::new(torture.name);
        report.count("seeds", self.ended);
        report.count("slices that hung or crashed", 1);
        report.findings = self.findings;
        // Without one under way it was at its beginning or its end.
        let seed = self.under_way.first().copied().unwrap_or(first);
        let last = self.under_way.last().copied().unwrap_or(first + seeds - 1);
        let how = match outcome.ended {
            Ended::Hung => format!("hangs, ended after {:.0} s", outcome.time.as_secs_f64()),
            ref other => format!("crashes ({other:?})"),
        };
        let said = outcome.panic.as_ref().unwrap_or(&outcome.last_error);
        let what = format!("{} {how}, with seeds {:?} under way: {said}", torture.name, self.under_way);
        let arguments = torture.arguments(seed, last + 1 - seed).join(" ");
        report.findings.push(Finding {
            seed,
            what,
            repeat: format!("seawall-torture {arguments}"),
            evidence: None,
        });
        (report, seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Torture = Torture { name: "model", seeds: 10, count: "--histories", words: &["--x"] };

    fn slice(script: &str, limit: Duration) -> Result<Slice, TortureError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Slice::run(&MODEL, command, 100, limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_report_says_how_many_seeds_were_tried() {
        let script = r#"echo '{"Begins":100}'; echo '{"torture":"model","findings":[],"tried":{"seeds":4},"seconds":1}'"#;
        let done = slice(script, LONG).unwrap();
        assert_eq!((done.seeds, done.report.findings.len()), (4, 0));
    }

    #[test]
    fn a_hang_is_a_finding_with_the_seeds_under_way_and_those_before() {
        let script = r#"
            echo '{"Begins":100}'; echo '{"Begins":101}'; echo '{"Begins":102}'
            echo '{"Found":{"seed":100,"what":"a row","repeat":"model","evidence":null}}'; echo '{"Ends":100}'
            sleep 60"#;
        let hung = slice(script, Duration::from_secs(2)).unwrap();
        let [found, hang] = &hung.report.findings[..] else { panic!("{}", hung.report) };
        assert_eq!((hung.seeds, hung.report.seeds(), found.seed, hang.seed), (3, 1, 100, 101));
        assert!(hang.what.contains("hangs") && hang.what.contains("{101, 102}"), "{hang}");
        assert_eq!(hang.repeat, "seawall-torture model --seed 101 --histories 2 --x");
    }

    #[test]
    fn a_crash_is_a_finding_and_the_whole_slice_if_nothing_is_known() {
        let crashed = slice("echo 'double free' >&2; kill -ABRT $$", LONG).unwrap();
        let [crash] = &crashed.report.findings[..] else { panic!("{}", crashed.report) };
        assert_eq!((crashed.seeds, crash.seed), (10, 100));
        assert!(crash.what.contains("crashes") && crash.what.contains("double free"), "{crash}");
        assert_eq!(crash.repeat, "seawall-torture model --seed 100 --histories 10 --x");
    }

    #[test]
    fn what_the_chamber_cannot_do_is_no_finding() {
        let left_out = slice("echo 'no /dev/fuse' >&2; exit 3", LONG).unwrap();
        assert_eq!(left_out.unavailable.as_deref(), Some("no /dev/fuse"));
        assert!(slice("exit 2", LONG).is_err());
    }
}

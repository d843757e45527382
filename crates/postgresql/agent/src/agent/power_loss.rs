//! Crash tests of the agent: its disk loses power, or fails, in any call. The spool and two repositories lie on that disk, a required
//! and an optional one. The tests leave out the socket and the commands; the files of the cluster are real.
//!
//! ```text
//!   story: the server writes segments and archives them, a recovery reads them, a repository goes and comes back, the agent restarts
//!      |
//!      | the power goes in call N, or call N fails; changes that were not synced are kept, lost or torn
//!      v
//!   promises:   told "archived"  -->  the required repository has the segment; the optional one has it, or a copy is pending
//!               told "left out"  -->  the segment is noted in the spool, or on record in both repositories
//!               acknowledged     -->  the required repository has the segment
//!               the next agent starts, keeps the queue below its limit, archives the rest, and hands out right bytes
//! ```

mod machine;

use seawall_simulation::{
    Fault, FaultError, FaultTarget, PowerLoss, SeededRandom, crash_count, crash_step, seeds,
};

use machine::{Machine, OPTIONAL, REQUIRED};

/// Calls of the fixed story that a test loses power in, or lets fail, where `SEAWALL_CRASHES` does not say how many.
const CRASHES: u64 = 12;
/// Random stories.
const STORIES: u64 = 8;

/// An event in a story.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The server finishes so many segments.
    Write(usize),
    /// The server archives so many segments.
    Archive(usize),
    /// A recovery reads all segments up to the first that is missing.
    Recover,
    /// A repository fails every call from now on.
    Down(&'static str),
    /// All repositories answer again.
    Up,
    /// The agent looks around, a minute later.
    LookAround,
    /// The agent ends, and another one starts.
    Restart,
}

/// A story that fills everything that a spool has: acknowledgements, pending copies, gaps, segments fetched ahead.
const STORY: &[Step] = &[
    Step::Write(3),
    Step::Archive(3),
    Step::Down(OPTIONAL),
    Step::Write(1),
    Step::Archive(1),
    Step::Recover,
    Step::Down(REQUIRED),
    Step::Write(4),
    Step::Archive(4),
    Step::Restart,
    Step::Archive(1),
    Step::Up,
    Step::LookAround,
    Step::Archive(1),
    Step::Recover,
    Step::LookAround,
    Step::Archive(2),
];

fn random_story(random: &mut SeededRandom) -> Vec<Step> {
    let step = |random: &mut SeededRandom| match random.below(16) {
        0..3 => Step::Write(random.index(2) + 1),
        3..9 => Step::Archive(random.index(3) + 1),
        9 | 10 => Step::Recover,
        11 => Step::Down(REQUIRED),
        12 => Step::Down(OPTIONAL),
        13 => Step::Up,
        14 => Step::LookAround,
        _ => Step::Restart,
    };
    let rest = (0..16).map(|_| step(random)).collect();
    [vec![Step::Write(2), Step::Archive(1)], rest].concat()
}

/// The number of disk calls of a story. It varies a little: threads decide in which order and how often repositories are tried.
fn calls_of(story: &[Step], seed: u64) -> u64 {
    let mut machine = Machine::new(seed);
    machine.run(story);
    machine.disk.calls()
}

fn lose_power(story: &[Step], seed: u64, call: u64) {
    let mut machine = Machine::new(seed);
    machine.disk.crash_at(call);
    machine.run(story);
    machine.disk.crash();
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(seed + call)] {
        println!("seed {seed}, power loss in call {call}, {outcome:?}");
        let mut after = machine.on(machine.disk.after_power_loss(outcome));
        after.check_disk();
        after.resume();
    }
}

#[test]
fn a_power_loss_in_any_call_breaks_no_promise() {
    let mut whole = Machine::new(0);
    whole.run(STORY);
    assert!(whole.told.archived.len() >= 5, "archived: {:?}", whole.told.archived);
    assert!(whole.told.left_out.len() >= 2, "left out: {:?}", whole.told.left_out);
    let calls = whole.disk.calls();
    for call in (0..=calls).step_by(crash_step(calls, CRASHES)) {
        lose_power(STORY, 0, call);
    }
}

#[test]
fn a_power_loss_in_any_story_breaks_no_promise() {
    for seed in seeds(crash_count(STORIES)) {
        let mut random = SeededRandom::new(seed);
        let story = random_story(&mut random);
        println!("seed {seed}: {story:?}");
        let call = random.below(calls_of(&story, seed) + 1);
        lose_power(&story, seed, call);
    }
}

#[test]
fn a_call_that_fails_breaks_no_promise() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let calls = calls_of(STORY, 0);
    for call in (0..calls).step_by(crash_step(calls, CRASHES)) {
        for number in [EIO, ENOSPC] {
            println!("error {number} in call {call}");
            let mut machine = Machine::new(0);
            machine.let_fail(Fault {
                target: FaultTarget::Call(call),
                error: FaultError::Number(number),
                skip: 0,
                count: 1,
            });
            machine.run(STORY);
            for disk in [machine.disk.copy(), machine.disk.after_power_loss(PowerLoss::LoseAll)] {
                let mut after = machine.on(disk);
                after.check_disk();
                after.resume();
            }
        }
    }
}

//! Bits of what the end of a life has left turn over.

use seawall::{Damage, Database, DatabaseDirectory, Environment, Error, Options};
use seawall_crash_harness::comparison::Difference;
use seawall_crash_harness::state::State;
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use super::account::find;

/// So often another byte is drawn where one is zero: files are mostly empty.
const TRIES_MAX: usize = 8;

/// What became of a database with a rotten bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything is there, and `check` had nothing to say: the bit means nothing.
    Harmless,
    /// Everything is there, and `check` told of it.
    Survived,
    /// The end of the log is gone: what the last flush wrote.
    Torn,
    /// It was refused, by the open or by a read, and `check` told of it.
    Refused,
}

/// What may be there.
pub(super) struct Expected {
    /// Whatever has rotted, newest first.
    pub(super) whole: Vec<State>,
    /// Besides, if it was the log: nothing tells a flip in the records of the last flush from a flush that the power cut short.
    pub(super) torn: Vec<State>,
}

/// What is on the disk, with everything durable. After a sync that failed that may be less than processes see.
///
/// # Errors
/// If it is not as expected even before a bit turns over.
pub(super) fn on_the_disk(
    disk: &SimulatedDisk,
    environment: impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    expected: &Expected,
) -> Result<SimulatedDisk, String> {
    let left = disk.after_power_loss(PowerLoss::KeepAll);
    let copy = left.copy();
    let found = look(&copy, &environment, options, &expected.whole, &[]);
    copy.crash();
    found
        .map(|_| left)
        .map_err(|difference| format!("after a power loss that keeps everything: {difference}"))
}

/// Flips a bit of a file of a copy of `left` and looks what comes of it.
pub(super) fn flip_and_look(
    left: &SimulatedDisk,
    environment: impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    expected: &Expected,
    random: &mut SeededRandom,
) -> Result<Verdict, String> {
    let rotten = left.copy();
    let (file, offset) = place(&rotten, random);
    let bit = random.below(8);
    rotten.flip_bit(&file, offset, u8::try_from(bit).expect("less than eight"));
    let what = format!("bit {bit} of {file} at {offset} turned over");
    let mut damages = Vec::new();
    let mut note = |damage: Damage| damages.push(damage.to_string());
    let checked = DatabaseDirectory::at(environment(&rotten.copy())).check(options.clone(), &mut note);
    let is_told = !damages.is_empty() || checked.as_ref().is_err_and(is_damage);
    let torn = if file.starts_with("log/") { &expected.torn[..] } else { &[] };
    let found = look(&rotten, &environment, options, &expected.whole, torn);
    rotten.crash();
    match (found, is_told) {
        (Ok(Verdict::Harmless), true) => Ok(Verdict::Survived),
        (Ok(verdict), _) => Ok(verdict),
        (Err(Difference::Error(error)), true) if is_damage(&error) => Ok(Verdict::Refused),
        (Err(Difference::Error(error)), true) => Err(format!("{what}: it is refused with {error:?}")),
        (Err(Difference::Error(error)), false) => {
            Err(format!("{what}: it is refused ({error}), and `check` says nothing of it"))
        }
        (Err(Difference::Rows(rows)), _) => Err(format!("{what}: {rows}; `check` says {damages:?}")),
    }
}

/// A file, every third time one of the log, and a byte of it that is written if one is found soon.
fn place(disk: &SimulatedDisk, random: &mut SeededRandom) -> (String, u64) {
    let mut files: Vec<_> = disk.list_all().into_iter().filter(|entry| entry.bytes > 0).collect();
    if random.chance(1, 3) {
        files.retain(|entry| entry.name.starts_with("log/"));
    }
    let file = random.pick(&files);
    let bytes = disk.read_file(&file.name).expect("it was listed");
    let mut offset = random.index(bytes.len());
    for _ in 0..TRIES_MAX {
        if bytes[offset] != 0 {
            break;
        }
        offset = random.index(bytes.len());
    }
    (file.name.clone(), offset as u64)
}

fn look(
    disk: &SimulatedDisk,
    environment: &impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    whole: &[State],
    torn: &[State],
) -> Result<Verdict, Difference> {
    let database = Database::open(environment(disk), options.clone())?;
    match find(&database, whole.iter()) {
        Ok(_) => Ok(Verdict::Harmless),
        Err(Difference::Rows(rows)) => match find(&database, torn.iter()) {
            Ok(_) => Ok(Verdict::Torn),
            Err(Difference::Rows(_)) => Err(Difference::Rows(rows)),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// What a file that is not what it was is refused with.
fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Tree { .. }
            | Error::Log { .. }
            | Error::Catalog { .. }
            | Error::Keys { .. }
            | Error::Io { .. }
    )
}

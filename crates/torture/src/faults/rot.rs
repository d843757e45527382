//! Bits of a database that was closed turn over.

use seawall::{Damage, Database, Environment, Error, Options};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};

use super::model::{Difference, State};

/// What became of a database with a rotten bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything is there, and `check` had nothing to say: the bit means nothing.
    Harmless,
    /// Everything is there, and `check` told of it.
    Survived,
    /// It was refused, by the open or by a read, and `check` told of it.
    Refused,
}

/// Flips a bit of a file and looks what comes of it. `last` are the last states, newest first: the end of the log is torn
/// by a flip there, and nothing tells that from a crash.
pub(super) fn flip_and_look(
    disk: &SimulatedDisk,
    environment: impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    last: &[State],
    random: &mut SeededRandom,
) -> Result<Verdict, String> {
    // With everything durable: what rots is what is on the disk. After a sync that failed that may be a shorter file.
    let rotten = disk.after_power_loss(PowerLoss::KeepAll);
    let files: Vec<_> = rotten.list_all().into_iter().filter(|entry| entry.bytes > 0).collect();
    let file = random.pick(&files);
    let (offset, bit) = (random.below(file.bytes), random.below(8));
    rotten.flip_bit(&file.name, offset, u8::try_from(bit).expect("less than eight"));
    let what = format!("bit {bit} of {} at {offset} turned over", file.name);
    let mut damages = Vec::new();
    let mut note = |damage: Damage| damages.push(damage.to_string());
    let checked = Database::check_directory_in(environment(&rotten.copy()), options.clone(), &mut note);
    let is_told = !damages.is_empty() || checked.as_ref().is_err_and(is_damage);
    let found = look(&rotten, &environment, options, last, file.name.starts_with("log/"));
    rotten.crash();
    match (found, is_told) {
        (Ok(()), false) => Ok(Verdict::Harmless),
        (Ok(()), true) => Ok(Verdict::Survived),
        (Err(Difference::Error(error)), true) if is_damage(&error) => Ok(Verdict::Refused),
        (Err(Difference::Error(error)), true) => Err(format!("{what}: it is refused with {error:?}")),
        (Err(Difference::Error(error)), false) => {
            Err(format!("{what}: it is refused ({error}), and `check` says nothing of it"))
        }
        (Err(Difference::Rows(rows)), _) => Err(format!("{what}: {rows}; `check` says {damages:?}")),
    }
}

fn look(
    disk: &SimulatedDisk,
    environment: &impl Fn(&SimulatedDisk) -> Environment,
    options: &Options,
    last: &[State],
    may_be_older: bool,
) -> Result<(), Difference> {
    let database = Database::open_in(environment(disk), options.clone(), |_| {})?;
    let newest = last.first().expect("the state it was closed with");
    match newest.compare(&database) {
        Err(Difference::Rows(_))
            if may_be_older && last.iter().any(|state| state.compare(&database).is_ok()) =>
        {
            Ok(())
        }
        result => result,
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

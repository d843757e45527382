//! What goes wrong, drawn from a seed.

use std::sync::Arc;
use std::time::Duration;

use seawall_simulation::{
    Delay, Fault, FaultError, FaultTarget, Operation, Operations, SeededRandom, SimulatedClock, SimulatedDisk,
};

const EIO: FaultError = FaultError::Number(5);
pub(super) const ENOSPC: FaultError = FaultError::Number(28);
/// What a short read looks like: the file ends before what was to be read.
const SHORT: FaultError = FaultError::Kind(std::io::ErrorKind::UnexpectedEof);

/// The places that are struck: the whole disk, or one part of it.
const PLACES: [&str; 8] = ["", "", "log/", "log/pending", "log/spare.", "pages", "recovery/", "superblock"];

/// Kinds of calls that fail, most of them those that a database makes often.
const OPERATIONS: [Operation; 16] = [
    Operation::Read,
    Operation::Read,
    Operation::Write,
    Operation::Write,
    Operation::WriteDurable,
    Operation::WriteDurable,
    Operation::Sync,
    Operation::Sync,
    Operation::SyncDirectory,
    Operation::Rename,
    Operation::FillZeros,
    Operation::Create,
    Operation::SetLength,
    Operation::Remove,
    Operation::Open,
    Operation::List,
];

/// Something that goes wrong from now on.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// Some calls fail.
    Fails(Fault),
    /// All calls of a kind, or all, fail until the database is opened again.
    Dies(Operations),
    /// No more than so many further bytes fit.
    Full { free_bytes: u64 },
    /// Some calls take seconds.
    Slow { target: FaultTarget, duration: Duration, skip: u64, count: u64 },
    /// The time of day is another one.
    WallJumps { micros: i64 },
    /// Hours pass at once, as for a machine that was asleep.
    TimePasses(Duration),
}

impl Trouble {
    /// Draws one. `swallow`: of calls that fail, one in so many says that it did not.
    pub(super) fn draw(random: &mut SeededRandom, swallow: Option<u64>) -> Trouble {
        let place = (*random.pick(&PLACES)).to_owned();
        let target = |operations| FaultTarget::Path { prefix: place.clone(), operations };
        let skip = random.below(*random.clone().pick(&[1, 4, 30]));
        match random.below(12) {
            0 => Trouble::Full { free_bytes: random.below(64) * 4096 },
            1 => Trouble::Dies(*random.pick(&[Operations::Any, Operations::Writes, Operations::Syncs])),
            2 | 3 => Trouble::Slow {
                target: target(*random.pick(&[Operations::Reads, Operations::Writes, Operations::Syncs])),
                duration: Duration::from_millis(random.range(50..60_000)),
                skip,
                count: random.range(1..20),
            },
            4 => Trouble::WallJumps { micros: random.next_u64().cast_signed() >> random.below(40) },
            5 => Trouble::TimePasses(Duration::from_secs(random.range(1..200_000))),
            _ => {
                let operation = *random.pick(&OPERATIONS);
                let error = match (operation, swallow) {
                    (_, Some(one_in)) if random.chance(1, one_in) => FaultError::Swallowed,
                    (Operation::Read, _) => *random.pick(&[EIO, SHORT]),
                    (
                        Operation::Write | Operation::WriteDurable | Operation::FillZeros | Operation::Create,
                        _,
                    ) => *random.pick(&[EIO, ENOSPC]),
                    // A file system that allocates late finds out then that it is full.
                    (Operation::Sync, _) => *random.pick(&[EIO, EIO, EIO, ENOSPC]),
                    _ => EIO,
                };
                let count = *random.pick(&[1, 1, 1, 3]);
                Trouble::Fails(Fault { target: target(Operations::Only(operation)), error, skip, count })
            }
        }
    }

    /// Lets it happen.
    pub(super) fn begin(&self, disk: &SimulatedDisk, clock: &SimulatedClock) {
        match self {
            Trouble::Fails(fault) => disk.inject(fault.clone()),
            Trouble::Dies(operations) => {
                let target = FaultTarget::Path { prefix: String::new(), operations: *operations };
                disk.inject(Fault { target, error: EIO, skip: 0, count: u64::MAX });
            }
            Trouble::Full { free_bytes } => disk.set_capacity(Some(disk.allocated_bytes() + free_bytes)),
            Trouble::Slow { target, duration, skip, count } => {
                let (target, duration, skip, count) = (target.clone(), *duration, *skip, *count);
                disk.slow_down(Delay { target, duration, skip, count }, Arc::new(clock.clone()));
            }
            Trouble::WallJumps { micros } => clock.set_wall_micros(*micros),
            Trouble::TimePasses(duration) => clock.advance(*duration),
        }
    }

    /// What it is counted as; the calls that fail are counted by the disk.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Trouble::Fails(_) => None,
            Trouble::Dies(_) => Some("fault: disk dies"),
            Trouble::Full { .. } => Some("fault: disk full"),
            Trouble::Slow { .. } => Some("fault: slow calls"),
            Trouble::WallJumps { .. } => Some("fault: time of day jumps"),
            Trouble::TimePasses(_) => Some("fault: hours pass at once"),
        }
    }
}

/// Everything works again.
pub(super) fn end_all(disk: &SimulatedDisk) {
    disk.clear_faults();
    disk.set_capacity(None);
}

/// What calls that failed are counted as.
pub(super) fn name(operation: Operation, error: FaultError) -> &'static str {
    macro_rules! names {
        ($($operation:ident $verb:literal)*) => {
            match (operation, error) {
                $(
                    (Operation::$operation, FaultError::Swallowed) => concat!("swallowed: ", $verb),
                    (Operation::$operation, FaultError::Dropped) => concat!("lost: ", $verb),
                    (Operation::$operation, FaultError::Number(28)) => concat!("ENOSPC: ", $verb),
                    (Operation::$operation, FaultError::Number(_)) => concat!("EIO: ", $verb),
                    (Operation::$operation, FaultError::Kind(_)) => concat!("short: ", $verb),
                )*
            }
        };
    }
    names! {
        Open "open"
        Create "create"
        CreateDirectory "create directory"
        List "list"
        Rename "rename"
        Remove "remove"
        SyncDirectory "sync directory"
        Read "read"
        Write "write"
        WriteDurable "write and sync"
        Sync "sync"
        SetLength "set length"
        FillZeros "preallocate"
        PunchHole "punch hole"
    }
}

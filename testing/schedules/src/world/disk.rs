//! A disk whose calls each take a while: before a call, other threads may go on.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_simulation::{ObservedDisk, SimulatedDisk, Verdict};

use crate::world::wait_a_while;

/// The points of a call. Much can happen during a call, and schedules that differ there are worth more than others.
const POINTS: u64 = 4;

/// `disk`, where each call is several points.
pub(crate) fn pointed(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(ObservedDisk::new(disk.clone(), |_| {
        wait_a_while(POINTS);
        Verdict::Make
    }))
}

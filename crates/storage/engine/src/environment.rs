//! The environment of a database: directory, clock, random numbers.

use std::path::Path;
use std::sync::Arc;

use seawall_io::{Clock, Disk, OsDisk, OsRandom, Random, SystemClock};

/// The world that a database lives in.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Its randomness, for the id of a new database, keys and nonces.
    pub random: Arc<dyn Random>,
}

impl Environment {
    /// Clock and randomness of the operating system.
    pub fn of_the_system(disk: Arc<dyn Disk>) -> Environment {
        Environment { disk, clock: Arc::new(SystemClock), random: Arc::new(OsRandom) }
    }
}

/// A directory of this machine.
impl<P: AsRef<Path>> From<P> for Environment {
    fn from(directory: P) -> Environment {
        Environment::of_the_system(Arc::new(OsDisk::new(directory.as_ref())))
    }
}

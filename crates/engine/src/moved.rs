//! Notices that the directory of an open database was moved.
//!
//! The database stays in the directory that it has locked, so nothing is lost and nothing of another database is touched. But whoever
//! moved the directory may believe that nobody works in it any more.

use seawall_io::Disk;
use seawall_sync::Mutex;

/// Where the directory was when it was last looked for.
#[derive(Debug)]
pub(crate) struct KnownPlace(Mutex<String>);

impl KnownPlace {
    pub(crate) fn new(disk: &dyn Disk) -> KnownPlace {
        KnownPlace(Mutex::new(disk.location("")))
    }

    /// Looks where the directory is, and warns once of each move.
    pub(crate) fn look(&self, disk: &dyn Disk) {
        let now = disk.location("");
        let mut known = self.0.lock();
        if *known != now {
            tracing::warn!(
                from = *known,
                to = now,
                "the directory of an open database was moved: the database works on in it"
            );
            *known = now;
        }
    }
}

//! What is done with a database that is not open in this process: opening it otherwise than usual, and upkeep without opening it.

use seawall_keys::{MasterKey, OtherMasterKeys};

use super::Database;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::check::{CheckSummary, Damage};
use crate::options::{OpenMode, Options};
use crate::recovery::statistics::RecoveryProgress;
use crate::recovery::timeline::{Continuation, NewTimeline};

/// The directory of a database that is not open here.
#[derive(Clone, Debug)]
pub struct DatabaseDirectory {
    environment: Environment,
}

impl DatabaseDirectory {
    /// The directory at `place`: a path, or an [`Environment`] with any disk and clock. Looks at nothing yet.
    pub fn at(place: impl Into<Environment>) -> DatabaseDirectory {
        DatabaseDirectory { environment: place.into() }
    }

    /// As [`Database::open`], telling `progress` how the recovery goes: at most a few times a second.
    ///
    /// # Errors
    /// As `open`.
    pub fn open(self, options: Options, progress: impl FnMut(RecoveryProgress)) -> Result<Database, Error> {
        Engine::open(self.environment, options, Continuation::Same, progress).map(Database::of)
    }

    /// As [`Database::open`] of an existing database, and goes on on a new timeline, which begins where the log ends: what is
    /// written from now on can never be taken for what another copy of the database, left at the same place, writes on the
    /// old one, nor for what it writes on a new timeline of the same number. `new` is a reason, for people, or a [`NewTimeline`].
    ///
    /// Whatever the number of segments and tables, it takes as long as opening and a few durable writes. If it fails, or the
    /// power goes, the database is on the old timeline, or all of it on the new one.
    ///
    /// # Errors
    /// As `open`, and `ReadOnly`; `TimelineNumber` if the number that was asked for is taken.
    pub fn open_on_new_timeline<'a>(
        self,
        options: Options,
        new: impl Into<NewTimeline<'a>>,
    ) -> Result<Database, Error> {
        let options = match options.mode {
            OpenMode::ReadOnly => return Err(Error::ReadOnly),
            OpenMode::CreateIfMissing | OpenMode::Existing | OpenMode::New => {
                Options { mode: OpenMode::Existing, ..options }
            }
        };
        Engine::open(self.environment, options, Continuation::New(new.into()), |_| {}).map(Database::of)
    }

    /// Opens the database for a check only: [`Database::check`] of one that may not open otherwise.
    ///
    /// # Errors
    /// What kept the check from being made.
    pub fn check(self, options: Options, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        let options = Options { mode: OpenMode::ReadOnly, ..options };
        crate::inspect::check::check_directory(self.environment, options, report)
    }

    /// As [`Database::rotate_master_key`]; `old` is a master key that opens the database.
    ///
    /// # Errors
    /// As `rotate_master_key`, and `InUse`, `NoDatabase`, `WrongMasterKey`.
    pub fn rotate_master_key(
        &self,
        old: MasterKey,
        new: &MasterKey,
        others: OtherMasterKeys,
    ) -> Result<(), Error> {
        crate::encryption::rotate_master_key(&self.environment, old, new, others)
    }
}

//! A primary and its standby on simulated disks.

use std::sync::Arc;

use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    Database, DatabaseDirectory, Error, HoldKind, HoldLifetime, HoldOptions, LogHold, LogStream, Options,
};
use seawall_simulation::{PowerLoss, SimulatedDisk};

use super::small_options;

/// Opens the copy on `disk` to follow.
pub(crate) fn follow(disk: &SimulatedDisk, options: &Options) -> Database {
    DatabaseDirectory::at(environment(Arc::new(disk.clone()))).follow(options.clone()).unwrap()
}

pub(crate) struct Following {
    pub(crate) options: Options,
    pub(crate) primary_disk: SimulatedDisk,
    pub(crate) primary: Database,
    hold: LogHold,
    pub(crate) standby_disk: SimulatedDisk,
    pub(crate) standby: Database,
    pub(crate) stream: LogStream,
}

impl Following {
    pub(crate) fn new() -> Following {
        Following::with(small_options())
    }

    pub(crate) fn with(options: Options) -> Following {
        let primary_disk = template(&options);
        let primary = open(&primary_disk, &options);
        let hold_options = HoldOptions {
            kind: HoldKind::Standby,
            lifetime: HoldLifetime::Permanent,
            ..HoldOptions::default()
        };
        let hold = primary.log().hold("standby", hold_options, None).unwrap();
        let standby_disk = primary_disk.after_power_loss(PowerLoss::LoseAll);
        let standby = follow(&standby_disk, &options);
        let stream = primary.log().stream(standby.standby().unwrap().wanted().unwrap()).unwrap();
        Following { options, primary_disk, primary, hold, standby_disk, standby, stream }
    }

    /// Writes a row of its own, so that all before is durable on the primary.
    pub(crate) fn flush_primary(&self) {
        let table = self.primary.open_or_create_table("flushed").unwrap();
        self.primary.put(&table, b"k", b"v").unwrap();
    }

    /// Receives and syncs all that is durable on the primary.
    pub(crate) fn receive(&mut self) -> Result<(), Error> {
        let standby = self.standby.standby().unwrap();
        let mut buffer = vec![0; 70_000];
        loop {
            let piece = self.stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 {
                break;
            }
            standby.receive(piece.start, &buffer[..piece.bytes])?;
        }
        self.hold.advance(standby.sync()?).unwrap();
        Ok(())
    }

    /// Receives and applies all that the primary has.
    pub(crate) fn catch_up(&mut self) {
        self.flush_primary();
        self.receive().unwrap();
        let standby = self.standby.standby().unwrap();
        assert_eq!(standby.apply().unwrap(), self.stream.flushed());
    }

    /// The standby's process is killed, and its machine loses power if `outcome` says so; it follows again.
    pub(crate) fn restart_standby(&mut self, outcome: PowerLoss) {
        let left = self.standby_disk.after_power_loss(outcome);
        self.standby_disk.crash();
        self.standby_disk = left;
        self.standby = follow(&self.standby_disk, &self.options);
        let wanted = self.standby.standby().unwrap().wanted().unwrap();
        self.stream = self.primary.log().stream(wanted).unwrap();
    }

    /// The primary's machine loses power, and it goes on.
    pub(crate) fn restart_primary(&mut self) {
        let left = self.primary_disk.after_power_loss(PowerLoss::LoseAll);
        self.primary_disk.crash();
        self.primary_disk = left;
        self.primary = open(&self.primary_disk, &self.options);
        self.hold = self.primary.log().find_hold("standby").unwrap();
        let wanted = self.standby.standby().unwrap().wanted().unwrap();
        self.stream = self.primary.log().stream(wanted).unwrap();
    }
}

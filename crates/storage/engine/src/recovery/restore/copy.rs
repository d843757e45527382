//! The directory of a standby, made of the rows of a running primary.
//!
//! It is a restore that ends before the replay: its log comes from the primary, as that of any standby. What is left of a copy that was cut
//! short is made anew by the next one.

use seawall_io::OpenMode as FileMode;
use seawall_types::Lsn;
use seawall_wal::{ReceivedMark, SegmentName, TimelineHistory};

use super::Restore;
use crate::backup::BackupEnd;
use crate::directory::{LOG_DIRECTORY, RESTORING_PATH, io};
use crate::error::Error;
use crate::standby::copied;

impl Restore {
    /// Puts the beginning of the log where it belongs: `head` has the segment's bytes before the redo point, or none if the primary has not
    /// begun that segment. `history` is that of the timeline that the redo point is on. That timeline is received from there on, so it has
    /// the mark that says so (`wal::received`): where it begins at the redo point, its first record is yet to come, and not lost.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `Log` if `head` does not end at the redo point, or the timeline begins behind that.
    pub fn begin_log(&mut self, history: &TimelineHistory, head: &[u8]) -> Result<(), Error> {
        let disk = &self.environment.disk;
        if !history.forks.is_empty() {
            history.store(disk).map_err(|error| Error::log(&error))?;
            let path = TimelineHistory::path(history.timeline);
            self.log_files.extend(path.strip_prefix(&format!("{LOG_DIRECTORY}/")).map(str::to_owned));
        }
        let (database, timeline) = (self.base.database, history.timeline(history.timeline));
        if timeline.began > self.base.redo_point {
            let message = format!("timeline {} begins behind {}", timeline.id, self.base.redo_point);
            return Err(Error::Log { message });
        }
        let mark = ReceivedMark::create(&**disk, database, timeline, self.base.redo_point);
        self.log_files.insert(mark.map_err(|error| Error::log(&error))?.file_name());
        if head.is_empty() {
            return Ok(());
        }
        let (redo_point, segment_bytes) = (self.base.redo_point.get(), self.base.segment_bytes);
        if head.len() as u64 != redo_point % segment_bytes {
            let message = format!("{} bytes do not lead to {}", head.len(), Lsn::new(redo_point));
            return Err(Error::Log { message });
        }
        let name = SegmentName { number: redo_point / segment_bytes, timeline: history.timeline };
        self.put_log_file(&name.file_name(), head)?;
        // A segment is as long as all others.
        let file = self.environment.disk.open(&name.path(), FileMode::Write).map_err(io)?;
        file.fill_zeros(head.len() as u64, segment_bytes - head.len() as u64).map_err(io)?;
        file.sync_data().map_err(io)
    }

    /// All rows were added: leaves a directory that is opened to be followed
    /// ([`DatabaseDirectory::follow`](crate::DatabaseDirectory::follow)), and in no other way before it has the log up to `end`, which is on
    /// the timeline of `primary`.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn finish_copy(mut self, end: BackupEnd, primary: &TimelineHistory) -> Result<(), Error> {
        self.graft()?;
        self.superblock.next_table = end.next_table;
        for _copy in 0..2 {
            self.tree.store_superblock(&self.superblock).map_err(|error| Error::tree(&error))?;
        }
        // Of a copy that was cut short.
        self.remove_other_log_files()?;
        let Restore { environment, tree, lock, archive_mode, .. } = self;
        tree.close();
        drop(tree);
        let disk = &*environment.disk;
        disk.sync_directory(LOG_DIRECTORY).map_err(io)?;
        archive_mode.apply(disk)?;
        copied::write(&environment.disk, end.end, primary)?;
        // Together: as long as the marker is there, the next copy begins anew.
        disk.sync_directory("").map_err(io)?;
        disk.remove(RESTORING_PATH).map_err(io)?;
        disk.sync_directory("").map_err(io)?;
        drop(lock);
        Ok(())
    }
}

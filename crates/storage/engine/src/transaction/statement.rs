//! What the reads of a transaction see: its snapshot, the moment of its statement, or what is current.
//!
//! ```text
//!   Snapshot, Serializable   begin ... first read: snapshot --------------------------------------> end
//!   ReadCommitted            begin_statement: snapshot ---> begin_statement: snapshot ---> end_statement: one for each read
//! ```

use seawall_types::Lsn;

use crate::error::Error;
use crate::options::Isolation;
use crate::transaction::Transaction;
use crate::transaction::read_snapshot::ReadSnapshot;

impl Transaction {
    /// Begins a statement: until the next one begins, all its reads and scans see one moment. What that is, for plans.
    ///
    /// Under `ReadCommitted` the moment is now: no commit that this session was told of is missing. Without a statement
    /// each read sees a moment of its own. Under `Snapshot` and `Serializable` it is the transaction's snapshot, which is
    /// taken if this is the first read. Reads that lock a row see its newest version all the same.
    ///
    /// # Errors
    /// As `get`.
    pub fn begin_statement(&mut self) -> Result<Lsn, Error> {
        self.end_statement();
        self.check_usable()?;
        match self.read_snapshot()? {
            ReadSnapshot::Kept(lsn) => Ok(lsn),
            ReadSnapshot::Own(snapshot) => {
                let lsn = snapshot.lsn();
                self.statement = Some(snapshot);
                Ok(lsn)
            }
        }
    }

    /// Ends the statement under way, if there is one: a transaction that waits for its client keeps nothing in memory for
    /// its next statement.
    pub fn end_statement(&mut self) {
        self.statement = None;
    }

    /// What a read sees: the transaction's snapshot, taken now if this is its first read; or the statement's; or what is
    /// current.
    pub(crate) fn read_snapshot(&mut self) -> Result<ReadSnapshot, Error> {
        if let Some(kept) = self.snapshot.as_ref().or(self.statement.as_ref()) {
            return Ok(ReadSnapshot::Kept(kept.lsn()));
        }
        if self.options.isolation == Isolation::ReadCommitted {
            return Ok(ReadSnapshot::Own(self.engine.register_snapshot_for(&self.session)?));
        }
        if self.has_blind_rows {
            self.look_at_blind_rows();
        }
        self.engine.require_visible(self.snapshot_floor, Some(&self.session.waits.cancel))?;
        let snapshot = self.engine.register_snapshot_for(&self.session)?;
        let lsn = snapshot.lsn();
        self.snapshot = Some(snapshot);
        Ok(ReadSnapshot::Kept(lsn))
    }
}

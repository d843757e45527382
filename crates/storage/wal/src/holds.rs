//! Who needs the log, and from where on: an archive, the slot of a standby, a backup that is running, or recovery alone.
//!
//! ```text
//!              standby "b"          archive                redo point            end of the log
//!   ---removed----|--------------------|-----------------------|-----------------------|
//!                 ^ the log is kept from here on               |<-- never given up -->|
//!                 |<------------ held by "b": beyond its limit it is lost ----------->|
//! ```
//! A hold is a name and a position. Its holder moves the position forward without a lock. What bounds it is its limit: when
//! the log has grown further than that beyond the position, and the position is in a segment that only holds keep, the hold is
//! *lost*. With `AtLimit::SlowWriters` writers are slowed before the limit, and the hold is lost at twice the limit: slowing is
//! best effort. A lost hold keeps nothing any more; its holder gets an error that says so.
//!
//! Log is kept and removed in whole segments, so positions are compared by the segments that they lie in.
//!
//! **On disk** (`file`) are names, limits, positions and what was lost. Before a segment is removed, the file durably says
//! that it is not needed: positions that were moved forward, and holds that were lost. So if the power goes at any moment,
//! a permanent hold comes back at a position from which on the log is there, or as lost. A hold that ends with the process is
//! in the file for others to see, and is forgotten by the next `open`. What `open` goes by is durable before anything else is:
//! the process before may have ended between a write and its sync.

pub(crate) mod error;
mod file;

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_io::{Disk, is_disk_full};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::{DatabaseId, Lsn};

use crate::geometry::LogGeometry;
use crate::sabotage::{Defect, sabotaged};

use file::{HoldsFile, OpenedHolds};

pub use error::{HoldError, HoldsFileError};

/// The longest name of a hold, in bytes.
pub const HOLD_NAME_BYTES_MAX: usize = 63;
/// The hold of the options that keep the newest log.
const KEEP_NAME: &str = "log_keep_bytes";
/// Holds that a log may have, that of the options not counted.
pub const HOLDS_MAX: usize = 64;

/// Who a hold is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HoldKind {
    /// An archive of the log.
    Archive,
    /// The slot of a standby.
    Standby,
    /// A backup that is running.
    Backup,
    /// Nobody in particular, as the options want.
    Keep,
    /// Somebody else.
    #[default]
    Other,
}

/// What happens at the limit of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// The hold is lost.
    #[default]
    LoseHold,
    /// Writers are slowed before the limit is reached, so that the holder can come up: down to 64 KiB/s, by at most 40 ms a
    /// commit, never to a stop. At twice the limit the hold is lost all the same.
    SlowWriters,
}

/// How long a hold lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HoldLifetime {
    /// Until it is released, or the process ends.
    #[default]
    Process,
    /// Until it is released.
    Permanent,
}

/// What a hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HoldOptions {
    /// Who it is for.
    pub kind: HoldKind,
    /// Bytes of log that it may hold; `None`: any number, until the disk is full.
    pub limit_bytes: Option<u64>,
    /// What happens then.
    pub at_limit: AtLimit,
    /// How long it lasts.
    pub lifetime: HoldLifetime,
}

/// A hold, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldInfo {
    /// Its name.
    pub name: String,
    /// What it is.
    pub options: HoldOptions,
    /// The log is kept from here on for it; if it is lost, from where on it was.
    pub position: Lsn,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
    /// It is lost: where the log ended then.
    pub lost_at: Option<Lsn>,
}

impl HoldOptions {
    /// The hold is lost when it holds more than this.
    fn bound_bytes(&self) -> Option<u64> {
        match self.at_limit {
            AtLimit::LoseHold => self.limit_bytes,
            AtLimit::SlowWriters => self.limit_bytes.map(|bytes| bytes.saturating_mul(2)),
        }
    }
}

/// The position of a hold, shared by who moves it and who reads it.
#[derive(Debug)]
pub struct HoldPosition {
    position: AtomicU64,
    /// Lost or released: it holds nothing any more.
    is_over: AtomicBool,
}

impl HoldPosition {
    fn new(position: Lsn) -> Arc<HoldPosition> {
        Arc::new(HoldPosition { position: AtomicU64::new(position.get()), is_over: AtomicBool::new(false) })
    }

    /// The log is kept from here on.
    pub fn get(&self) -> Lsn {
        Lsn::new(self.position.load(Ordering::SeqCst))
    }

    /// Moves it forward; never back.
    pub fn advance(&self, to: Lsn) {
        self.position.fetch_max(to.get(), Ordering::SeqCst);
    }

    /// Whether the hold was lost or released.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Debug)]
struct Hold {
    options: HoldOptions,
    position: Arc<HoldPosition>,
    /// What the file says.
    durable: Lsn,
    created_micros: i64,
    lost_at: Option<Lsn>,
    /// It moves with the end of the log, and is never lost.
    keeps_newest: bool,
}

/// The holds of a log that is open.
#[derive(Debug)]
pub(crate) struct Holds {
    disk: Arc<dyn Disk>,
    geometry: LogGeometry,
    state: Mutex<State>,
    lost: AtomicU64,
}

#[derive(Debug)]
struct State {
    holds: BTreeMap<String, Hold>,
    file: HoldsFile,
    /// Log before may be gone.
    kept_from: Lsn,
    /// Copies of the file that say something else about which holds there are.
    copies_behind: u8,
    /// The file is not written any more: it may belong to the next process.
    is_closed: bool,
    /// Or to the holds that these were handed over to.
    is_handed_over: bool,
}

impl Holds {
    /// What the file says, of a log that has everything from `oldest` on and ends at `end`. Durable when it returns.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        database: DatabaseId,
        geometry: LogGeometry,
        oldest: Lsn,
        end: Lsn,
    ) -> Result<Holds, HoldError> {
        let OpenedHolds { file, holds: stored, copies_behind } = HoldsFile::open(&*disk, database)?;
        let mut state = State {
            holds: BTreeMap::new(),
            file,
            kept_from: oldest,
            copies_behind,
            is_closed: false,
            is_handed_over: false,
        };
        let mut lost = 0;
        for info in stored {
            if info.options.lifetime == HoldLifetime::Process {
                state.set_changed();
                continue;
            }
            // A point-in-time recovery may have cut the log before the position; it may not come back when the log has grown.
            let position = info.position.min(end);
            let mut lost_at = info.lost_at;
            if lost_at.is_none() && geometry.segment_of(position) < geometry.segment_of(oldest) {
                tracing::warn!(name = %info.name, %position, %oldest, "the log that a hold needs is not there");
                lost_at = Some(end);
                lost += 1;
            }
            if (position, lost_at) != (info.position, info.lost_at) {
                state.set_changed();
            }
            let hold = Hold::new(info.options, HoldPosition::new(position), info.created_micros);
            hold.position.is_over.store(lost_at.is_some(), Ordering::SeqCst);
            state.holds.insert(info.name, Hold { lost_at, ..hold });
        }
        state.store_set(&*disk)?;
        Ok(Holds { disk, geometry, state: Mutex::new(state), lost: AtomicU64::new(lost) })
    }

    /// Makes a hold from `from` on. Durable when it returns.
    pub(crate) fn create(
        &self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        check_users_name(name)?;
        let mut state = self.state.lock();
        if state.holds.contains_key(name) {
            return Err(HoldError::Exists { name: name.to_owned() });
        }
        self.insert(&mut state, name, options, from, created_micros)
    }

    /// As `create`, in place of the hold of this name, lost or not, if there is one. If the power goes, either the one or the
    /// other is there.
    pub(crate) fn replace(
        &self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        check_users_name(name)?;
        let mut state = self.state.lock();
        let before = state.holds.remove(name);
        let inserted = self.insert(&mut state, name, options, from, created_micros);
        if let Some(before) = before {
            match &inserted {
                Ok(_) => before.position.is_over.store(true, Ordering::SeqCst),
                Err(_) => drop(state.holds.insert(name.to_owned(), before)),
            }
        }
        inserted
    }

    fn insert(
        &self,
        state: &mut State,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        if state.holds.values().filter(|hold| !hold.keeps_newest).count() >= HOLDS_MAX {
            return Err(HoldError::TooMany { limit: HOLDS_MAX });
        }
        if self.geometry.segment_of(from) < self.geometry.segment_of(state.kept_from) {
            return Err(HoldError::NotRetained { position: from, oldest: state.kept_from });
        }
        let position = HoldPosition::new(from);
        let hold = Hold::new(options, Arc::clone(&position), created_micros);
        state.holds.insert(name.to_owned(), hold);
        state.set_changed();
        if let Err(error) = state.store_set(&*self.disk) {
            state.forget(name);
            return Err(error);
        }
        Ok(position)
    }

    /// Keeps the newest `bytes` of the log, which ends at `end`, as long as the process lives.
    pub(crate) fn keep_newest(&self, bytes: u64, end: Lsn) {
        let mut state = self.state.lock();
        let position = Lsn::new(end.get().saturating_sub(bytes)).max(state.kept_from);
        let options =
            HoldOptions { kind: HoldKind::Keep, limit_bytes: Some(bytes), ..HoldOptions::default() };
        let hold = Hold { keeps_newest: true, ..Hold::new(options, HoldPosition::new(position), 0) };
        state.holds.insert(KEEP_NAME.to_owned(), hold);
        state.set_changed();
    }

    /// The position of a hold that was made before.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<HoldPosition>, HoldError> {
        let state = self.state.lock();
        let hold = state
            .holds
            .get(name)
            .filter(|hold| !hold.keeps_newest)
            .ok_or_else(|| HoldError::Unknown { name: name.to_owned() })?;
        match hold.lost_at {
            None => Ok(Arc::clone(&hold.position)),
            Some(lost_at) => Err(HoldError::Lost {
                name: name.to_owned(),
                position: hold.position.get(),
                lost_at,
                limit_bytes: hold.options.limit_bytes,
            }),
        }
    }

    /// Whether the hold that `position` was made for is still there, whatever has its name now.
    pub(crate) fn check(&self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        if !position.is_over() {
            return Ok(());
        }
        let is_same = self.state.lock().is_of(name, position);
        if is_same { self.find(name).map(drop) } else { Err(HoldError::Unknown { name: name.to_owned() }) }
    }

    /// Changes how much a hold may hold, lost or not. Durable when it returns.
    pub(crate) fn limit(&self, name: &str, limit_bytes: Option<u64>) -> Result<(), HoldError> {
        let mut state = self.state.lock();
        let before = state.set_limit(name, limit_bytes)?;
        if before == limit_bytes {
            return Ok(());
        }
        state.set_changed();
        let stored = state.store_set(&*self.disk);
        if stored.is_err() {
            state.set_limit(name, before)?;
        }
        stored
    }

    /// Ends a hold, lost or not: of this name, or, if there is one, the very one of `position`. Durable when it returns.
    pub(crate) fn release(&self, name: &str, position: Option<&Arc<HoldPosition>>) -> Result<(), HoldError> {
        let mut state = self.state.lock();
        let is_meant = position.is_none_or(|position| state.is_of(name, position));
        let is_ours = state.holds.get(name).is_some_and(|hold| hold.keeps_newest);
        if is_ours || !is_meant || !state.forget(name) {
            return Err(HoldError::Unknown { name: name.to_owned() });
        }
        state.store_set(&*self.disk)
    }

    /// Ends the hold of `position` in memory; on disk with the next change.
    pub(crate) fn forget(&self, name: &str, position: &Arc<HoldPosition>) {
        let mut state = self.state.lock();
        if state.is_of(name, position) {
            state.forget(name);
        }
    }

    /// Writes down how far permanent holds have come, if it can: the next process need not go back. Waits for another write;
    /// the file is not written after that.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        let is_to_be_kept =
            |hold: &Hold| hold.options.lifetime == HoldLifetime::Permanent && hold.has_moved();
        if !state.is_closed
            && state.holds.values().any(is_to_be_kept)
            && let Err(error) = state.store(&*self.disk)
        {
            tracing::warn!(%error, "the next process finds holds on the log where they were before");
        }
        state.is_closed = true;
    }

    /// The same holds, of the log that goes on where this one has ended in this process. Nothing need be read or written again. `None`
    /// of a log that is not closed, or if that was done before: then the file says what there is.
    pub(crate) fn hand_over(&self) -> Option<Holds> {
        let mut state = self.state.lock();
        if !state.is_closed || state.is_handed_over {
            return None;
        }
        state.is_handed_over = true;
        let next = State {
            holds: state.holds.clone(),
            file: state.file.clone(),
            kept_from: state.kept_from,
            copies_behind: state.copies_behind,
            is_closed: false,
            is_handed_over: false,
        };
        let (disk, lost) = (Arc::clone(&self.disk), AtomicU64::new(self.lost_count()));
        Some(Holds { disk, geometry: self.geometry, state: Mutex::new(next), lost })
    }

    /// Takes holds away that hold more than they may, makes durable from where on each holder needs the log, and returns the
    /// position below which it is not needed. From now on no hold can be made below it. Recovery needs it from `redo_point` on.
    ///
    /// # Errors
    /// If the file cannot be written: then nothing may be removed.
    pub(crate) fn settle(&self, redo_point: Lsn, appended: Lsn) -> Result<Lsn, HoldError> {
        let mut state = self.state.lock();
        let lost = state.take_away(|hold| self.is_over_limit(hold, redo_point, appended), appended);
        self.lost.fetch_add(lost, Ordering::SeqCst);
        if state.copies_behind > 0 {
            state.store_set(&*self.disk)?;
        } else if state.holds.values().any(Hold::has_moved) {
            state.store(&*self.disk)?;
        }
        let is_needed = |hold: &&Hold| hold.lost_at.is_none() && !sabotaged(Defect::HoldIgnored);
        let needed = state.holds.values().filter(is_needed).map(|hold| hold.durable);
        let kept_from = needed.fold(redo_point, Lsn::min);
        state.kept_from = state.kept_from.max(kept_from);
        Ok(kept_from)
    }

    /// The position below which the log is not needed, as it would be after `settle`.
    pub(crate) fn needed_from(&self, redo_point: Lsn, appended: Lsn) -> Lsn {
        let state = self.state.lock();
        let needed = state.holds.values().filter(|hold| hold.lost_at.is_none());
        needed.map(|hold| hold.position.get().max(hold.newest_kept(appended))).fold(redo_point, Lsn::min)
    }

    /// Whether `settle` would take a hold away.
    pub(crate) fn any_over_limit(&self, redo_point: Lsn, appended: Lsn) -> bool {
        self.state.lock().holds.values().any(|hold| self.is_over_limit(hold, redo_point, appended))
    }

    /// Whether the hold is to be lost now: what it holds is too much, and recovery does not need it anyway.
    fn is_over_limit(&self, hold: &Hold, redo_point: Lsn, appended: Lsn) -> bool {
        let position = hold.position.get();
        let holds_alone = self.geometry.segment_of(position) < self.geometry.segment_of(redo_point);
        let is_over = |bound| appended.bytes_since(position) > bound;
        let can_be_lost = !hold.keeps_newest && hold.lost_at.is_none();
        can_be_lost && holds_alone && hold.options.bound_bytes().is_some_and(is_over)
    }

    /// All holds, by name.
    pub(crate) fn list(&self) -> Vec<HoldInfo> {
        self.state.lock().describe(|hold| hold.position.get())
    }

    /// How many were lost since the log was opened.
    pub(crate) fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }
}

impl Hold {
    fn new(options: HoldOptions, position: Arc<HoldPosition>, created_micros: i64) -> Hold {
        let durable = position.get();
        Hold { options, position, durable, created_micros, lost_at: None, keeps_newest: false }
    }

    /// Where the newest log begins that the options keep.
    fn newest_kept(&self, appended: Lsn) -> Lsn {
        match self.options.limit_bytes.filter(|_| self.keeps_newest) {
            Some(bytes) => Lsn::new(appended.get().saturating_sub(bytes)),
            None => Lsn::ZERO,
        }
    }

    fn has_moved(&self) -> bool {
        self.lost_at.is_none() && self.position.get() > self.durable
    }
}

impl State {
    /// The limit that the hold had.
    fn set_limit(&mut self, name: &str, limit_bytes: Option<u64>) -> Result<Option<u64>, HoldError> {
        let hold = self.holds.get_mut(name).filter(|hold| !hold.keeps_newest);
        let hold = hold.ok_or_else(|| HoldError::Unknown { name: name.to_owned() })?;
        Ok(std::mem::replace(&mut hold.options.limit_bytes, limit_bytes))
    }

    fn forget(&mut self, name: &str) -> bool {
        let hold = self.holds.remove(name);
        if let Some(hold) = &hold {
            hold.position.is_over.store(true, Ordering::SeqCst);
            self.set_changed();
        }
        hold.is_some()
    }

    /// Whether the hold of this name is the one of `position`.
    fn is_of(&self, name: &str, position: &Arc<HoldPosition>) -> bool {
        self.holds.get(name).is_some_and(|hold| Arc::ptr_eq(&hold.position, position))
    }

    /// Whether all holds end with the process.
    fn all_end(&self) -> bool {
        self.holds.values().all(|hold| hold.options.lifetime == HoldLifetime::Process)
    }

    /// Other holds, or lost ones: neither copy of the file has them yet.
    fn set_changed(&mut self) {
        self.copies_behind = 2;
    }

    /// Marks as lost what is over its limit; how many that are.
    fn take_away(&mut self, is_over_limit: impl Fn(&Hold) -> bool, appended: Lsn) -> u64 {
        let mut lost = 0;
        for (name, hold) in &mut self.holds {
            hold.position.advance(hold.newest_kept(appended));
            if !is_over_limit(hold) {
                continue;
            }
            hold.lost_at = Some(appended);
            hold.position.is_over.store(true, Ordering::SeqCst);
            lost += 1;
            let (position, options) = (hold.position.get(), &hold.options);
            let held_bytes = appended.bytes_since(position);
            tracing::warn!(name = %name, kind = ?options.kind, %position, held_bytes, limit_bytes = ?options.limit_bytes,
                "a hold on the log is lost: it held more than its limit, and what it needs is removed now");
        }
        if lost > 0 {
            self.set_changed();
        }
        lost
    }

    fn describe(&self, position: impl Fn(&Hold) -> Lsn) -> Vec<HoldInfo> {
        let describe = |(name, hold): (&String, &Hold)| HoldInfo {
            name: name.clone(),
            options: hold.options,
            position: position(hold),
            created_micros: hold.created_micros,
            lost_at: hold.lost_at,
        };
        self.holds.iter().map(describe).collect()
    }

    /// What is written is what is durable afterwards, however far positions move meanwhile.
    fn store(&mut self, disk: &dyn Disk) -> Result<(), HoldError> {
        if self.is_closed {
            return Err(HoldError::Closed);
        }
        let stored = self.describe(|hold| hold.position.get());
        match self.file.store(disk, &stored) {
            // Nobody comes back for these: they must not keep a full disk from getting space.
            Err(HoldError::Io { source, .. })
                if is_disk_full(&source) && self.file.is_missing() && self.all_end() => {}
            other => other?,
        }
        for info in stored {
            let hold = self.holds.get_mut(&info.name).expect("it was described under the same lock");
            hold.durable = info.position;
        }
        self.copies_behind = self.copies_behind.saturating_sub(1);
        Ok(())
    }

    /// Both copies, if they are behind: which holds there are must be known even if one copy is damaged later.
    fn store_set(&mut self, disk: &dyn Disk) -> Result<(), HoldError> {
        while self.copies_behind > 0 {
            self.store(disk)?;
        }
        Ok(())
    }
}

/// Refuses the name that the hold of the options has.
fn check_users_name(name: &str) -> Result<(), HoldError> {
    if name == KEEP_NAME { Err(HoldError::Reserved { name: name.to_owned() }) } else { check_name(name) }
}

fn check_name(name: &str) -> Result<(), HoldError> {
    let is_fit = (1..=HOLD_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if is_fit { Ok(()) } else { Err(HoldError::Name { name: name.to_owned(), limit: HOLD_NAME_BYTES_MAX }) }
}

/// Who holds the log of a database, as its file says: of one that may be open in another process.
///
/// # Errors
/// `File` if it is damaged; `Io`.
pub fn read_holds(disk: &dyn Disk, database: DatabaseId) -> Result<Vec<HoldInfo>, HoldError> {
    file::read_holds(disk, database)
}

#[cfg(test)]
mod tests;

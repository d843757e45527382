//! The outside world as the engine needs it: files, time, randomness. No other crate opens a file or reads a
//! clock.
//!
//! ```text
//!   wal, tree, engine
//!        |  Arc<dyn Disk>, Arc<dyn Clock>, Arc<dyn Random>
//!        v
//!   +---------------------------+     +-----------------------------------------------+
//!   | OsDisk, SystemClock,      |  or | simulation::SimulatedDisk, SimulatedClock,    |
//!   | OsRandom: system calls    |     | SimulatedRandom: all repeat with their seed   |
//!   +---------------------------+     +-----------------------------------------------+
//! ```
//! Invariants:
//! * A failed call names the operation and the full path, and keeps the kind of the system's error ([`DiskError`]).
//! * A sync that failed is reported once; nothing here tries it again.
//! * Bytes handed to [`DiskFile::write_durable_at`] are aligned by construction ([`AlignedBuffer`]).
//!
//! Start at [`Disk`].

mod aligned;
mod append_buffer;
mod clock;
mod disk;
mod error;
mod memory;
mod os_disk;
mod process;
mod random;
pub mod sabotage;
mod secret;

pub use aligned::{AlignedBuffer, BLOCK_BYTES};
pub use append_buffer::{AppendBuffer, AppendedBytes};
pub use clock::{Clock, SystemClock};
pub use disk::{Access, DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping};
pub use error::{DiskError, is_disk_full, raw_os_error};
pub use memory::{HUGE_PAGE_BYTES, UnclearedMemory, ZeroedMemory};
pub use os_disk::OsDisk;
pub use process::{forbid_core_files, give_back_freed_memory, ignore_file_size_signal};
pub use random::{OsRandom, Random};
pub use secret::{
    OPEN_TO_OTHERS, SECRET_BYTES_MAX, Secret, command_output, environment_variable, secret_file,
};

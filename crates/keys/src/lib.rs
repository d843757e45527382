//! The encryption keys of a database.
//!
//! ```text
//!   master key  (a file, an environment variable, a command, the program; never stored by the database)
//!       | wraps
//!       v
//!   data key    (drawn once per database; in the file `keys`, wrapped by each master key that may open it)
//!       | HKDF-SHA256, by purpose
//!       v
//!   log, pages, recovery file, spill files, archive, backup
//!       | XAES-256-GCM, a random nonce for each message
//!       v
//!   Cipher::encrypt, Cipher::decrypt
//! ```
//! Invariants:
//! * The data key leaves this crate in no form but wrapped.
//! * Nonces are drawn here and nowhere else, one for each message, from the operating system's randomness: no counter
//!   has to survive a crash or a restore.
//! * Changing the master key rewrites the file `keys` and nothing else; after a crash it is the old file or the new one.
//!
//! Start at [`DatabaseKeys`].

mod cipher;
mod database_keys;
mod error;
mod keys_file;
mod master_key;

pub use cipher::{Cipher, ENVELOPE_BYTES, Envelope};
pub use database_keys::{DatabaseKeys, OtherMasterKeys, Purpose};
pub use error::{KeysError, MasterKeyError};
pub use keys_file::KEYS_PATH;
pub use master_key::MasterKey;
pub use seawall_codec::encryption::{NotAuthentic, SecretKey};

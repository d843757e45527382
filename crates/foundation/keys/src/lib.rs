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
//! * The data key leaves this crate in no form but wrapped; so do the keys of an archive.
//! * Nonces are drawn here and nowhere else, one for each message, from the operating system's randomness: no counter
//!   has to survive a crash or a restore.
//! * Changing the master key rewrites the file `keys` and nothing else; after a crash it is the old file or the new one.
//!
//! An archive has keys of its own, since it outlives the database and may hold those of others: [`RepositoryKey`], all of
//! them in a [`KeyRing`].
//!
//! Start at [`DatabaseKeys`].

mod cipher;
mod database_keys;
mod error;
mod key_ring;
mod keys_file;
mod master_key;
mod repository_key;
#[doc(hidden)]
pub mod sabotage;

pub use cipher::{Cipher, ENVELOPE_BYTES, Envelope};
pub use database_keys::{DatabaseKeys, OtherMasterKeys, Purpose};
pub use error::{KeysError, MasterKeyError};
pub use key_ring::{KEY_RING_BYTES_MAX, KeyRing};
pub use keys_file::KEYS_PATH;
pub use master_key::MasterKey;
pub use repository_key::{
    FramePlace, OBJECT_SECRET_BYTES, ObjectKey, RepositoryKey, RepositoryKeyError, RepositoryKeyId,
    WRAPPED_OBJECT_KEY_BYTES, WRAPPED_REPOSITORY_KEY_BYTES, master_key_fingerprint,
};
pub use seawall_codec::encryption::{NotAuthentic, SecretKey};

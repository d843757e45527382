//! What users set: by options, by the environment, and in one file that every command reads.
//!
//! ```text
//!   --in-flight=8   SEAWALL_IN_FLIGHT   [archive] in_flight = 8   32
//!         |                 |                     |               |
//!      option   before  environment   before     file   before  default  -->  Settings: each value, and where it is from
//! ```
//! Invariants:
//! * What a user has written counts, or is refused with its place: an unknown name, a value of another kind and a contradiction are
//!   errors of every command, not only of the one that needs the setting.
//! * Of the sources that a master key may have, those of the level that names any are all: nothing of a lower level is mixed in.
//! * Credentials appear in no message, no listing and no `Debug`.
//! * A file that everybody may change is not believed: it names commands that are run.
//!
//! Start at [`Settings::load`]. All settings there are: [`KNOWN`]. How the file is read: `file`.

mod error;
mod file;
mod known;
mod setting;
mod settings;
mod values;

pub use error::SettingsError;
pub use known::{KNOWN, Kind, Known, Unset, known};
pub use setting::Origin;
pub use settings::{KeyOf, Listed, Names, Settings};
pub use values::{parse_bytes, parse_compression, parse_time};

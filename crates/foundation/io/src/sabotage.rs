//! Deliberate defects, to prove that the tests would find real ones.
//!
//! ```text
//!   sabotage.rs of a crate: defects! { .. }     sabotaged(Defect::..) where it matters
//!        |                                                  ^
//!        | DEFECTS                                          | SEAWALL_SABOTAGE=name
//!        v                                                  |
//!   seawall-torture sabotage: all lists --one defect after the other--> the tests, and the tortures
//! ```
//! Each crate declares its own defects with [`defects!`](crate::defects), in a module `sabotage`. A defect is one line somewhere
//! real, where the crate asks `sabotaged`, or two where a step changes places. With the feature `sabotage`, and only then, the
//! environment variable [`VARIABLE`] chooses one. Without the feature the question is a constant, and nothing of a defect is in the
//! program. This module knows no names but those of this crate.

#[cfg(feature = "sabotage")]
use std::sync::OnceLock;

/// The variable of the environment that names the defect of a process. Empty is like absent.
pub const VARIABLE: &str = "SEAWALL_SABOTAGE";

/// A defect, for the program that hunts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredDefect {
    /// The package that is broken.
    pub package: &'static str,
    /// Its name on the command line and in [`VARIABLE`]. No two defects have the same one.
    pub name: &'static str,
    /// What is broken.
    pub broken: &'static str,
    /// What should come of it.
    pub breaks: &'static str,
}

/// Declares the defects of a crate: variant, name, what is broken, and what that should break. Makes `Defect`, `DEFECTS` and
/// `sabotaged`.
#[macro_export]
macro_rules! defects {
    ($($variant:ident $name:literal $broken:literal => $breaks:literal,)*) => {
        /// One thing of this crate that is broken on purpose. Each says what is broken, then what should come of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect {
            $(
                #[doc = concat!("`", $name, "`: ", $broken, ". ", $breaks, ".")]
                $variant,
            )*
        }

        /// The defects of this crate.
        pub const DEFECTS: &[$crate::sabotage::DeclaredDefect] = &[$($crate::sabotage::DeclaredDefect {
            package: env!("CARGO_PKG_NAME"),
            name: $name,
            broken: $broken,
            breaks: $breaks,
        }),*];

        /// Whether this is broken. Without the feature `sabotage`, never.
        #[inline(always)]
        pub fn sabotaged(defect: Defect) -> bool {
            $crate::sabotage::is_active(match defect {
                $(Defect::$variant => const { $crate::sabotage::number_of($name) },)*
            })
        }
    };
}

/// The number that stands for a name when it is compared: FNV-1a.
pub const fn number_of(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut number = 0xCBF2_9CE4_8422_2325_u64;
    let mut index = 0;
    while index < bytes.len() {
        number = (number ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01B3);
        index += 1;
    }
    number
}

/// Whether the defect with this number is the one of this process. Without the feature, none is.
#[cfg(not(feature = "sabotage"))]
#[inline(always)]
pub const fn is_active(_: u64) -> bool {
    false
}

/// Whether the defect with this number is the one of this process.
#[cfg(feature = "sabotage")]
#[inline]
pub fn is_active(number: u64) -> bool {
    static ACTIVE: OnceLock<u64> = OnceLock::new();
    *ACTIVE.get_or_init(|| std::env::var(VARIABLE).map_or(number_of(""), |name| number_of(&name))) == number
}

defects! {
    OsDirectorySyncSkipped "os-directory-sync-skipped"
        "directories of the operating system are not synced"
        => "New names are lost with the power",
    OsFileSyncSkipped "os-file-sync-skipped"
        "files of the operating system are not synced"
        => "Pages and superblocks are lost with the power",
    OsDurableWriteBuffered "os-durable-write-buffered"
        "durable writes of the operating system are not durable"
        => "Acknowledged commits are lost with the power",
    OsFallbackNotSynced "os-fallback-not-synced"
        "where the kernel refuses to write and sync in one call, no sync follows the write"
        => "Acknowledged commits are lost with the power, on such file systems",
}

//! Damaged, cut, foreign and missing files: every open, read and check ends in the right rows or in an error that names
//! the file; never in wrong rows, a panic, or an allocation that unchecked bytes have asked for.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "damage/base.rs"]
mod base;
#[path = "damage/files.rs"]
mod files;
#[path = "damage/log.rs"]
mod log;
#[path = "damage/pages.rs"]
mod pages;
#[path = "damage/recovery_file.rs"]
mod recovery_file;

use seawall_crash_harness as harness;

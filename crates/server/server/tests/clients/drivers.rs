//! Drivers: a program in each language does what applications do, and fails if an answer is not as expected.

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_testing::Need;

use crate::program::{ok, prepared};
use crate::served::Served;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/drivers").join(name)
}

/// Psycopg 3: of the Python of `SEAWALL_PYTHON`, else `python3`.
#[test]
fn psycopg_is_served() {
    let python = std::env::var("SEAWALL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_driver = Command::new(&python).args(["-c", "import psycopg"]).output();
    if !has_driver.is_ok_and(|output| output.status.success()) {
        return Need::Drivers.skip("psycopg is not installed");
    }
    let served = Served::new();
    let mut program = prepared(Path::new(&python), "127.0.0.1", served.port());
    let said = ok(program.arg(script("application.py")));
    assert!(said.ends_with("done\n"), "{said}");
}

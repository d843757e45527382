//! A cell in a process of its own: this program again, told what to measure, answering with the measurement.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BenchError, file_error};

/// Runs `seawall-bench COMMAND CELL` and removes what it left in `directory`.
pub(crate) fn measure<Cell: Serialize, Measurement: DeserializeOwned>(
    command: &str,
    cell: &Cell,
    directory: &Path,
    settle: bool,
) -> Result<Measurement, BenchError> {
    let measured = run(command, cell, settle);
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(file_error("remove", directory))?;
    }
    measured
}

/// Runs `seawall-bench COMMAND CELL`.
pub(crate) fn run<Cell: Serialize, Measurement: DeserializeOwned>(
    command: &str,
    cell: &Cell,
    settle: bool,
) -> Result<Measurement, BenchError> {
    let failed = |what: &str, error: std::io::Error| BenchError::Process(format!("{what}: {error}"));
    if settle {
        // What the last cell left to write would be measured in this one.
        rustix::fs::sync();
    }
    let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
    let output = Command::new(program)
        .arg(command)
        .arg(serde_json::to_string(cell)?)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed("start", error))?;
    if !output.status.success() {
        return Err(BenchError::Process(format!("ended with {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

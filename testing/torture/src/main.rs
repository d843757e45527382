//! The `seawall-torture` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_torture::run(std::env::args_os())
}

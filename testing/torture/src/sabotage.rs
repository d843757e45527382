//! Sabotage: the engine is broken on purpose, in one place after the other, and a test has to notice.
//!
//! ```text
//!   `sabotage` of each crate, --SEAWALL_SABOTAGE=name--> hunter: a torture, or the tests of a crate, as a child
//!   collected in `defects`
//!        |                                                      |  the next one, until the defect is found
//!        v                                                      v
//!   table: what is broken, who found it first and which torture finds it, why, after how many seeds and seconds
//! ```
//! A defect that no test finds is a hole in the tests. A hunter first has to find nothing, several times: a control run of the very same
//! program, which also measures how long the hunter takes. Tests of the broken crate come first, then the others, the fast ones
//! before the slow ones. A hunter that takes far longer than on the healthy engine has found something, too: a hang. Each finding is
//! tried again: twice without the defect, where nothing may be found, and up to five times with it, where something has to be.
//!
//! A test of one part may know of the very line that is broken. So the hunt continues with the tortures alone, which know
//! nothing but what is promised, until one of them sees a promise broken. `beyond` lists the few defects that break nothing
//! they test, and why.
//!
//! Start at [`hunt::hunt_all`].

#[cfg(feature = "sabotage")]
mod beyond;
#[cfg(feature = "sabotage")]
mod defects;
#[cfg(feature = "sabotage")]
mod hunt;
#[cfg(feature = "sabotage")]
mod hunters;
#[cfg(feature = "sabotage")]
mod table;

use std::process::ExitCode;

use seawall_io::sabotage::VARIABLE;

use crate::arguments::SabotageOptions;
use crate::error::TortureError;

/// Refuses to run where the environment asks for a defect that this program does not have: nothing would be broken, and a run that
/// finds nothing would pass for a test that sees nothing.
pub(crate) fn check_asked_for() -> Result<(), TortureError> {
    let name = std::env::var_os(VARIABLE).unwrap_or_default();
    if name.is_empty() {
        return Ok(());
    }
    check_declared(name.to_string_lossy().into_owned())
}

#[cfg(feature = "sabotage")]
fn check_declared(name: String) -> Result<(), TortureError> {
    match defects::find(&name) {
        Some(_) => Ok(()),
        None => Err(TortureError::NoSuchDefect { name }),
    }
}

#[cfg(not(feature = "sabotage"))]
fn check_declared(name: String) -> Result<(), TortureError> {
    Err(TortureError::BuiltWithoutDefects { name })
}

/// Without the feature there is nothing to plant.
#[cfg(not(feature = "sabotage"))]
pub(crate) fn run(_: &SabotageOptions, _: bool) -> ExitCode {
    eprintln!(
        "seawall-torture: this program was built without defects; build it with them:\n  \
         cargo run --release -p seawall-torture --features sabotage -- sabotage"
    );
    ExitCode::from(crate::FAILED)
}

/// Plants the defects; exit code 1 if one of them was not found, or by no torture though it is one of theirs.
#[cfg(feature = "sabotage")]
pub(crate) fn run(options: &SabotageOptions, as_json: bool) -> ExitCode {
    match hunt::hunt_all(options, as_json) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(crate::FOUND),
        Err(error) => {
            eprintln!("seawall-torture: {error}");
            ExitCode::from(crate::FAILED)
        }
    }
}

//! How many crashes a test tries: what `SEAWALL_CRASHES` says, in every test the same.

use std::env::VarError;

/// The environment variable.
const VARIABLE: &str = "SEAWALL_CRASHES";

/// How many crashes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// As many as the test tries by itself.
    Default,
    Number(u64),
    /// One in each call.
    All,
}

impl Wanted {
    fn parse(text: Option<&str>) -> Wanted {
        match text {
            None | Some("") => Wanted::Default,
            Some("all") => Wanted::All,
            Some(number) => Wanted::Number(
                number
                    .parse()
                    .unwrap_or_else(|_| panic!("{VARIABLE} is a number or `all`, and not {number:?}")),
            ),
        }
    }

    fn of_environment() -> Wanted {
        match std::env::var(VARIABLE) {
            Ok(text) => Wanted::parse(Some(&text)),
            Err(VarError::NotPresent) => Wanted::parse(None),
            Err(VarError::NotUnicode(text)) => panic!("{VARIABLE} is a number or `all`, and not {text:?}"),
        }
    }

    fn count(self, default: u64) -> u64 {
        match self {
            Wanted::Default | Wanted::All => default,
            Wanted::Number(number) => number,
        }
    }

    fn step(self, calls: u64, default: u64) -> usize {
        let crashes = match self {
            Wanted::Default => default,
            Wanted::Number(number) => number,
            Wanted::All => calls,
        };
        usize::try_from((calls / crashes.max(1)).max(1))
            .expect("a test makes fewer calls than there are addresses")
    }
}

/// How many crashes at random a test tries: `SEAWALL_CRASHES` if it is a number, `default` if it is not set, or `all`, which
/// random ones never are.
///
/// # Panics
/// If the variable is neither a number nor `all`.
pub fn crash_count(default: u64) -> u64 {
    Wanted::of_environment().count(default)
}

/// A test crashes in each so-many-th of `calls` calls, so that there are about as many crashes as `SEAWALL_CRASHES` says; it is a
/// number, or `all` for each call. `default` crashes if it is not set.
///
/// # Panics
/// If the variable is neither a number nor `all`.
pub fn crash_step(calls: u64, default: u64) -> usize {
    Wanted::of_environment().step(calls, default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_crashes_and_all_means_each_call() {
        assert_eq!(Wanted::parse(None), Wanted::Default);
        assert_eq!((Wanted::Default.count(7), Wanted::Default.step(100, 7)), (7, 14));
        let number = Wanted::parse(Some("20000"));
        assert_eq!((number.count(7), number.step(100, 7), number.step(60_000, 7)), (20_000, 1, 3));
        let all = Wanted::parse(Some("all"));
        assert_eq!((all.count(7), all.step(60_000, 7)), (7, 1));
    }

    #[test]
    #[should_panic(expected = "a number or `all`")]
    fn anything_else_is_refused() {
        Wanted::parse(Some("every"));
    }
}

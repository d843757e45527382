//! The standbys that commits wait for.

use seawall::QuorumOptions;
use seawall_replication::StandbyNames;
use seawall_settings::Settings;

use crate::failure::Failure;

const NAMES: &str = "server.synchronous_standby_names";

/// Those that are named; `None`: commits wait for none.
pub(super) fn standbys(settings: &Settings) -> Result<Option<StandbyNames>, Failure> {
    let text = settings.text(NAMES).unwrap_or_default();
    StandbyNames::parse(text)
        .map_err(|error| Failure::Usage(format!("{}: {NAMES}: {error}", settings.origin(NAMES))))
}

/// What happens while they are not connected.
pub(super) fn quorum(settings: &Settings) -> QuorumOptions {
    QuorumOptions { alone_after: settings.time("server.alone_after") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn standbys_and_the_time_without_them_are_read_and_mistakes_have_their_place() {
        let parse = |text: &str| Settings::parse(text, "the file").unwrap();
        let none = parse("");
        assert!(standbys(&none).unwrap().is_none());
        assert_eq!(quorum(&none).alone_after, None);
        let some = parse("[server]\nsynchronous_standby_names = \"ANY 1 (a, b)\"\nalone_after = \"5s\"");
        assert_eq!(standbys(&some).unwrap().unwrap().to_string(), "ANY 1 (a, b)");
        assert_eq!(quorum(&some).alone_after, Some(Duration::from_secs(5)));
        let wrong = parse("[server]\nsynchronous_standby_names = \"ANY (a)\"");
        let error = standbys(&wrong).unwrap_err().to_string();
        assert!(
            error.contains("synchronous_standby_names") && error.contains("a number of standbys"),
            "{error}"
        );
    }
}

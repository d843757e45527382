//! As what a directory is served.
//!
//! | `--follow` | the file `handover`    | the log's timeline   | served as                                                   |
//! |------------|------------------------|----------------------|-------------------------------------------------------------|
//! | given      |                        |                      | a standby of that server                                    |
//! |            | there                  | another server's     | a standby, as the file says: after a switchover             |
//! |            | there, of the timeline | this server's        | a primary that takes no writes before it knows its outcome  |
//! |            | none that counts       | another server's     | refused: two servers would write the same timeline          |
//! |            | none that counts       | being rewound        | refused: its rows are those of neither server               |
//! |            | none that counts       | this server's, or no | a primary                                                   |

use std::path::Path;

use seawall::{DatabaseDirectory, HandoverRecord};
use seawall_engine::{Environment, Error, is_rewinding};
use seawall_replication::UpstreamSettings;

use crate::failure::Failure;

#[derive(Debug)]
pub(super) enum Role {
    Primary,
    /// Its role was handed over, and what became of that is not known.
    HandedOver(HandoverRecord),
    Standby(UpstreamSettings),
    /// A standby that begins where its log ends: that server goes on there.
    Replaced {
        upstream: UpstreamSettings,
        /// The slot by which that server has followed this one, to be dropped.
        slot: Option<String>,
    },
}

/// The role of `directory`, of a server that was told to follow, or not.
pub(super) fn role(directory: &Path, follow: Option<&str>) -> Result<Role, Failure> {
    if let Some(follow) = follow {
        return Ok(Role::Standby(parse("--follow", follow)?));
    }
    let place = DatabaseDirectory::at(directory);
    let is_followed = place.is_followed()?;
    let shown = directory.display();
    match place.handover()? {
        // It had begun to follow, and has received nothing yet.
        Some(record)
            if is_followed && place.is_whole()? && place.identity()?.1.timeline == record.timeline =>
        {
            replaced(directory, &record)
        }
        Some(record) if is_followed => {
            let upstream = upstream_of(directory, &record)?;
            tracing::info!(%upstream, "this server has handed the role of the primary over, and follows the other one");
            Ok(Role::Standby(upstream))
        }
        Some(record) => Ok(Role::HandedOver(record)),
        None if is_followed && is_rewinding(&*Environment::from(directory).disk)? => {
            Err(Error::Rewinding { directory: shown.to_string() }.into())
        }
        None if is_followed => Err(Failure::Usage(format!(
            "{shown} is a standby: give --follow; or, if its primary is gone for good, `seawall promote {shown}` while it is served \
             with --follow"
        ))),
        None => Ok(Role::Primary),
    }
}

/// The role of a server whose role another one has taken over.
pub(super) fn replaced(directory: &Path, record: &HandoverRecord) -> Result<Role, Failure> {
    Ok(Role::Replaced { upstream: upstream_of(directory, record)?, slot: record.slot.clone() })
}

fn upstream_of(directory: &Path, record: &HandoverRecord) -> Result<UpstreamSettings, Failure> {
    parse(&directory.join("handover").display().to_string(), &record.follow)
}

/// Settings of a connection, which `place` has.
pub(super) fn parse(place: &str, text: &str) -> Result<UpstreamSettings, Failure> {
    text.parse().map_err(|error| Failure::Usage(format!("{place}: {error}")))
}

//! What tells PostgreSQL how to recover: lines in `postgresql.auto.conf`, which come after those in `postgresql.conf`, and an empty
//! file, `recovery.signal` or `standby.signal`.

use seawall_engine::ArchiveMode;
use seawall_types::TimelineId;

use super::choose::PostgreSqlTarget;

/// What a restored cluster does when it has reached its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetAction {
    /// Waits, readable, for somebody to look at it and to say `select pg_wal_replay_resume()`: PostgreSQL's default.
    #[default]
    Pause,
    /// Opens for writes on a new timeline.
    Promote,
    /// Stops.
    Shutdown,
}

/// What a restored cluster becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoredRole {
    /// A cluster of its own.
    #[default]
    Primary,
    /// One that follows the archive for as long as it is not promoted.
    Standby,
}

/// How a restored cluster recovers.
#[derive(Clone, Debug)]
pub(super) struct Recovery<'a> {
    pub(super) restore_command: &'a str,
    pub(super) target: &'a PostgreSqlTarget,
    pub(super) action: TargetAction,
    pub(super) role: RestoredRole,
    pub(super) archive_mode: ArchiveMode,
    /// `None`: that of the backup; of a standby, the last one, and those that are begun later.
    pub(super) timeline: Option<TimelineId>,
}

/// Where a recovery may stop. PostgreSQL takes one of them; an empty one is none.
const TARGETS: [&str; 5] = [
    "recovery_target",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_time",
    "recovery_target_xid",
];

/// Settings that belong to a recovery: those of an earlier one would get in the way.
fn is_of_recovery(line: &str) -> bool {
    let name =
        line.trim_start().split(|character: char| character == '=' || character.is_whitespace()).next();
    let name = name.unwrap_or_default().to_ascii_lowercase();
    name.starts_with("recovery_target")
        || [
            "restore_command",
            "recovery_end_command",
            "archive_cleanup_command",
            "primary_conninfo",
            "primary_slot_name",
        ]
        .contains(&name.as_str())
}

impl Recovery<'_> {
    /// The name of the file that begins the recovery.
    pub(super) fn signal(&self) -> &'static str {
        match self.role {
            RestoredRole::Primary => "recovery.signal",
            RestoredRole::Standby => "standby.signal",
        }
    }

    /// `postgresql.auto.conf` of the restored cluster, from that of the backup.
    pub(super) fn settings(&self, of_backup: &[u8]) -> Vec<u8> {
        let mut settings = Vec::new();
        for line in of_backup.split_inclusive(|byte| *byte == b'\n') {
            if !is_of_recovery(&String::from_utf8_lossy(line)) {
                settings.extend_from_slice(line);
            }
        }
        if settings.last().is_some_and(|last| *last != b'\n') {
            settings.push(b'\n');
        }
        settings.extend_from_slice(b"# Added by seawall restore\n");
        for (name, value) in self.lines() {
            // Quotes are doubled; a backslash would escape what follows.
            let value = value.replace('\\', "\\\\").replace('\'', "''");
            settings.extend_from_slice(format!("{name} = '{value}'\n").as_bytes());
        }
        settings
    }

    /// All that belongs to a recovery is said, also what is not wanted: `postgresql.conf` may have it of an earlier one.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let (target, value) = match self.target {
            PostgreSqlTarget::Latest => (None, String::new()),
            PostgreSqlTarget::Lsn(lsn) => (Some("recovery_target_lsn"), lsn.to_string()),
            PostgreSqlTarget::Time(micros) => {
                (Some("recovery_target_time"), seawall_backup::object_names::utc(*micros))
            }
            PostgreSqlTarget::RestorePoint(name) => (Some("recovery_target_name"), name.clone()),
        };
        let mut lines = vec![("restore_command", self.restore_command.to_owned())];
        // The one that is wanted comes last: PostgreSQL refuses a second one, be it empty.
        let others = TARGETS.into_iter().filter(|name| target != Some(name));
        lines.extend(others.map(|name| (name, String::new())));
        lines.extend(target.map(|name| (name, value)));
        // The record at a position is the first one too many.
        let inclusive = if matches!(self.target, PostgreSqlTarget::Lsn(_)) { "off" } else { "on" };
        let action = match self.action {
            TargetAction::Pause => "pause",
            TargetAction::Promote => "promote",
            TargetAction::Shutdown => "shutdown",
        };
        lines.push(("recovery_target_inclusive", inclusive.to_owned()));
        lines.push(("recovery_target_action", action.to_owned()));
        lines.push(("recovery_end_command", String::new()));
        if self.role == RestoredRole::Primary {
            lines.push(("archive_cleanup_command", String::new()));
        }
        let timeline = match (self.role, self.timeline) {
            (_, Some(timeline)) => timeline.to_string(),
            (RestoredRole::Standby, None) => "latest".to_owned(),
            (RestoredRole::Primary, None) => "current".to_owned(),
        };
        lines.push(("recovery_target_timeline", timeline));
        match self.archive_mode {
            // The copy of a trial archives nothing, whatever `postgresql.conf` says: its timeline is not that of production.
            ArchiveMode::Off => lines.push(("archive_mode", "off".to_owned())),
            ArchiveMode::Preserve => {}
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::Lsn;

    fn recovery<'a>(target: &'a PostgreSqlTarget, timeline: Option<u32>) -> Recovery<'a> {
        Recovery {
            restore_command: "'/a b/seawall' archive-get %f %p",
            target,
            action: TargetAction::Promote,
            role: RestoredRole::Primary,
            archive_mode: ArchiveMode::Off,
            timeline: timeline.map(|number| TimelineId::new(number).unwrap()),
        }
    }

    #[test]
    fn settings_of_an_earlier_recovery_give_way() {
        let old = b"work_mem = '1GB'\nrestore_command = 'cp x'\n Recovery_Target_Lsn='0/1'\nprimary_conninfo = ''\n# recovery_target\nshared_buffers=1";
        let target = PostgreSqlTarget::Lsn(Lsn::new(0x1_0000_00AB));
        let text = String::from_utf8(recovery(&target, Some(2)).settings(old)).unwrap();
        assert_eq!(
            text,
            "work_mem = '1GB'\n# recovery_target\nshared_buffers=1\n# Added by seawall restore\n\
             restore_command = '''/a b/seawall'' archive-get %f %p'\nrecovery_target = ''\nrecovery_target_name = ''\n\
             recovery_target_time = ''\nrecovery_target_xid = ''\nrecovery_target_lsn = '1/AB'\n\
             recovery_target_inclusive = 'off'\nrecovery_target_action = 'promote'\nrecovery_end_command = ''\n\
             archive_cleanup_command = ''\nrecovery_target_timeline = '2'\narchive_mode = 'off'\n"
        );
    }

    #[test]
    fn targets_are_told_as_postgresql_reads_them() {
        let text =
            |target: &PostgreSqlTarget| String::from_utf8(recovery(target, None).settings(b"")).unwrap();
        let time = text(&PostgreSqlTarget::Time(1_763_781_300_000_007));
        assert!(time.contains("recovery_target_time = '2025-11-22 03:15:00.000007+00'\n"), "{time}");
        let name = text(&PostgreSqlTarget::RestorePoint("it's \\ here".to_owned()));
        assert!(name.contains("recovery_target_name = 'it''s \\\\ here'\n"), "{name}");
        let latest = text(&PostgreSqlTarget::Latest);
        assert!(latest.contains("recovery_target_timeline = 'current'"), "{latest}");
        // Whatever `postgresql.conf` has of an earlier recovery.
        for name in TARGETS {
            assert!(latest.contains(&format!("\n{name} = ''\n")), "{name}: {latest}");
        }
    }

    #[test]
    fn a_standby_follows_the_last_timeline() {
        let target = PostgreSqlTarget::Latest;
        let (role, archive_mode) = (RestoredRole::Standby, ArchiveMode::Preserve);
        let standby = Recovery { role, archive_mode, ..recovery(&target, None) };
        assert_eq!(standby.signal(), "standby.signal");
        let text = String::from_utf8(standby.settings(b"")).unwrap();
        assert!(text.ends_with("recovery_target_timeline = 'latest'\n"), "{text}");
        // PostgreSQL's latest is that with the highest number, which may be that of a trial.
        let beside = Recovery { role, archive_mode, ..recovery(&target, Some(2)) };
        let text = String::from_utf8(beside.settings(b"")).unwrap();
        assert!(text.ends_with("recovery_target_timeline = '2'\n"), "{text}");
    }
}

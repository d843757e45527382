//! `repo create`, `repo check`, `repo info`, `repo ls`, `repo rotate-key`.

use std::time::Duration;

use seawall::OtherMasterKeys;
use seawall_archive::{
    ArchiveError, CheckReport, Compression, Fencing, GapRecord, Header, KeyInForce, LogFileName, Repository,
    RepositoryOptions, RepositoryUrl, Rotation, SegmentPlace, StoredName, StoredObject, System, TimelineId,
    TimelineSummary,
};
use seawall_settings::KeyOf;
use serde_json::{Value, json};

use crate::arguments::{ListRepository, OneRepository, RepoCommand, RotateRepositoryKey, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, duration, escape, grouped, size};

pub(crate) fn repository(shared: &Shared, command: &RepoCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        RepoCommand::Create(one) => create(shared, one, output),
        RepoCommand::Check(one) => check(shared, one, output),
        RepoCommand::Info(one) => info(shared, one, output),
        RepoCommand::Ls(list) => ls(shared, list, output),
        RepoCommand::RotateKey(rotate) => rotate_key(shared, rotate, output),
    }
}

/// The repository that is given, or else set.
pub(super) fn url_of(shared: &Shared, given: &Option<String>) -> Result<RepositoryUrl, Failure> {
    let given = given.as_ref().filter(|text| !text.trim().is_empty());
    let text = match (given, shared.settings.texts("repository")) {
        (Some(text), _) | (None, [text]) => text.clone(),
        (None, []) => {
            let problem = "name a repository with --repository, or set SEAWALL_REPOSITORY, or `repository` in \
                           /etc/seawall/seawall.toml";
            return Err(Failure::Usage(problem.to_owned()));
        }
        // The archive commands take several.
        (None, _) => {
            let place = shared.settings.origin("repository");
            return Err(Failure::Usage(format!(
                "{place} names several repositories, and this command works with one: name it with --repository"
            )));
        }
    };
    // A relative path is what somebody types at a shell; the file has none.
    let text = match text.contains("://") || text.starts_with('/') {
        true => text,
        false => {
            let path = std::path::absolute(&text).map_err(Failure::io(format!("cannot look for {text}")))?;
            path.display().to_string()
        }
    };
    Ok(text.parse::<RepositoryUrl>().map_err(seawall_archive::ArchiveError::from)?)
}

pub(super) fn options(shared: &Shared) -> RepositoryOptions {
    RepositoryOptions {
        master_key: shared.key_of(KeyOf::Repositories),
        credentials: shared.settings.credentials(),
        ..RepositoryOptions::default()
    }
}

pub(super) fn open(shared: &Shared, given: &Option<String>) -> Result<Repository, Failure> {
    Ok(Repository::open(&url_of(shared, given)?, options(shared))?)
}

fn create(shared: &Shared, one: &OneRepository, output: &mut Output) -> Result<(), Failure> {
    let repository = Repository::create(&url_of(shared, one.given())?, options(shared))?;
    output.note_done();
    let (url, header) = (repository.url(), repository.header());
    let kind = if header.is_encrypted { "an encrypted" } else { "a" };
    output.answer(
        &json!({ "repository": url, "id": header.id_text(), "encrypted": header.is_encrypted }),
        format_args!("made {kind} repository at {url}; `seawall repo check` finds out what the store does"),
    )
}

fn check(shared: &Shared, one: &OneRepository, output: &mut Output) -> Result<(), Failure> {
    let repository = open(shared, one.given())?;
    let report = repository.check()?;
    // What was found out counts, whether somebody reads the report or not.
    let written = if output.json() { output.line(check_json(&report)) } else { check_text(&report, output) };
    match report.fencing {
        Fencing::Atomic if !report.lists_at_once => Err(Failure::Broken(
            "this store does not list at once what was put: tails of a log, backups and gaps are found by listing, so a restore may \
             miss the newest; use another store"
                .to_owned(),
        )),
        Fencing::Atomic => written,
        Fencing::NotAtomic { .. } => Err(Failure::Broken(
            "this store may overwrite an object when two put it at the same moment: let one server only archive to it, or \
             use another store"
                .to_owned(),
        )),
        Fencing::None => Err(Failure::Broken(
            "this store overwrites objects: it ignores If-None-Match, and nothing protects an archive there from a second server"
                .to_owned(),
        )),
    }
}

fn check_json(report: &CheckReport) -> Value {
    let (fencing, broken) = match report.fencing {
        Fencing::Atomic => ("atomic", 0),
        Fencing::NotAtomic { broken } => ("not atomic", broken),
        Fencing::None => ("none", report.races),
    };
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    json!({
        "fencing": fencing,
        "races": report.races,
        "broken_races": broken,
        "lists_at_once": report.lists_at_once,
        "cannot_remove": report.cannot_remove,
        "leftovers": report.leftovers,
        "put_1_kib_micros": micros(report.put_small),
        "put_4_mib_micros": micros(report.put_large),
        "get_4_mib_micros": micros(report.get_large),
    })
}

fn check_text(report: &CheckReport, output: &mut Output) -> Result<(), Failure> {
    let races = report.races;
    let fencing = match report.fencing {
        Fencing::Atomic => format!("never, also when eight put at the same moment ({races} times tried)"),
        Fencing::NotAtomic { broken } => {
            format!("not later, but when eight put at the same moment: {broken} of {races} times")
        }
        Fencing::None => "YES: If-None-Match is ignored".to_owned(),
    };
    let removal = match &report.cannot_remove {
        None => "allowed".to_owned(),
        Some(reason) => {
            format!("refused ({reason}); retention needs it, and rotate-key, which leaves older keys")
        }
    };
    let listed = if report.lists_at_once { "yes" } else { "NO: listings lag behind" };
    output.line(format_args!("objects are overwritten   {fencing}"))?;
    output.line(format_args!("listed at once            {listed}"))?;
    output.line(format_args!("removing                  {removal}"))?;
    if report.leftovers > 0 {
        let leftovers = grouped(report.leftovers);
        output.line(format_args!(
            "removed                   {leftovers} files that puts had left which were cut short"
        ))?;
    }
    output.line(format_args!("put of 1 KiB              {} (median)", duration(report.put_small)))?;
    output.line(format_args!("put of 4 MiB              {} (median)", duration(report.put_large)))?;
    output.line(format_args!("get of 4 MiB              {} (median)", duration(report.get_large)))
}

fn info(shared: &Shared, one: &OneRepository, output: &mut Output) -> Result<(), Failure> {
    let repository = open(shared, one.given())?;
    let header = repository.header();
    let master_keys = repository.master_keys()?;
    let mut systems = Vec::new();
    for system in repository.systems()? {
        systems.push(Inventory {
            system,
            timelines: repository.summary(system)?,
            left_out: repository
                .gaps(system)?
                .into_iter()
                .map(|gap| repository.read_gap(system, gap))
                .collect::<Result<_, _>>()?,
            backups: super::backup::stored::shown(&repository, system)?,
        });
    }
    if output.json() {
        let systems: Vec<Value> = systems.iter().map(system_json).collect();
        return output.line(json!({
            "repository": repository.url(),
            "id": header.id_text(),
            "created_micros": header.created_micros,
            "encrypted": header.is_encrypted,
            "master_keys": master_keys,
            "systems": systems,
        }));
    }
    output.line(format_args!("repository  {}", repository.url()))?;
    output.line(format_args!("created     {}", utc(header.created_micros)))?;
    let encryption = match master_keys.as_slice() {
        [] => "none".to_owned(),
        keys => format!("AES-256-GCM; master keys {}", keys.join(", ")),
    };
    output.line(format_args!("encryption  {encryption}"))?;
    for Inventory { system, timelines, left_out, backups } in &systems {
        output.line(format_args!("\n{system}"))?;
        timelines.iter().try_for_each(|line| timeline_text(line, output))?;
        for GapRecord { gap, noticed_micros, reason } in left_out {
            let (first, last, time) = (gap.first, gap.last, utc(*noticed_micros));
            if reason == seawall_backup::RETENTION_REASON {
                output.line(format_args!("  removed by retention: {first} to {last}, {time}"))?;
                continue;
            }
            // Whoever may write to a plain repository may have written it.
            let reason = escape(reason.as_bytes());
            output.line(format_args!("  LEFT OUT ON PURPOSE: {first} to {last}, {time}: {reason}"))?;
            output.line("    no recovery goes beyond: it takes a base backup from after it")?;
        }
        backups.iter().try_for_each(|(_, text)| output.line(format_args!("  backup {text}")))?;
    }
    Ok(())
}

/// What a repository holds of one system.
struct Inventory {
    system: System,
    timelines: Vec<TimelineSummary>,
    left_out: Vec<GapRecord>,
    /// As JSON and as text.
    backups: Vec<(Value, String)>,
}

fn timeline_text(line: &TimelineSummary, output: &mut Output) -> Result<(), Failure> {
    let (segments, bytes) = (grouped(line.segments), size(line.stored_bytes));
    output.line(format_args!(
        "  timeline {}: {segments} segments, {} to {}, {bytes}",
        line.timeline, line.first, line.last
    ))?;
    for (first, last) in &line.gaps {
        output.line(format_args!("    MISSING: {first} to {last}"))?;
    }
    Ok(())
}

fn system_json(inventory: &Inventory) -> Value {
    let line = |line: &TimelineSummary| {
        json!({
            "timeline": line.timeline.get(),
            "segments": line.segments,
            "first": line.first.to_string(),
            "last": line.last.to_string(),
            "gaps": line.gaps.iter().map(gap_json).collect::<Vec<_>>(),
            "stored_bytes": line.stored_bytes,
        })
    };
    let left_out = |record: &GapRecord| {
        json!({
            "first": record.gap.first.to_string(),
            "last": record.gap.last.to_string(),
            "noticed_micros": record.noticed_micros,
            "reason": record.reason,
        })
    };
    json!({
        "system": inventory.system.to_string(),
        "timelines": inventory.timelines.iter().map(line).collect::<Vec<_>>(),
        "left_out": inventory.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "backups": inventory.backups.iter().map(|(value, _)| value).collect::<Vec<_>>(),
    })
}

fn gap_json((first, last): &(SegmentPlace, SegmentPlace)) -> Value {
    json!({ "first": first.to_string(), "last": last.to_string() })
}

fn ls(shared: &Shared, list: &ListRepository, output: &mut Output) -> Result<(), Failure> {
    let repository = open(shared, list.repository.given())?;
    let timeline = list.timeline.and_then(TimelineId::new);
    let mut damaged: u64 = 0;
    for object in repository.stored(list.system)? {
        if timeline.is_some_and(|timeline| !is_of_timeline(&object, timeline)) {
            continue;
        }
        let header = if list.long { repository.header_of(&object) } else { Ok(None) };
        match header {
            Ok(header) => entry(&object, header.as_ref(), output)?,
            // Removed after it was listed.
            Err(ArchiveError::NotFound { .. }) => {}
            Err(error @ (ArchiveError::Damaged { .. } | ArchiveError::OtherObject { .. })) => {
                damaged += 1;
                damaged_entry(&object, &error, output)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    match damaged {
        0 => Ok(()),
        count => Err(Failure::Verified { findings: format!("{} damaged objects", grouped(count)) }),
    }
}

fn damaged_entry(object: &StoredObject, error: &ArchiveError, output: &mut Output) -> Result<(), Failure> {
    let (path, problem) = (escape(object.path.as_bytes()), error.to_string());
    output.answer(
        &json!({ "path": object.path, "object_bytes": object.bytes, "problem": problem }),
        format_args!("{path}  DAMAGED: {problem}"),
    )
}

fn is_of_timeline(object: &StoredObject, timeline: TimelineId) -> bool {
    match &object.name {
        Some(StoredName::LogFile(_, LogFileName::History(_))) => false,
        Some(StoredName::LogFile(_, name)) => name.timeline() == timeline,
        Some(_) | None => false,
    }
}

/// What an object is, as far as its place tells.
fn kind_of(name: Option<&StoredName>) -> &'static str {
    match name {
        Some(StoredName::RepositoryHeader) => "repository",
        Some(StoredName::Key(_)) => "keys",
        Some(StoredName::Scratch) => "scratch",
        Some(StoredName::LogFile(_, name)) => name.kind().name(),
        Some(StoredName::Gap(..)) => "gap record",
        Some(StoredName::Object(_, name)) if name.as_str().starts_with("tails/") => "log tail",
        Some(StoredName::Object(..)) => "part of a backup",
        None => "unknown",
    }
}

fn entry(object: &StoredObject, header: Option<&Header>, output: &mut Output) -> Result<(), Failure> {
    let system = object.name.as_ref().and_then(StoredName::system).map(|system| system.to_string());
    let kind = header.map_or_else(|| kind_of(object.name.as_ref()), |header| header.kind.name());
    // Whatever lies there has the name that somebody gave it: a terminal must not obey it.
    let (path, bytes) = (escape(object.path.as_bytes()), grouped(object.bytes));
    let name = object.path.rsplit('/').next();
    let mut value = json!({
        "system": system, "path": object.path, "name": name, "kind": kind, "object_bytes": object.bytes,
    });
    let Some(header) = header else {
        return output.answer(&value, format_args!("{path}  {kind}, {bytes} bytes"));
    };
    let compression = match header.compression {
        Compression::None => "not compressed",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
        Compression::Snappy => "snappy",
    };
    value["start"] = header.start.to_string().into();
    value["end"] = header.end.to_string().into();
    value["ends_early"] = header.ends_early.into();
    value["plain_bytes"] = header.plain_bytes.into();
    value["compression"] = compression.into();
    value["encrypted"] = header.encryption.is_some().into();
    value["created_micros"] = header.created_micros.into();
    let encrypted = if header.encryption.is_some() { ", encrypted" } else { "" };
    let early = if header.ends_early { ", its records end early" } else { "" };
    output.answer(
        &value,
        format_args!(
            "{path}  {kind}, {bytes} of {} bytes, {compression}{encrypted}, {} to {}{early}, {}",
            grouped(header.plain_bytes),
            header.start,
            header.end,
            utc(header.created_micros)
        ),
    )
}

fn rotate_key(shared: &Shared, rotate: &RotateRepositoryKey, output: &mut Output) -> Result<(), Failure> {
    let new = rotate.new.source().ok_or_else(|| Failure::Usage("give the new master key".to_owned()))?;
    let url = url_of(shared, rotate.repository.given())?;
    let repository = Repository::open(&url, options(shared))?;
    let rotation = Rotation {
        others: if rotate.keep_others { OtherMasterKeys::Keep } else { OtherMasterKeys::Drop },
        key: if rotate.renew { KeyInForce::Renewed } else { KeyInForce::Newest },
    };
    let rotated = repository.rotate_master_key(&new, rotation)?;
    output.note_done();
    let mut text = match rotated.removed_master_keys.as_slice() {
        [] => "the new master key opens the repository, as those before do".to_owned(),
        old => format!("the new master key opens the repository; these no longer do: {}", old.join(", ")),
    };
    for ring in &rotated.left_rings {
        let (object, reason) = (escape(ring.object.as_bytes()), escape(ring.reason.as_bytes()));
        text += &format!("\nolder keys stay in {object}: {reason}");
    }
    let left: Vec<&str> = rotated.left_rings.iter().map(|ring| ring.object.as_str()).collect();
    let value = json!({
        "repository": repository.url(), "removed_master_keys": rotated.removed_master_keys, "left_rings": left,
    });
    output.answer(&value, text)
}

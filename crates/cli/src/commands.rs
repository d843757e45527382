//! The sub-commands, one function each.

mod backup;
mod batch;
mod bench;
mod count;
mod drill;
mod dump;
mod expire;
mod in_doubt;
mod inspect;
mod load;
mod log;
mod manual;
mod postgresql_backup;
mod postgresql_drill;
mod promote;
mod repository;
mod rows;
mod serve;
mod settings;
mod stats;
mod switchover;
mod tables;
mod timelines;
mod tour;
mod verify;

use std::ffi::OsString;
use std::path::Path;

use seawall::{Database, DatabaseDirectory, Error, MasterKey, OpenMode, Options};
use seawall_settings::KeyOf;

use crate::archiving;
use crate::arguments::{ArchiveArguments, Arguments, Command, InspectCommand, MasterKeyArguments, Shared};
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::progress;

/// Runs the sub-command that `arguments` name.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let shared = &arguments.shared;
    guard_secrets(shared, output)?;
    match &arguments.command {
        Command::Init(init) => tables::init(shared, init, output),
        Command::Info(directory) => inspect::info(shared, &directory.dir, output),
        Command::Stats(stats) => stats::stats(shared, stats, output),
        Command::Check(directory) => inspect::check(shared, &directory.dir, output),
        Command::Inspect(InspectCommand::Runs(directory)) => inspect::runs(shared, &directory.dir, output),
        Command::Tables(directory) => tables::list(shared, &directory.dir, output),
        Command::Count(count) => count::count(shared, count, output),
        Command::Create(table) => tables::create(shared, table, output),
        Command::Drop(table) => tables::drop(shared, table, output),
        Command::Rename(rename) => tables::rename(shared, rename, output),
        Command::Truncate(table) => tables::truncate(shared, table, output),
        Command::Put(put) => rows::put(shared, put, output),
        Command::Get(get) => rows::get(shared, get, output),
        Command::Delete(row) => rows::delete(shared, row, output),
        Command::Scan(scan) => rows::scan(shared, scan, output),
        Command::Batch(batch) => batch::batch(shared, batch, output),
        Command::Load(load) => load::load(shared, load, output),
        Command::Dump(dump) => dump::dump(shared, dump),
        Command::Log(log) => log::log(shared, log, output),
        Command::InDoubt(in_doubt) => in_doubt::in_doubt(shared, in_doubt, output),
        Command::CommitPrepared(one) => in_doubt::commit_prepared(shared, one, output),
        Command::RollbackPrepared(one) => in_doubt::rollback_prepared(shared, one, output),
        Command::RestorePoint(point) => timelines::restore_point(shared, point, output),
        Command::NewTimeline(new) => timelines::new_timeline(shared, new, output),
        Command::ReleaseHold(hold) => timelines::release_hold(shared, hold, output),
        Command::RotateKey(rotate) => tables::rotate_key(shared, rotate, output),
        Command::ArchivePush(rest) => archive("archive-push", rest, shared),
        Command::ArchiveGet(rest) => archive("archive-get", rest, shared),
        Command::ArchiveStatus(rest) => archive("archive-status", rest, shared),
        Command::ArchiveStop(rest) => archive("archive-stop", rest, shared),
        Command::ArchiveMode(mode) => backup::archive_mode(mode, output),
        Command::Repo(command) => repository::repository(shared, command, output),
        Command::Checkpoint(directory) => inspect::checkpoint(shared, &directory.dir, output),
        Command::Backup(backup) => backup::backup(shared, backup, output),
        Command::Restore(restore) => backup::restore(shared, restore, output),
        Command::Expire(expire) => expire::expire(shared, expire, output),
        Command::Verify(verify) => verify::verify(shared, verify, output),
        Command::Drill(drill) => drill::drill(shared, drill, output),
        Command::Completions(completions) => manual::completions(completions, output),
        Command::Man(pages) => manual::pages(pages, output),
        Command::Promote(promote) => promote::promote(promote, output),
        Command::Switchover(switchover) => switchover::switchover(switchover, output),
        Command::Serve(serve) => serve::serve(shared, serve, output),
        Command::Settings => settings::show(shared, output),
        Command::Bench(bench) => bench::bench(shared, bench, output),
        Command::Tour(tour) => tour::tour(shared, tour, output),
    }
}

/// What is done before anything secret is read, or handed on.
fn guard_secrets(shared: &Shared, output: &Output) -> Result<(), Failure> {
    let settings = &shared.settings;
    if settings.has_secrets() {
        seawall_io::forbid_core_files().map_err(Failure::io("cannot keep secrets out of core files"))?;
    }
    if let Some(path) = settings.exposed_file() {
        let path = path.display();
        output.warn(format_args!(
            "everybody may read the credentials in {path}: take that right away, as `chmod o-rwx {path}` does"
        ));
    }
    let mut keys = vec![shared.key_of(KeyOf::Repositories), shared.key_of(KeyOf::Databases)];
    keys.dedup_by_key(|key| key.as_ref().map(MasterKey::to_string));
    keys.into_iter().flatten().try_for_each(|key| guard_key(&key, output))
}

/// What is done before a master key is read: its memory is kept out of core files, and a file that others can read is named.
fn guard_key(key: &MasterKey, output: &Output) -> Result<(), Failure> {
    seawall_io::forbid_core_files().map_err(Failure::io("cannot keep the master key out of core files"))?;
    if let MasterKey::File(path) = key
        && files::is_open_to_others(path)
    {
        let path = path.display();
        output.warn(format_args!(
            "others may read the master key {path}: take their rights away, as `chmod 600 {path}` does"
        ));
    }
    Ok(())
}

/// With an option before it: the usual way is in `archiving`.
fn archive(command: &str, rest: &ArchiveArguments, shared: &Shared) -> Result<(), Failure> {
    let mut arguments = vec![OsString::from("seawall"), OsString::from(command)];
    arguments.extend(options_of_archiving(command, shared)?);
    arguments.extend(rest.rest.iter().cloned());
    match archiving::run(&arguments) {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Told(code)),
        None => Err(Failure::Usage(format!("for help: `seawall {command} --help`, and nothing else"))),
    }
}

/// The options before a command that reads its arguments itself, as it reads them.
fn options_of_archiving(command: &str, shared: &Shared) -> Result<Vec<OsString>, Failure> {
    // Each of them by name: one that is forgotten here would be dropped without a word.
    let Shared {
        json,
        // How much is to be said is the agent's business.
        verbose: _,
        config,
        settings: _,
        cache_mib,
        memtable_mib,
        page_protection,
        page_image_compression,
        run_percent,
        master_key,
    } = shared;
    let MasterKeyArguments { master_key_file, master_key_env, master_key_command } = master_key;
    let of_databases = [
        ("--cache-mib", cache_mib.is_some()),
        ("--memtable-mib", memtable_mib.is_some()),
        ("--page-protection", page_protection.is_some()),
        ("--page-image-compression", page_image_compression.is_some()),
        ("--run-percent", run_percent.is_some()),
    ];
    if let Some((option, _)) = of_databases.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!("{option} means nothing to {command}: leave it out")));
    }
    let with_value = |option: &str, value: OsString| {
        let mut word = OsString::from(option);
        word.push("=");
        word.push(value);
        word
    };
    let config = config.clone().map(|path| with_value("--config", path.into()));
    let file = master_key_file.clone().map(|path| with_value("--master-key-file", path.into()));
    let variable = master_key_env.clone().map(|name| with_value("--master-key-env", name.into()));
    let printed = master_key_command.clone().map(|line| with_value("--master-key-command", line.into()));
    let json = json.then(|| OsString::from("--json"));
    Ok(json.into_iter().chain(config).chain(file).chain(variable).chain(printed).collect())
}

/// Engine options: what is set, else the defaults.
fn options(shared: &Shared, mode: OpenMode) -> Options {
    let settings = &shared.settings;
    let bytes = |path| settings.require::<u64>(path).saturating_mul(1 << 20);
    let mut options = Options { mode, master_key: shared.key_of(KeyOf::Databases), ..Options::default() };
    options.memory.cache_bytes = bytes("database.cache_mib");
    options.memory.memtable_bytes = bytes("database.memtable_mib");
    options.checkpoint.page_protection = settings.require("database.page_protection");
    options.checkpoint.page_image_compression = settings.require("database.page_image_compression");
    options.checkpoint.runs.run_percent = settings.require("database.run_percent");
    options
}

/// Opens a database, with a progress bar if the last process left something to replay.
fn open(shared: &Shared, directory: &Path, mode: OpenMode) -> Result<Database, Failure> {
    open_with(directory, options(shared, mode)).map_err(not_a_database)
}

/// Where a database must be, a directory of something else is none; it is "not empty" only to `init`.
fn not_a_database(failure: Failure) -> Failure {
    match failure {
        Failure::Database(Error::NotEmpty { directory, .. }) => Error::NoDatabase { directory }.into(),
        other => other,
    }
}

/// Closes a database after the change that was asked for, which is durable: what fails now leaves the next open more to recover,
/// and takes nothing back. So it is a warning.
fn close(database: Database, directory: &Path, output: &mut Output) {
    output.note_done();
    if let Err(error) = close_where_it_is(database, directory, output) {
        output.warn(format_args!(
            "the change is made and durable, but closing the database failed, so the next open has more to recover: {error}"
        ));
    }
}

/// Closes a database after a change that was not made, or not all of it: why is for the command to say.
fn close_unfinished(database: Database, directory: &Path, output: &mut Output) {
    if let Err(error) = close_where_it_is(database, directory, output) {
        output
            .warn(format_args!("closing the database failed, so the next open has more to recover: {error}"));
    }
}

/// Closes a database, and warns if its directory is not where it was.
fn close_where_it_is(database: Database, directory: &Path, output: &Output) -> Result<(), Error> {
    let (opened_as, now_at) = (directory.display().to_string(), database.directory());
    let closed = database.close();
    if now_at != opened_as {
        output.warn(format_args!(
            "{opened_as} was moved to {now_at} while it was open: what was written is in the moved directory"
        ));
    }
    closed
}

fn open_with(directory: &Path, options: Options) -> Result<Database, Failure> {
    let mut bar = None;
    let database = DatabaseDirectory::at(directory).open(options, |step| {
        let total = step.end_at_most.bytes_since(step.redo_point);
        let bar = bar.get_or_insert_with(|| progress::bytes(Some(total), "recovering"));
        bar.set_position(step.replayed.bytes_since(step.redo_point));
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings and the engine must not have different ones.
    #[test]
    fn the_defaults_of_settings_are_those_of_the_engine() {
        let shared = Shared::default();
        let (ours, engine) = (options(&shared, OpenMode::Existing), Options::default());
        assert_eq!(
            (ours.memory.cache_bytes, ours.memory.memtable_bytes),
            (engine.memory.cache_bytes, engine.memory.memtable_bytes)
        );
        assert_eq!(ours.checkpoint.page_protection, engine.checkpoint.page_protection);
        assert_eq!(ours.checkpoint.page_image_compression, engine.checkpoint.page_image_compression);
        assert_eq!(ours.checkpoint.runs, engine.checkpoint.runs);
    }
}

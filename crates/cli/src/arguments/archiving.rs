//! Arguments of the commands that PostgreSQL runs, which read them themselves. What help, completions and manual pages say of their
//! options is here: the list of settings has each of them.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Args, Command, ValueHint};
use seawall_settings::{KNOWN, Kind, Known, Unset};

/// The commands that read their arguments themselves.
const ARCHIVE_COMMANDS: [&str; 4] = ["archive-push", "archive-get", "archive-status", "archive-stop"];

/// Shared options that mean nothing to them.
const OF_DATABASES: [&str; 5] =
    ["cache_mib", "memtable_mib", "page_protection", "page_image_compression", "run_percent"];

const NOTES: &str = "\
Run in PostgreSQL's data directory, as PostgreSQL does; or anywhere, if the file lies in a data directory. The first call starts an agent, which uploads whatever waits to be \
archived, many files at once, and fetches ahead for recovery. Later calls mostly find that the work is done.

Each option is also an environment variable, such as SEAWALL_QUEUE_MAX, and a line of /etc/seawall/seawall.toml: the repository \
and the master key at its top, the others in [archive], as in `queue_max = \"64GiB\"`.

Exit codes of archive-get: 0 fetched; 1 not in the archive; 126 cannot tell, or in a gap, so that a recovery stops and does \
not end early (1 on a standby, which asks again).

Example, for postgresql.conf:
  archive_mode = on
  archive_command = 'seawall archive-push --repository=s3://wal/main %p'
  restore_command = 'seawall archive-get --repository=s3://wal/main %f %p'";

/// What help and manual pages of these commands say besides the options.
pub(crate) fn archive_notes() -> &'static str {
    NOTES
}

/// Read by the archive commands themselves.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArguments {
    /// Options, and what PostgreSQL gives: %p, or %f %p.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<std::ffi::OsString>,
}

/// The command line as help, completions and manual pages show it: with the options of the archive commands, as clap describes those
/// of the others.
pub(crate) fn with_archive_options(mut command: Command) -> Command {
    let shared: Vec<String> = command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
    let is_own =
        |argument: &Arg| !argument.get_long().is_some_and(|long| shared.iter().any(|name| name == long));
    let options: Vec<Arg> = options().into_iter().filter(is_own).collect();
    command = ARCHIVE_COMMANDS.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            command.mut_arg("rest", |rest| operand(name, rest)).args(&options)
        })
    });
    // Only then do the commands have the shared options.
    command.build();
    ARCHIVE_COMMANDS.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            command.mut_args(|argument| match OF_DATABASES.contains(&argument.get_id().as_str()) {
                true => argument.hide(true),
                false => argument,
            })
        })
    })
}

/// What PostgreSQL gives the command.
fn operand(command: &str, rest: Arg) -> Arg {
    let rest = rest.trailing_var_arg(false).allow_hyphen_values(false);
    match command {
        "archive-push" => rest
            .num_args(1)
            .required(true)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .help("The file to archive: %p"),
        "archive-get" => rest
            .num_args(2)
            .required(true)
            .value_names(["NAME", "FILE"])
            .help("The name of the file, and where to put it: %f %p"),
        _ => rest.hide(true),
    }
}

/// Each setting of archiving as an option, and the one option that is no setting.
fn options() -> Vec<Arg> {
    let of_archiving = KNOWN.iter().filter(|known| ["", "archive"].contains(&known.section()));
    let data_directory = Arg::new("data-directory")
        .long("data-directory")
        .value_name("DIR")
        .value_hint(ValueHint::DirPath)
        .help("PostgreSQL's, if this does not run in it and the file lies elsewhere");
    of_archiving.map(option).chain([data_directory]).collect()
}

fn option(known: &Known) -> Arg {
    // Names live as long as the process, and this is asked for once.
    let name: &'static str = known.option().trim_start_matches("--").to_owned().leak();
    let unset = match known.unset {
        Unset::Value(value) => value,
        Unset::Means(words) => words,
    };
    let meaning = format!("{}. Default: {unset}", capitalized(known.meaning)).replace('`', "");
    let option = Arg::new(name).long(name).help(meaning);
    let option = if known.is_list() { option.action(ArgAction::Append) } else { option };
    match known.kind {
        Kind::Repositories => option.value_name("URL"),
        Kind::Path => option.value_name("FILE").value_hint(ValueHint::AnyPath),
        Kind::Number(..) => option.value_name("NUMBER"),
        Kind::Time => option.value_name("TIME"),
        Kind::Bytes => option.value_name("BYTES"),
        Kind::Compression => option.value_name("NAME"),
        Kind::OneOf(words) => {
            option.value_name("WORD").value_parser(PossibleValuesParser::new(words.iter().copied()))
        }
        Kind::Text | Kind::HiddenText | Kind::Texts | Kind::Assignments => option.value_name("TEXT"),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
}

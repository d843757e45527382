//! Arguments of the commands that read and write rows.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::key_type::KeyType;

#[derive(Debug, Args)]
pub(crate) struct OneRow {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// The key.
    #[arg(allow_hyphen_values = true)]
    pub(crate) key: String,
    /// Keys have this type, as a `TypedTable` writes them: u64, text, uuid and others; those of a tuple with commas between
    /// them, as in u64,text. The parts of a key stand between commas, too.
    #[arg(long, value_name = "TYPE")]
    pub(crate) key_type: Option<KeyType>,
    /// Keys and values are bytes in hexadecimal; with --key-type, values.
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  seawall put bank accounts alice 100
  seawall put bank photos cat.jpg --value-file cat.jpg
  seawall put bank accounts --hex 616c696365 313030
  seawall put shop orders --key-type u64,text 7,2026-11-23 1250")]
pub(crate) struct Put {
    #[command(flatten)]
    pub(crate) row: OneRow,
    /// The value as it is, a hyphen too: --value-file takes one from a file or standard input.
    #[arg(allow_hyphen_values = true, required_unless_present = "value_file")]
    pub(crate) value: Option<String>,
    /// Take the value from this file, byte for byte; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub(crate) value_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  seawall get bank accounts alice
  seawall get bank photos cat.jpg --raw > cat.jpg")]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) row: OneRow,
    /// The value's bytes and nothing else: no newline after it.
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line is the key, a tab, the value; bytes that are not printable are shown as \\n, \\t, \\\\ \
and \\xNN.

Examples:
  seawall scan bank airports --prefix SE --limit 10
  seawall scan bank airports --from A --to C --keys-only
  seawall scan bank airports --reverse --limit 1       the last row
  seawall scan shop orders --key-type u64,text --prefix 7"
)]
pub(crate) struct Scan {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// Start at this key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// End before this key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only keys that start with this; with --key-type, with these first parts.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    pub(crate) prefix: Option<String>,
    /// Show at most this many rows.
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// The last row first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Show no values.
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Keys have this type, as a `TypedTable` writes them: u64, text, uuid and others; those of a tuple with commas between
    /// them, as in u64,text. The parts of a key stand between commas, too.
    #[arg(long, value_name = "TYPE")]
    pub(crate) key_type: Option<KeyType>,
    /// Keys and values are bytes in hexadecimal; with --key-type, values.
    #[arg(long)]
    pub(crate) hex: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seawall count bank\n  seawall count bank accounts airports --json")]
pub(crate) struct Count {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Names of the tables. Default: all.
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A line of the file is a change, as a JSON object with these fields and no others; keys and values are strings:

  {\"put\":\"accounts\",\"key\":\"alice\",\"value\":\"70\"}
  {\"delete\":\"accounts\",\"key\":\"bob\"}
  {\"put\":\"photos\",\"key_hex\":\"00ff\",\"value_hex\":\"ffd8\"}

All tables must exist. If a line is wrong, the message has its number, and nothing is committed. A transaction holds at most \
256 MiB; `load` commits in batches.

Example:
  seawall batch bank transfer.jsonl")]
pub(crate) struct Batch {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The file; `-` is standard input.
    pub(crate) file: PathBuf,
}

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values (RFC 4180), with a header.
    Csv,
    /// As CSV, with tabs in place of commas.
    Tsv,
    /// One JSON object a line.
    Jsonl,
}

const LOAD_HELP: &str = "\
How a row becomes a key and a value:
  * The key is the column named by --key. Without --key, it is the column `key` (or `key_hex`, in hexadecimal), or else \
the first column. JSON lines have no first field: name it with --key unless it is `key` or `key_hex`.
  * With several --key columns, the key is their texts joined by --separator, as in `CA/LAX`.
  * If only the column `value` (or `value_hex`) is left, the value is its text. Otherwise the value is a JSON object of the \
columns that are left, in their order: {\"name\":\"Los Angeles International\",\"state\":\"CA\"}.

A row whose key is in the table already replaces it. A table that does not exist is made.

Each batch is one durable transaction, committed in the order of the file: after a crash the table holds whole batches, \
and every batch that --acks has announced. To resume there, give the announced number to --skip.

Examples:
  seawall load bank airports data/airports.csv
  seawall load bank by_state data/airports.csv --key state --key iata
  seawall dump other accounts | seawall load bank accounts - --format csv
  seawall load bank events events.jsonl --key id --acks --batch 100";

#[derive(Debug, Args)]
#[command(after_long_help = LOAD_HELP, after_help = "See --help for how a row becomes key and value, and examples.")]
pub(crate) struct Load {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table; made if missing.
    pub(crate) table: String,
    /// The file; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Format of the file. Default: by its extension (.csv, .tsv, .jsonl, .ndjson), CSV for standard input.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// A column of the key; may be given several times.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key: Vec<String>,
    /// Keys have this type, as a `TypedTable` writes them: u64, text, uuid and others; those of a tuple with commas between
    /// them, as in u64,text. A column for each part, or one with the parts between commas.
    #[arg(long, value_name = "TYPE")]
    pub(crate) key_type: Option<KeyType>,
    /// Stands between the parts of a key of several columns that has no type.
    #[arg(long, value_name = "TEXT", default_value = "/", allow_hyphen_values = true)]
    pub(crate) separator: String,
    /// The first line is a row. Columns are called 1, 2, 3; if there are two, they are key and value.
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Quotes of CSV and TSV are bytes like any others, and enclose nothing: the TSV of other databases.
    #[arg(long)]
    pub(crate) no_quotes: bool,
    /// Rows in a transaction. It also ends when it holds 16 MiB.
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Print `committed ROWS` (rows of the file so far) after each durable transaction.
    #[arg(long)]
    pub(crate) acks: bool,
    /// Leave out the first rows of the file, because they are loaded already.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub(crate) skip: u64,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The columns are `key` and `value`, of one consistent snapshot, in key order. CSV and TSV hold the bytes as they are \
(quoted where needed), so that what is loaded again is the same to the byte. --hex writes `key_hex` and `value_hex` in \
hexadecimal, for tools that want text. JSON lines use hexadecimal for the rows that are not text, and only for those.

Examples:
  seawall dump bank airports > airports.csv
  seawall dump bank airports --format jsonl --output airports.jsonl")]
pub(crate) struct Dump {
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// Name of the table.
    pub(crate) table: String,
    /// Format of the output. Default: by the extension of --output, else CSV, or JSON lines with --json.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write to this file (replaced if it exists; on disk when the command returns) and not to standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Keys have this type, as a `TypedTable` writes them: u64, text, uuid and others; those of a tuple with commas between
    /// them, as in u64,text. The parts of a key stand between commas, too.
    #[arg(long, value_name = "TYPE")]
    pub(crate) key_type: Option<KeyType>,
    /// Keys and values in hexadecimal; with --key-type, values.
    #[arg(long)]
    pub(crate) hex: bool,
}

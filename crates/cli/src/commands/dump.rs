//! `dump`: all rows of a table, as one snapshot sees them, in a form that `load` reads.

use std::io::{self, Write};

use seawall::OpenMode;

use super::open;
use crate::arguments::{Dump, Format, Shared};
use crate::failure::Failure;
use crate::files::OutputFile;
use crate::key_type::text_of;
use crate::output::Notation;
use crate::progress;
use crate::rows::{RowWriter, format_of};

pub(crate) fn dump(shared: &Shared, dump: &Dump) -> Result<(), Failure> {
    // Looked up first: a misspelt table must not cost the file that is there.
    let database = open(shared, &dump.dir, OpenMode::ReadOnly)?;
    let table = database.table(&dump.table)?;
    let snapshot = database.snapshot();
    let by_default = if shared.json { Format::Jsonl } else { Format::Csv };
    let format = dump.format.or_else(|| dump.output.as_deref().and_then(format_of)).unwrap_or(by_default);
    let values = Notation::new(dump.hex);
    let keys = if dump.key_type.is_some() { Notation::Text } else { values };
    let mut rows = snapshot.range::<&[u8]>(&table, ..);
    let mut write_all = |writer: &mut dyn Write, failed: &dyn Fn(io::Error) -> Failure, visible: bool| {
        let bar = if visible { progress::rows("dumping") } else { indicatif::ProgressBar::hidden() };
        let mut writer = RowWriter::new(writer, format, keys, values).map_err(failed)?;
        while let Some((key, value)) = rows.next_row()? {
            match &dump.key_type {
                Some(key_type) => writer.write(text_of(key_type, key)?.as_bytes(), value).map_err(failed)?,
                None => writer.write(key, value).map_err(failed)?,
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        writer.finish().map_err(failed)?.flush().map_err(failed)
    };
    match &dump.output {
        None => {
            let mut writer = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
            // Rows and a bar on one terminal would run into each other.
            write_all(&mut writer, &Failure::output, false)
        }
        Some(path) => {
            let mut file = OutputFile::create(path)?;
            let name = path.display().to_string();
            let failed = |source| Failure::Io { what: format!("cannot write {name}"), source };
            write_all(&mut file, &failed, true)?;
            file.finish()
        }
    }
}

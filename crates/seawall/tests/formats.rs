//! `docs/formats.md` is put together from the byte tables that stand beside the code, so that it cannot differ from
//! them. `SEAWALL_BLESS=1 cargo test -p seawall --test formats` writes it anew.

use std::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# Every byte on disk

Put together from the byte tables beside the code. Every format has a version; an unknown one is refused.

```text
bank/
  superblock      what must be known first, in two copies
  pages           the page file: space map, interior pages, leaves, overflow extents
  recovery/chunk  images of the pages that the last chunk overwrote; `recovery/sort-*` is scratch of a bulk load
  log/            segments, named by timeline (8 hex digits) and number (16), timeline histories, and marks of received
                  timelines; `spare.*` is a segment that is being made; `pending.1` and `pending.2` are copies of
                  its buffers, for `Async` commits; `holds` says who needs it
  keys            of an encrypted database only: the data key, wrapped by master keys
  lock            held by the process that has the database open
  measurements    the speed of replay and the last checkpoints; nothing depends on it
  creating        there while the database is being created
  restoring       there while it is being restored
  archiving-off   of a restored database: it does not archive, and no backup of it is taken, until that is allowed
  backups-begun   the last backups that were begun of it, and how far each has come
```
Only `superblock`, `pages`, `recovery/chunk`, `log/` and `keys` are the database: copy them together, with the database
closed. What an archive holds comes last.
";

/// Title and source of each format.
const FORMATS: &[(&str, &str)] = &[
    ("Superblock", "tree/src/superblock.rs"),
    ("Keys", "keys/src/keys_file.rs"),
    ("Log segment", "wal/src/segment.rs"),
    ("Log record", "wal/src/record.rs"),
    ("Log record: commit", "wal/src/commit.rs"),
    ("Log record: prepare and decision", "wal/src/prepared.rs"),
    ("Log record: others", "wal/src/control.rs"),
    ("Log record: page images", "wal/src/page_images.rs"),
    ("Pending file of the log", "wal/src/pending.rs"),
    ("Timeline history", "wal/src/timeline.rs"),
    ("Received log", "wal/src/received.rs"),
    ("Holds on the log", "wal/src/holds/file.rs"),
    ("Page header", "tree/src/page/header.rs"),
    ("References between pages", "tree/src/page/reference.rs"),
    ("Encrypted page", "tree/src/page/encrypted.rs"),
    ("Leaf", "tree/src/page/leaf.rs"),
    ("Interior page", "tree/src/page/interior.rs"),
    ("Overflow extent", "tree/src/page/overflow.rs"),
    ("Space map", "tree/src/space_map.rs"),
    ("Recovery file", "tree/src/recovery_file.rs"),
    ("Recovery file: header", "tree/src/recovery_file/header.rs"),
    ("Recovery file: region", "tree/src/recovery_file/region.rs"),
    ("Encrypted image", "tree/src/recovery_file/encrypted.rs"),
    ("Page images", "tree/src/image_compression.rs"),
    ("Catalog", "engine/src/catalog.rs"),
    ("In-doubt transactions: rows", "engine/src/in_doubt/rows.rs"),
    ("In-doubt transactions: guards", "engine/src/in_doubt/guards.rs"),
    ("In-doubt transactions: decisions", "engine/src/in_doubt/decisions.rs"),
    ("Measurements", "engine/src/measurements.rs"),
    ("Archive: places of objects", "archive/src/layout.rs"),
    ("Archive: repository", "archive/src/repository_header.rs"),
    ("Archive: object", "archive/src/envelope.rs"),
    ("Archive: frame of an object", "archive/src/envelope/frame.rs"),
    ("Archive: gap", "archive/src/gap.rs"),
    ("Archive: repository key", "keys/src/repository_key.rs"),
    ("Archive: ring of keys", "keys/src/key_ring.rs"),
    ("Archive: names of other objects", "archive/src/object_name.rs"),
    ("Archive: spool", "archive_agent/src/spool.rs"),
    ("Backup: run", "backup/src/run.rs"),
    ("Restore: marker", "engine/src/restore/marker.rs"),
    ("Restore: archiving off", "engine/src/restore/archive_mode.rs"),
    ("Restore: reserved timeline", "backup/src/reservation.rs"),
    ("Backup: manifest", "backup/src/manifest.rs"),
    ("Backup: progress", "backup/src/progress.rs"),
    ("Backup: those that were begun", "engine/src/backup/begun.rs"),
    ("Backup: mark of removal", "backup/src/removal_mark.rs"),
    ("Backup of PostgreSQL: manifest", "backup/src/postgresql/manifest.rs"),
    ("Restore of PostgreSQL: marker", "backup/src/postgresql/attempt.rs"),
];

/// The documentation at the top of a source file.
fn module_documentation(source: &str) -> String {
    source
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or(""))
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn the_document_of_formats_is_what_stands_beside_the_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut document = INTRODUCTION.to_owned();
    for (title, path) in FORMATS {
        let text = module_documentation(&std::fs::read_to_string(crates.join(path)).unwrap());
        assert!(text.contains('|') || text.contains("```"), "{path} has no table");
        write!(document, "\n## {title}\n\n`crates/{path}`\n\n{text}").unwrap();
    }
    let place = crates.parent().unwrap().join("docs/formats.md");
    if std::env::var_os("SEAWALL_BLESS").is_some() {
        std::fs::write(&place, &document).unwrap();
    }
    let written = std::fs::read_to_string(&place).unwrap();
    assert!(
        written == document,
        "a table has changed: run this test with SEAWALL_BLESS=1 and look at the difference"
    );
}

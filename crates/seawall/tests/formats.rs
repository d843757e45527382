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
  statistics      what a database that is open tells other processes about itself; nothing depends on it
  quorum          where commits wait for standbys: what was visible, and whether the server goes on alone
  aside/          what a former primary had and nobody else, cut off its log; nothing reads it
  creating        there while the database is being created
  restoring       there while it is being restored, or while a standby is made of its primary
  copied          of a standby that is a copy of a running primary, as long as it lacks log that the copy needs
  rewinding       of a former primary whose rows are being made those of the server that it is to follow
  handover        of a primary that has handed its role over, or was about to: to whom, and where the log ends
  standby         of a directory that is or was a standby's; for people, and for `seawall serve`
  control         the socket of a server that follows another one
  archiving-off   of a restored database: it does not archive, and no backup of it is taken, until that is allowed
  backups-begun   the last backups that were begun of it, and how far each has come
```
Only `superblock`, `pages`, `recovery/chunk`, `log/` and `keys` are the database: copy them together, with the database
closed. What an archive holds comes last.
";

/// Title and source of each format.
const FORMATS: &[(&str, &str)] = &[
    ("Superblock", "storage/tree/src/superblock.rs"),
    ("Keys", "foundation/keys/src/keys_file.rs"),
    ("Log segment", "storage/wal/src/segment.rs"),
    ("Log record", "storage/wal/src/record.rs"),
    ("Log record: commit", "storage/wal/src/commit.rs"),
    ("Log record: prepare and decision", "storage/wal/src/prepared.rs"),
    ("Log record: others", "storage/wal/src/control.rs"),
    ("Log record: page images", "storage/wal/src/page_images.rs"),
    ("Pending file of the log", "storage/wal/src/pending.rs"),
    ("Timeline history", "storage/wal/src/timeline.rs"),
    ("Received log", "storage/wal/src/received.rs"),
    ("Holds on the log", "storage/wal/src/holds/file.rs"),
    ("Page header", "storage/tree/src/page/header.rs"),
    ("References between pages", "storage/tree/src/page/reference.rs"),
    ("Encrypted page", "storage/tree/src/page/encrypted.rs"),
    ("Leaf", "storage/tree/src/page/leaf.rs"),
    ("Interior page", "storage/tree/src/page/interior.rs"),
    ("Overflow extent", "storage/tree/src/page/overflow.rs"),
    ("Space map", "storage/tree/src/space_map.rs"),
    ("Page of the space map", "storage/tree/src/space_map/map_page.rs"),
    ("Recovery file", "storage/tree/src/recovery_file.rs"),
    ("Recovery file: header", "storage/tree/src/recovery_file/header.rs"),
    ("Recovery file: region", "storage/tree/src/recovery_file/region.rs"),
    ("Encrypted image", "storage/tree/src/recovery_file/encrypted.rs"),
    ("Page images", "storage/tree/src/image_compression.rs"),
    ("Catalog", "storage/engine/src/catalog.rs"),
    ("Runs", "storage/engine/src/runs/run.rs"),
    ("Runs: filters", "storage/engine/src/runs/filter.rs"),
    ("In-doubt transactions: rows", "storage/engine/src/in_doubt/rows.rs"),
    ("In-doubt transactions: guards", "storage/engine/src/in_doubt/guards.rs"),
    ("In-doubt transactions: decisions", "storage/engine/src/in_doubt/decisions.rs"),
    ("SQL: keys", "foundation/codec/src/sort_key.rs"),
    ("What was visible", "storage/engine/src/quorum/mark.rs"),
    ("Measurements", "storage/engine/src/pacing/measurements.rs"),
    ("Published statistics", "storage/engine/src/inspect/statistics/published.rs"),
    ("Archive: places of objects", "archive/repository/src/layout.rs"),
    ("Archive: repository", "archive/repository/src/repository_header.rs"),
    ("Archive: object", "archive/repository/src/envelope.rs"),
    ("Archive: frame of an object", "archive/repository/src/envelope/frame.rs"),
    ("Archive: gap", "archive/repository/src/gap.rs"),
    ("Archive: repository key", "foundation/keys/src/repository_key.rs"),
    ("Archive: ring of keys", "foundation/keys/src/key_ring.rs"),
    ("Archive: names of other objects", "archive/repository/src/object_name.rs"),
    ("Archive: spool", "postgresql/agent/src/spool.rs"),
    ("Backup: run", "archive/backup/src/run.rs"),
    ("Restore: marker", "storage/engine/src/recovery/restore/marker.rs"),
    ("Restore: archiving off", "storage/engine/src/recovery/archive_mode.rs"),
    ("Copy of a running database", "storage/engine/src/standby/copied.rs"),
    ("Rows that are being made those of another server", "storage/engine/src/recovery/rewind/marker.rs"),
    ("Role of the primary, handed over", "storage/engine/src/handover/record.rs"),
    ("Restore: reserved timeline", "archive/backup/src/reservation.rs"),
    ("Backup: manifest", "archive/backup/src/manifest.rs"),
    ("Backup: progress", "archive/backup/src/progress.rs"),
    ("Backup: those that were begun", "storage/engine/src/backup/begun.rs"),
    ("Backup: mark of removal", "archive/backup/src/removal_mark.rs"),
    ("Backup of PostgreSQL: manifest", "archive/backup/src/manifest/postgresql.rs"),
    ("Restore of PostgreSQL: marker", "postgresql/base_backup/src/attempt.rs"),
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

//! A former primary whose pages hold what nobody else has is made equal to the new one, on simulated disks.

use seawall_engine::{
    Backup, BackupItem, Database, Environment, Error, Options, Rewind, Rewound, RowsFromPrimary, SegmentName,
};

use super::copying::{Rows, history_of};

/// Rewinds the database at `place` to what `primary` has; `meanwhile` is called each time that rows were read. `name` is that of a hold.
pub(crate) fn rewind(
    primary: &Database,
    place: Environment,
    options: &Options,
    name: &str,
    meanwhile: &mut dyn FnMut(),
) -> Result<Option<Rewound>, Error> {
    let upstream = history_of(primary);
    let Some(mut rewind) = Rewind::begin(place, options, &upstream)? else { return Ok(None) };
    let mut backup = Backup::begin_copy(primary, name)?;
    backup.keep_since(Some(rewind.since()));
    let base = backup.base().clone();
    let timeline = upstream.timeline_at(base.redo_point);
    let offset = base.redo_point.get() % base.segment_bytes;
    let mut head = vec![0; usize::try_from(offset).unwrap()];
    let number = base.redo_point.get() / base.segment_bytes;
    match primary.log().read_segment(SegmentName { number, timeline }, 0, &mut head) {
        // The first record of a segment makes it.
        Err(Error::Io { .. }) if offset <= 4096 => head.clear(),
        read => read?,
    }
    let archive_mode = primary.log().archive_mode()?;
    rewind.take_beginning(RowsFromPrimary { base, history: upstream, head, archive_mode })?;
    for (key, value) in backup.system_rows() {
        rewind.push(key, value)?;
    }
    let mut next = Some(backup.first_key());
    while let Some(from) = next {
        meanwhile();
        next = read(&mut backup, &mut rewind, &from, None)?;
    }
    let asked = rewind.ask()?;
    backup.keep_since(None);
    for range in asked {
        let mut next = Some(range.start);
        while let Some(from) = next.filter(|from| *from < range.end) {
            meanwhile();
            next = read(&mut backup, &mut rewind, &from, Some(&range.end))?;
        }
    }
    let end = backup.finish()?;
    rewind.finish(end).map(Some)
}

/// What a walk comes by, in its order.
enum Item {
    Row(Vec<u8>, Vec<u8>),
    Kept(Vec<u8>, Vec<u8>, seawall_engine::RowSum),
}

fn read(
    backup: &mut Backup,
    rewind: &mut Rewind,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut items = Vec::new();
    let range = backup.read_range(from, 4 << 10, &mut |item| match item {
        BackupItem::Row { key, .. } if to.is_some_and(|to| key >= to) => {}
        BackupItem::Row { key, value } => items.push(Item::Row(key.to_vec(), value.to_vec())),
        BackupItem::Kept { first, last, sum } => {
            items.push(Item::Kept(first.to_vec(), last.to_vec(), sum.unwrap()));
        }
    })?;
    rewind.note_stamp(range.stamp);
    for item in items {
        match item {
            Item::Row(key, value) => rewind.push(&key, &value)?,
            Item::Kept(first, last, sum) => rewind.keep(&first, &last, sum)?,
        }
    }
    Ok(range.next)
}

/// Puts rows of a number and some bytes.
pub(crate) fn put_rows(database: &Database, name: &str, rows: std::ops::Range<u64>, bytes: usize, byte: u8) {
    let table = database.open_or_create_table(name).unwrap();
    for first in rows.clone().step_by(50) {
        let mut transaction = database.begin();
        for number in first..rows.end.min(first + 50) {
            transaction.put(&table, number.to_be_bytes(), vec![byte; bytes]).unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// All rows of a table.
pub(crate) fn rows_of(database: &Database, name: &str) -> Option<Rows> {
    let snapshot = database.snapshot();
    let table = snapshot.table(name).ok()?;
    let rows = snapshot.range::<&[u8]>(&table, ..);
    Some(rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect())
}

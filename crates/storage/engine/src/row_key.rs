//! The key of a row: the table's id as eight big-endian bytes, then the user's key. All tables share one memtable and
//! one tree, and the rows of a table lie together.

use seawall_types::TableId;

use crate::error::Error;

/// Longest key a user may give, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Length of a row key before the user's key.
pub(crate) const TABLE_BYTES: usize = 8;

/// Writes the row key of (`table`, `key`) into `row_key`, replacing what is there.
pub(crate) fn encode_into(row_key: &mut Vec<u8>, table: TableId, key: &[u8]) {
    row_key.clear();
    row_key.reserve(TABLE_BYTES + key.len());
    row_key.extend_from_slice(&table.get().to_be_bytes());
    row_key.extend_from_slice(key);
}

/// The row key of (`table`, `key`).
pub(crate) fn encode(table: TableId, key: &[u8]) -> Vec<u8> {
    let mut row_key = Vec::new();
    encode_into(&mut row_key, table, key);
    row_key
}

/// The table of a row key; `None` if it is too short to be one.
pub(crate) fn table_of(row_key: &[u8]) -> Option<TableId> {
    let (table, _) = row_key.split_first_chunk::<TABLE_BYTES>()?;
    Some(TableId::new(u64::from_be_bytes(*table)))
}

/// The user's key in a row key.
pub(crate) fn key_of(row_key: &[u8]) -> &[u8] {
    row_key.get(TABLE_BYTES..).unwrap_or_default()
}

/// First row key of a table and the first one after it.
pub(crate) fn table_range(table: TableId) -> (Vec<u8>, Vec<u8>) {
    (table.get().to_be_bytes().to_vec(), (table.get() + 1).to_be_bytes().to_vec())
}

/// Refuses keys and values over the limits. `page_key_bytes_max` is what a page of this database can hold.
pub(crate) fn check_sizes(key: &[u8], value: Option<&[u8]>, key_bytes_max: usize) -> Result<(), Error> {
    if key.len() > key_bytes_max {
        return Err(Error::KeyTooLarge { bytes: key.len(), limit: key_bytes_max });
    }
    match value {
        Some(value) if value.len() > VALUE_BYTES_MAX => {
            Err(Error::ValueTooLarge { bytes: value.len(), limit: VALUE_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_table_lie_inside_its_range() {
        let (from, to) = table_range(TableId::new(7));
        for key in [&b""[..], b"a", &[0xFF; 64]] {
            let row_key = encode(TableId::new(7), key);
            assert!(from <= row_key && row_key < to);
            assert_eq!(table_of(&row_key), Some(TableId::new(7)));
            assert_eq!(key_of(&row_key), key);
        }
        assert_eq!(table_of(b"short"), None);
    }
}

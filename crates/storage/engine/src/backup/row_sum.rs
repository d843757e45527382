//! Some rows in a few bytes: what two servers compare of leaves whose stamps say that neither has changed since their histories parted.
//!
//! A stamp does not tell everything. A leaf that went as a whole leaves none behind. A merge that puts the value that is there, or deletes
//! what is not, changes nothing, and no stamp either; another server may have merged what was there in between. Long values are an exception: who
//! puts one, or puts something in its place, always writes the leaf. So the sum is over keys, short values, and lengths of long ones.

use std::ops::Range;

use seawall_codec::checksum::{Crc64, mixed};
use seawall_tree::page::{LeafValue, LeafView};

/// How many rows there are, and a sum over them, whatever leaves they lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSum {
    /// How many.
    pub rows: u64,
    /// The sum of the mixed CRC-64/NVME of each row.
    pub sum: u64,
}

impl RowSum {
    /// Adds rows of a leaf.
    pub(crate) fn add_rows(&mut self, leaf: &LeafView<'_>, rows: Range<usize>) {
        let mut prefix = Crc64::new();
        prefix.update(leaf.prefix());
        for index in rows {
            let row = leaf.row(index);
            let mut checksum = prefix;
            checksum.update(row.key.suffix());
            self.add_value(checksum, leaf.prefix().len() + row.key.suffix().len(), row.value);
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row_key: &[u8], value: LeafValue<'_>) {
        let mut checksum = Crc64::new();
        checksum.update(row_key);
        self.add_value(checksum, row_key.len(), value);
    }

    /// Adds a row whose key has this checksum and length.
    fn add_value(&mut self, mut checksum: Crc64, key_bytes: usize, value: LeafValue<'_>) {
        // What parts the key from the value, however both are spelled.
        let key_bytes = key_bytes as u64;
        match value {
            LeafValue::Inline(value) => {
                checksum.update(&key_bytes.to_le_bytes());
                checksum.update(value);
            }
            LeafValue::Overflow(reference) => {
                checksum.update(&(!key_bytes).to_le_bytes());
                checksum.update(&reference.total_bytes.to_le_bytes());
            }
            // No row that anybody sees.
            LeafValue::Deleted => return,
        }
        self.rows += 1;
        // Checksums of similar rows are similar, and sums of those may be equal.
        self.sum = self.sum.wrapping_add(mixed(checksum.finish()));
    }
}

#[cfg(test)]
mod tests {
    use seawall_tree::page::{LeafBuilder, PageFormat, Row, RowKey};
    use seawall_types::{DatabaseId, Lsn, PageId};

    use super::*;

    type Rows<'r> = &'r [(&'r [u8], &'r [u8])];

    fn sum_of_leaves(leaves: &[Rows<'_>]) -> RowSum {
        let format = PageFormat::new(4096, &DatabaseId::from_bytes([1; 16])).unwrap();
        let (mut sum, mut total) = (RowSum::default(), RowSum::default());
        for rows in leaves {
            let mut builder = LeafBuilder::new(format);
            for (key, value) in *rows {
                builder.push(&Row { key: RowKey::from(*key), value: LeafValue::Inline(value) });
            }
            let page = builder.finish(PageId::new(7), Lsn::new(1));
            let leaf = page.view().leaf().unwrap();
            let mut by_row = RowSum::default();
            (0..leaf.len()).for_each(|row| by_row.add(&leaf.key(row).to_vec(), leaf.value(row)));
            sum.add_rows(&leaf, 0..leaf.len());
            total = RowSum { rows: total.rows + by_row.rows, sum: total.sum.wrapping_add(by_row.sum) };
            assert_eq!(sum, total, "by rows and by leaves");
        }
        sum
    }

    #[test]
    fn a_sum_depends_on_the_rows_and_not_on_the_leaves() {
        let whole = sum_of_leaves(&[&[(b"key 1", b"a"), (b"key 2", b"b"), (b"kez", b"c")]]);
        assert_eq!(whole.rows, 3);
        assert_eq!(sum_of_leaves(&[&[(b"key 1", b"a")], &[(b"key 2", b"b"), (b"kez", b"c")]]), whole);
        for others in [
            &[(&b"key 1"[..], &b"a"[..]), (b"key 3", b"b"), (b"kez", b"c")][..],
            &[(b"key 1", b"a"), (b"key 2", b"b")],
            &[(b"key 1", b"b"), (b"key 2", b"a"), (b"kez", b"c")],
            &[(b"ke", b"zc"), (b"key 1", b"a"), (b"key 2", b"b")],
        ] {
            assert_ne!(sum_of_leaves(&[others]), whole, "{others:?}");
        }
    }
}

//! Some rows of a scan whose length is not known before its end.
//!
//! The scan is a row of blocks, and one row of each is kept, chosen at random. When there is no room, one of each two neighbours goes, and
//! blocks are twice as long. So the rows are spread evenly, and stay in their order.

use seawall_values::Datum;
use seawall_values::random::Generator;

/// Rows that are kept at most, for each value that is asked for of a histogram: as PostgreSQL.
pub(crate) const ROWS_OF_TARGET: usize = 300;

/// A value that is wider is only counted.
const WIDTH_MAX: usize = 1_024;

/// A value of a sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampledValue {
    /// Null also for one that is too wide.
    pub(crate) value: Datum,
    /// 0: it is null.
    pub(crate) width: usize,
}

impl SampledValue {
    fn of(value: &Datum) -> SampledValue {
        let width = width_of(value);
        SampledValue { value: if width > WIDTH_MAX { Datum::Null } else { value.clone() }, width }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.width == 0
    }

    pub(crate) fn is_too_wide(&self) -> bool {
        self.width > WIDTH_MAX
    }
}

/// Bytes of a value, about as PostgreSQL stores it; 0: it is null.
fn width_of(value: &Datum) -> usize {
    match value {
        Datum::Null => 0,
        Datum::Bool(_) | Datum::Char(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Oid(_) | Datum::Float4(_) | Datum::Date(_) => 4,
        Datum::Int8(_) | Datum::Float8(_) | Datum::Time(_) | Datum::Unsigned8(_) => 8,
        Datum::Timestamp(_) | Datum::TimestampTz(_) => 8,
        Datum::TimeTz(..) => 12,
        Datum::Interval(_) | Datum::Uuid(_) => 16,
        Datum::Tid(..) => 6,
        Datum::Text(text) => text.len() + 1,
        Datum::Bytea(bytes) => bytes.len() + 1,
        other => crate::execute::values_bytes(std::slice::from_ref(other)).max(1),
    }
}

/// The rows that are kept so far.
#[derive(Debug)]
pub(crate) struct Sample {
    rows: Vec<Box<[SampledValue]>>,
    bytes: usize,
    rows_max: usize,
    bytes_max: usize,
    /// Rows that were seen.
    seen: u64,
    /// Rows of a block.
    stride: u64,
    /// Which row of the block under way is kept.
    chosen: u64,
    /// Always the same numbers, so the same rows have the same statistics.
    random: Generator,
}

impl Sample {
    /// At most so many rows, and so many bytes of memory.
    pub(crate) fn new(rows_max: usize, bytes_max: usize) -> Sample {
        Sample {
            rows: Vec::new(),
            bytes: 0,
            rows_max: rows_max.next_multiple_of(2),
            bytes_max,
            seen: 0,
            stride: 1,
            chosen: 0,
            random: Generator::seeded(0),
        }
    }

    pub(crate) fn push(&mut self, row: &[Datum]) {
        let at = self.seen % self.stride;
        if at == 0 && self.stride > 1 {
            self.chosen = self.random.draw() % self.stride;
        }
        self.seen += 1;
        if at != self.chosen {
            return;
        }
        let kept: Box<[SampledValue]> = row.iter().map(SampledValue::of).collect();
        self.bytes += bytes_of(&kept);
        self.rows.push(kept);
        // Of pairs only: else a block would have two rows.
        let is_full = self.rows.len() >= self.rows_max || self.bytes > self.bytes_max;
        if is_full && self.rows.len().is_multiple_of(2) {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        let mut kept = Vec::with_capacity(rows.len() / 2 + 1);
        while let (Some(first), Some(second)) = (rows.next(), rows.next()) {
            kept.push(if self.random.draw() & 1 == 0 { first } else { second });
        }
        self.bytes = kept.iter().map(|row| bytes_of(row)).sum();
        self.rows = kept;
        self.stride *= 2;
        // The rest of the block under way belongs to a row that was chosen.
        self.chosen = 0;
    }

    /// Rows that were seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Bytes that these take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows that are kept.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The values of a column, in the order of their rows.
    pub(crate) fn values(&self, column: usize) -> impl Iterator<Item = &SampledValue> {
        self.rows.iter().map(move |row| &row[column])
    }
}

fn bytes_of(row: &[SampledValue]) -> usize {
    row.iter().map(|value| size_of::<SampledValue>() + value.width.min(WIDTH_MAX)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(sample: &Sample) -> Vec<i64> {
        let number = |value: &SampledValue| match value.value {
            Datum::Int8(number) => number,
            ref other => panic!("{other:?}"),
        };
        sample.values(0).map(number).collect()
    }

    #[test]
    fn a_short_scan_is_kept_whole() {
        let mut sample = Sample::new(100, 1 << 20);
        (0..99).for_each(|number| sample.push(&[Datum::Int8(number)]));
        assert_eq!(numbers(&sample), (0..99).collect::<Vec<_>>());
    }

    /// Each part of the scan has its share, and no period of its values is followed.
    #[test]
    fn rows_of_a_long_scan_are_spread_evenly() {
        let mut sample = Sample::new(1_000, 1 << 20);
        (0..1_000_000).for_each(|number| sample.push(&[Datum::Int8(number)]));
        let kept = numbers(&sample);
        assert!((450..=1_000).contains(&kept.len()), "{}", kept.len());
        assert!(kept.is_sorted());
        let in_first_half = kept.iter().filter(|number| **number < 500_000).count();
        assert!(in_first_half.abs_diff(kept.len() / 2) < 3, "{in_first_half} of {}", kept.len());
        let even = kept.iter().filter(|number| **number % 2 == 0).count();
        assert!((kept.len() / 3..kept.len() * 2 / 3).contains(&even), "{even} of {}", kept.len());
    }

    #[test]
    fn the_memory_is_limited() {
        let mut sample = Sample::new(30_000, 64 << 10);
        let text = Datum::text("x".repeat(1_000));
        (0..10_000).for_each(|_| sample.push(std::slice::from_ref(&text)));
        assert!(sample.bytes <= (64 << 10) + 3_000, "{}", sample.bytes);
        assert!(sample.len() > 20);
    }
}

//! The bytes of a CSV or TSV file on their way to the parser: quotes as RFC 4180 has them, and records of bounded length.
//!
//! ```text
//!   file --> WellFormed --> csv::Reader --> cells
//!               |
//!               the first byte that is wrong: the reader gets all before it, then an error with the line
//! ```
//! Crate `csv` finds a meaning for any bytes: it takes an unclosed quote for the rest of the file, and a record as long as memory
//! lasts. For what passes here its meaning is the only one. So this looks for what is wrong, and leaves reading cells to the crate.

use std::io::{self, Read};

use super::{COLUMNS_MAX, Quotes, ROW_BYTES_MAX};

/// More bytes than the longest row has, in hexadecimal or with each byte a doubled quote.
const RECORD_BYTES_MAX: usize = 2 * ROW_BYTES_MAX;

/// Why a file is not read on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct Malformed {
    pub(super) line: u64,
    pub(super) problem: String,
}

/// What the byte before says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A cell begins.
    CellStart,
    /// In a cell without quotes.
    Plain,
    /// Between the quotes of a cell.
    Quoted,
    /// After a quote in a quoted cell: the last one, or the first of two that stand for one.
    AfterQuote,
}

/// Passes on the bytes of `input` up to the first that cannot belong to a record.
pub(super) struct WellFormed<R> {
    input: R,
    delimiter: u8,
    quotes: Quotes,
    place: Place,
    /// Line of the next byte, from 1 on.
    line: u64,
    /// Line in which the cell begins.
    cell_line: u64,
    /// Line in which the record begins.
    record_line: u64,
    /// Bytes of the record so far.
    record_bytes: usize,
    /// Cells of the record that have ended.
    cells: usize,
    refused: Option<Malformed>,
}

impl<R: Read> WellFormed<R> {
    pub(super) fn new(input: R, delimiter: u8, quotes: Quotes) -> WellFormed<R> {
        WellFormed {
            input,
            delimiter,
            quotes,
            place: Place::CellStart,
            line: 1,
            cell_line: 1,
            record_line: 1,
            record_bytes: 0,
            cells: 0,
            refused: None,
        }
    }

    /// At the end of the file: whether its last record has no line end, as if the rest had been cut off.
    pub(super) fn ends_in_record(&self) -> bool {
        self.record_bytes > 0
    }

    fn pass(&mut self, byte: u8) -> Result<(), Malformed> {
        let is_quote = byte == b'"' && self.quotes == Quotes::Enclosing;
        match self.place {
            Place::CellStart | Place::AfterQuote if is_quote => self.place = Place::Quoted,
            Place::Quoted if is_quote => self.place = Place::AfterQuote,
            Place::Quoted => {}
            Place::Plain if is_quote => return Err(self.malformed(self.line, QUOTE_IN_PLAIN_CELL)),
            _ if byte == b'\n' || byte == b'\r' => return self.end_record(byte),
            _ if byte == self.delimiter => return self.end_cell(),
            Place::AfterQuote => return Err(self.malformed(self.line, TEXT_AFTER_QUOTE)),
            Place::CellStart | Place::Plain => self.place = Place::Plain,
        }
        self.line += u64::from(byte == b'\n');
        self.count_byte()
    }

    fn count_byte(&mut self) -> Result<(), Malformed> {
        self.record_bytes += 1;
        if self.record_bytes <= RECORD_BYTES_MAX {
            return Ok(());
        }
        let problem = match self.place {
            Place::Quoted => format!(
                "a row of more than {RECORD_BYTES_MAX} bytes, which is the limit; the quote that opens in line {} may not be closed",
                self.cell_line
            ),
            _ => format!("a row of more than {RECORD_BYTES_MAX} bytes, which is the limit"),
        };
        Err(self.malformed(self.record_line, &problem))
    }

    fn end_cell(&mut self) -> Result<(), Malformed> {
        self.place = Place::CellStart;
        self.cell_line = self.line;
        self.cells += 1;
        if self.cells >= COLUMNS_MAX {
            let problem = format!("more than {COLUMNS_MAX} cells, which is the limit");
            return Err(self.malformed(self.record_line, &problem));
        }
        self.count_byte()
    }

    fn end_record(&mut self, byte: u8) -> Result<(), Malformed> {
        self.line += u64::from(byte == b'\n');
        self.place = Place::CellStart;
        (self.cell_line, self.record_line) = (self.line, self.line);
        (self.record_bytes, self.cells) = (0, 0);
        Ok(())
    }

    fn end_file(&self) -> io::Result<usize> {
        match self.place {
            Place::Quoted => Err(refusal(self.malformed(self.cell_line, UNCLOSED_QUOTE))),
            _ => Ok(0),
        }
    }

    fn malformed(&self, line: u64, problem: &str) -> Malformed {
        Malformed { line, problem: problem.to_owned() }
    }
}

const UNCLOSED_QUOTE: &str = "the quote that opens a cell here is never closed: the file may have been cut off, or a quote that is part of \
     a cell is not doubled; where quotes enclose nothing, say --no-quotes";
const TEXT_AFTER_QUOTE: &str = "text after the closing quote of a cell: a quote that is part of a cell is doubled, and the cell quoted; \
     where quotes enclose nothing, say --no-quotes";
const QUOTE_IN_PLAIN_CELL: &str = "a quote inside a cell that does not begin with one: quote the cell, and double the quotes in it; where quotes \
     enclose nothing, say --no-quotes";

impl<R: Read> Read for WellFormed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(malformed) = &self.refused {
            return Err(refusal(malformed.clone()));
        }
        let read = self.input.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            return self.end_file();
        }
        for (index, byte) in buffer[..read].iter().enumerate() {
            if let Err(malformed) = self.pass(*byte) {
                self.refused = Some(malformed.clone());
                // Zero would be the end of the file.
                return if index == 0 { Err(refusal(malformed)) } else { Ok(index) };
            }
        }
        Ok(read)
    }
}

fn refusal(malformed: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, malformed)
}

/// What [`WellFormed`] found, if the error is of its making.
pub(super) fn malformed(error: &io::Error) -> Option<&Malformed> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// As a source that gives few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn passed(text: &[u8], at_once: usize) -> (Vec<u8>, Option<u64>) {
        let mut reader = WellFormed::new(Slowly(text, at_once), b',', Quotes::Enclosing);
        let mut read = Vec::new();
        let line = match reader.read_to_end(&mut read) {
            Ok(_) => None,
            Err(error) => Some(malformed(&error).unwrap().line),
        };
        (read, line)
    }

    #[test]
    fn everything_before_the_wrong_byte_is_passed_on() {
        for (text, before, line) in [
            (&b"a,b\n1,\"2\"3\n"[..], &b"a,b\n1,\"2\""[..], 2),
            (b"a\"b\n", b"a", 1),
            (b"\"a\n\"\"\nb", b"\"a\n\"\"\nb", 1),
            (b"a\r\n\r\n\"b\"\"\"c", b"a\r\n\r\n\"b\"\"\"", 3),
        ] {
            for at_once in [1, 3, 1 << 16] {
                assert_eq!(passed(text, at_once), (before.to_vec(), Some(line)), "{}", text.escape_ascii());
            }
        }
    }

    /// A cell as it stands in a file; quoted if it must be, or if `wants_quotes`.
    fn written(cell: &[u8], wants_quotes: bool) -> Vec<u8> {
        if !wants_quotes && !cell.iter().any(|byte| b",\"\r\n".contains(byte)) {
            return cell.to_vec();
        }
        let doubled = cell.iter().flat_map(|byte| if *byte == b'"' { vec![b'"'; 2] } else { vec![*byte] });
        [b'"'].into_iter().chain(doubled).chain([b'"']).collect()
    }

    fn cell() -> impl Strategy<Value = (Vec<u8>, bool)> {
        (vec(prop::sample::select(b",\"\r\n ab\0\xff".to_vec()), 0..6), any::<bool>())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_file_of_the_standard_is_passed_on_as_it_is(
            records in vec(vec(cell(), 1..4), 0..4),
            crlf in any::<bool>(),
            at_once in 1_usize..20,
        ) {
            let record = |cells: &Vec<(Vec<u8>, bool)>| {
                cells.iter().map(|(cell, quotes)| written(cell, *quotes)).collect::<Vec<_>>().join(&b","[..])
            };
            let end = if crlf { &b"\r\n"[..] } else { b"\n" };
            let text = records.iter().map(record).collect::<Vec<_>>().join(end);
            prop_assert_eq!(passed(&text, at_once), (text, None));
        }

        /// RFC 4180 by its grammar: what it has a meaning for passes, and is read with that meaning.
        #[test]
        fn what_passes_is_what_the_grammar_has(text in vec(prop::sample::select(b",\"\"\r\nab".to_vec()), 0..16)) {
            let reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .from_reader(WellFormed::new(&text[..], b',', Quotes::Enclosing));
            let read: Result<Vec<csv::ByteRecord>, _> = reader.into_byte_records().collect();
            let read = read.ok().map(|records| {
                records.iter().map(|record| record.iter().map(<[u8]>::to_vec).collect()).collect::<Vec<Record>>()
            });
            prop_assert_eq!(read, records_of(&text));
        }
    }

    #[test]
    fn plain_quotes_are_bytes_like_others() {
        let text = &b"\"a,b\"c\n\"\n"[..];
        let mut read = Vec::new();
        WellFormed::new(text, b',', Quotes::Plain).read_to_end(&mut read).unwrap();
        assert_eq!(read, text);
    }

    type Record = Vec<Vec<u8>>;

    /// record = cell *("," cell), without empty lines; `None` if `text` is no sequence of these.
    fn records_of(mut text: &[u8]) -> Option<Vec<Record>> {
        let mut records = Vec::new();
        while !text.is_empty() {
            let (record, rest) = record_of(text)?;
            if text[0] != b'\r' && text[0] != b'\n' {
                records.push(record);
            }
            text = rest.get(1..).unwrap_or_default();
        }
        Some(records)
    }

    /// The record that `text` begins with, and the rest from the end of its line on.
    fn record_of(mut text: &[u8]) -> Option<(Record, &[u8])> {
        let mut record = Vec::new();
        loop {
            let (cell, rest) = cell_of(text)?;
            record.push(cell);
            match rest.first() {
                Some(b',') => text = &rest[1..],
                Some(b'\r' | b'\n') | None => return Some((record, rest)),
                Some(_) => return None,
            }
        }
    }

    /// cell = DQUOTE *(byte / 2DQUOTE) DQUOTE / *plain
    fn cell_of(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let Some(mut quoted) = text.strip_prefix(b"\"") else {
            let end = text.iter().position(|byte| b",\"\r\n".contains(byte)).unwrap_or(text.len());
            return Some((text[..end].to_vec(), &text[end..]));
        };
        let mut cell = Vec::new();
        loop {
            let end = quoted.iter().position(|byte| *byte == b'"')?;
            cell.extend_from_slice(&quoted[..end]);
            quoted = &quoted[end + 1..];
            match quoted.strip_prefix(b"\"") {
                Some(rest) => quoted = rest,
                None => return Some((cell, quoted)),
            }
            cell.push(b'"');
        }
    }
}

mod recorded;

use proptest::prelude::*;
use seawall_values::SqlResult;

use super::{CopyColumn, CopyReader, CopyWriter, Next};
use crate::parse::Utility;
use crate::parse::statement::Statement;
use crate::parse::statement::copy::CopyOptions;
use recorded::CASES;

type Row = Vec<Option<Vec<u8>>>;

fn options(options: &str, direction: &str) -> CopyOptions {
    let parsed = crate::parse::parse(&format!("COPY t {direction} {options}")).unwrap();
    let Statement::Utility(utility) = &parsed[0].statement else { panic!("no utility") };
    let Utility::Copy(copy) = &**utility else { panic!("no COPY") };
    copy.options.clone()
}

fn reader(options: &CopyOptions, columns: &[&str]) -> CopyReader {
    let column = |name: &&str| CopyColumn {
        name: (*name).to_owned(),
        is_never_null: options.force_not_null.iter().any(|forced| forced == name),
        is_null_in_quotes: options.force_null.iter().any(|forced| forced == name),
    };
    CopyReader::new(options, "t", columns.iter().map(column).collect())
}

fn rows(mut reader: CopyReader, columns: usize, data: &[u8], chunk: usize) -> SqlResult<Vec<Row>> {
    let mut rows = Vec::new();
    let mut chunks = data.chunks(chunk);
    loop {
        match reader.next()? {
            Next::Row => {
                rows.push((0..columns).map(|column| reader.field(column).map(<[u8]>::to_vec)).collect());
            }
            Next::More => match chunks.next() {
                Some(chunk) => reader.push(chunk),
                None => reader.finish(),
            },
            Next::End => return Ok(rows),
        }
    }
}

fn answer(read: SqlResult<Vec<Row>>) -> String {
    match read {
        Ok(rows) => {
            let field = |field: &Option<Vec<u8>>| match field {
                Some(bytes) => String::from_utf8(bytes.clone()).unwrap(),
                None => "~".to_owned(),
            };
            let rows: Vec<String> =
                rows.iter().map(|row| row.iter().map(field).collect::<Vec<_>>().join("|")).collect();
            rows.join("\n")
        }
        Err(error) => {
            let hint = error.hint.as_ref().map(|hint| format!("\nHINT {hint}")).unwrap_or_default();
            format!("{} {}{hint}\n{}", error.code.as_str(), error.message, error.context.unwrap_or_default())
        }
    }
}

#[test]
fn data_is_read_as_by_postgresql() {
    let mut wrong = Vec::new();
    for case in CASES {
        let options = options(case.options, "FROM STDIN");
        for chunk in [usize::MAX, 7, 2, 1] {
            let got = answer(rows(reader(&options, &["a", "b"]), 2, case.data, chunk));
            if got != case.answer {
                let data = case.data.escape_ascii();
                wrong.push(format!(
                    "{} {data} in chunks of {chunk}:\n{got}\ninstead of\n{}",
                    case.options, case.answer
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn binary_data_is_checked() {
    let options = options("(FORMAT binary)", "FROM STDIN");
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let read = |data: &[u8]| answer(rows(reader(&options, &["a", "b"]), 2, data, 3));
    let with = |rest: &[u8]| read(&[header, rest].concat());
    assert_eq!(with(b"\0\x02\0\0\0\x01x\xff\xff\xff\xff\xff\xff"), "x|~");
    assert_eq!(with(b"\0\x02\0\0\0\x01x\xff\xff\xff\xff"), "x|~");
    assert_eq!(read(b"PGCOPX"), "22P04 COPY file signature not recognized\nCOPY t, line 0");
    assert_eq!(read(&header[..11]), "22P04 invalid COPY file header (missing flags)\nCOPY t, line 0");
    assert_eq!(with(b"\0\x03"), "22P04 row field count is 3, expected 2\nCOPY t, line 1");
    assert_eq!(with(b"\0\x02\0\0\0\x09x"), "22P04 unexpected EOF in COPY data\nCOPY t, line 1");
    assert_eq!(with(b"\0\x02\xff\xff\xff\xfe"), "22P04 invalid field size\nCOPY t, line 1");
    assert_eq!(with(b"\xff\xffx"), "22P04 received copy data after EOF marker\nCOPY t, line 1");
}

#[test]
fn errors_of_values_say_where() {
    let options = options("", "FROM STDIN");
    let mut reader = reader(&options, &["a", "b"]);
    reader.push(b"x\t\\N\n");
    assert_eq!(reader.next(), Ok(Next::Row));
    let at = |column| {
        let error = seawall_values::SqlError::internal("");
        reader.failed(error, column).context
    };
    assert_eq!(at(Some(0)).as_deref(), Some("COPY t, line 1, column a: \"x\""));
    assert_eq!(at(Some(1)).as_deref(), Some("COPY t, line 1, column b: null input"));
    assert_eq!(at(None).as_deref(), Some("COPY t, line 1: \"x\t\\N\""));
}

fn written(options: &CopyOptions, rows: &[Row], columns: &[&str], is_quoted: bool) -> Vec<u8> {
    let mut writer = CopyWriter::new(options, vec![is_quoted; columns.len()]);
    let mut data = Vec::new();
    writer.begin(columns.iter().copied(), &mut data).unwrap();
    for row in rows {
        writer.begin_row(&mut data).unwrap();
        for field in row {
            writer.field(field.as_deref(), &mut data).unwrap();
        }
        writer.end_row(&mut data);
    }
    writer.end(&mut data);
    data
}

#[test]
fn data_is_written_as_by_postgresql() {
    let text = |value: &str| Some(value.as_bytes().to_vec());
    let rows = vec![
        vec![text("a\tb\\c\nd\re\u{8}\u{b}\u{c}\u{1}"), None],
        vec![text(""), text("q\"uo,te;d")],
        vec![text("\\."), text("\\N")],
    ];
    let write = |given: &str| {
        let bytes = written(&options(given, "TO STDOUT"), &rows, &["a", "b,"], false);
        String::from_utf8(bytes).unwrap()
    };
    // Recorded from PostgreSQL 15.
    assert_eq!(write(""), "a\\tb\\\\c\\nd\\re\\b\\v\\f\u{1}\t\\N\n\tq\"uo,te;d\n\\\\.\t\\\\N\n");
    assert_eq!(
        write("(FORMAT csv, HEADER)"),
        "a,\"b,\"\n\"a\tb\\c\nd\re\u{8}\u{b}\u{c}\u{1}\",\n\"\",\"q\"\"uo,te;d\"\n\\.,\\N\n"
    );
}

proptest! {
    /// What was written is read again, in every format and in chunks of any size.
    #[test]
    fn rows_come_back(
        rows_written in prop::collection::vec(prop::collection::vec(prop::option::of(".{0,8}|[\\\\\"',;\r\n\t.N]{0,5}"), 2), 0..8),
        format in prop::sample::select(vec!["", "(FORMAT csv)", "(FORMAT csv, ESCAPE '\\')", "(FORMAT binary)"]),
        chunk in 1_usize..20,
    ) {
        let rows_written: Vec<Row> = rows_written
            .into_iter()
            .map(|row| row.into_iter().map(|field| field.map(|text| text.replace('\0', "").into_bytes())).collect())
            .collect();
        let data = written(&options(format, "TO STDOUT"), &rows_written, &["a", "b"], false);
        let read = rows(reader(&options(format, "FROM STDIN"), &["a", "b"]), 2, &data, chunk);
        // A first field that is `\.` in csv, or begins a line, ends the data in PostgreSQL as well.
        if format.contains("csv") && rows_written.iter().any(|row| row[0].as_ref().is_some_and(|text| text.starts_with(b"\\."))) {
            return Ok(());
        }
        prop_assert_eq!(read.unwrap(), rows_written);
    }

    /// Any bytes are rows or an error, the same in chunks of any size.
    #[test]
    fn chunks_do_not_matter(
        data in prop::collection::vec(prop::sample::select(b"ab,\t\n\r\\.\"N1x\xff\0".to_vec()), 0..60),
        format in prop::sample::select(vec!["", "(FORMAT csv)", "(FORMAT csv, ESCAPE '\\')", "(FORMAT csv, HEADER match)"]),
        chunk in 1_usize..20,
    ) {
        let options = options(format, "FROM STDIN");
        let whole = answer_of_any(rows(reader(&options, &["a", "b"]), 2, &data, usize::MAX));
        let parts = answer_of_any(rows(reader(&options, &["a", "b"]), 2, &data, chunk));
        prop_assert_eq!(whole, parts);
    }
}

fn answer_of_any(read: SqlResult<Vec<Row>>) -> String {
    match read {
        Ok(rows) => format!("{rows:?}"),
        Err(error) => format!("{error} {:?}", error.context),
    }
}

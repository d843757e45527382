//! Answers to `COPY t FROM STDIN` of a table `t (a text, b text)`, recorded from PostgreSQL 15.

/// One statement, its data and its answer: rows with `|` between fields and `~` for nulls, or an error with its context.
pub(super) struct Case {
    pub(super) options: &'static str,
    pub(super) data: &'static [u8],
    pub(super) answer: &'static str,
}

pub(super) const CASES: &[Case] = &[
    Case {
        options: "",
        data: b"1\tone\n2\t\\N\n",
        answer: "1|one\n2|~",
    },
    Case {
        options: "",
        data: b"a\\tb\\\\c\\101\\x41\\n\tx\\v\\b\\f\\r\\q\n",
        answer: "a\tb\\cAA\n|x\x0b\x08\x0c\rq",
    },
    Case {
        options: "",
        data: b"1\tone\n\\.\njunk\n",
        answer: "1|one",
    },
    Case {
        options: "",
        data: b"1\tone\n2\ttwo\\.\n",
        answer: "1|one\n2|two",
    },
    Case {
        options: "",
        data: b"1\tone",
        answer: "1|one",
    },
    Case {
        options: "",
        data: b"",
        answer: "",
    },
    Case {
        options: "",
        data: b"\n",
        answer: "22P04 missing data for column \"b\"\nCOPY t, line 1: \"\"",
    },
    Case {
        options: "",
        data: b"1\n",
        answer: "22P04 missing data for column \"b\"\nCOPY t, line 1: \"1\"",
    },
    Case {
        options: "",
        data: b"1\t2\t3\n",
        answer: "22P04 extra data after last expected column\nCOPY t, line 1: \"1\t2\t3\"",
    },
    Case {
        options: "",
        data: b"1\tone\r\n2\ttwo\r\n",
        answer: "1|one\n2|two",
    },
    Case {
        options: "",
        data: b"1\tone\r2\ttwo\r",
        answer: "1|one\n2|two",
    },
    Case {
        options: "",
        data: b"1\tone\n2\ttwo\r\n",
        answer: "22P04 literal carriage return found in data\nHINT Use \"\\r\" to represent carriage return.\nCOPY t, line 2",
    },
    Case {
        options: "",
        data: b"1\tone\r\n2\ttwo\n",
        answer: "22P04 literal newline found in data\nHINT Use \"\\n\" to represent newline.\nCOPY t, line 2",
    },
    Case {
        options: "",
        data: b"1\tone\r2\ttwo\n",
        answer: "22P04 literal newline found in data\nHINT Use \"\\n\" to represent newline.\nCOPY t, line 2",
    },
    Case {
        options: "",
        data: b"1\tone\\\ntwo\n",
        answer: "1|one\ntwo",
    },
    Case {
        options: "",
        data: b"1\tone\n\\.\r\n",
        answer: "22P04 end-of-copy marker does not match previous newline style\nCOPY t, line 2",
    },
    Case {
        options: "",
        data: b"1\tone\n\\.x\n",
        answer: "22P04 end-of-copy marker corrupt\nCOPY t, line 2",
    },
    Case {
        options: "",
        data: b"\\\\N\t\\\\.\n",
        answer: "\\N|\\.",
    },
    Case {
        options: "",
        data: b"1\t\\377\n",
        answer: "22021 invalid byte sequence for encoding \"UTF8\": 0xff\nCOPY t, line 1: \"1\t\\377\"",
    },
    Case {
        options: "",
        data: b"1\t\xff\n",
        answer: "22021 invalid byte sequence for encoding \"UTF8\": 0xff\nCOPY t, line 1",
    },
    Case {
        options: "",
        data: b"1\t\\0\n",
        answer: "22021 invalid byte sequence for encoding \"UTF8\": 0x00\nCOPY t, line 1: \"1\t\\0\"",
    },
    Case {
        options: "",
        data: b"1\tgr\\303\\274n\n",
        answer: "1|gr\u{fc}n",
    },
    Case {
        options: "",
        data: b"1\txxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\ty\n",
        answer: "22P04 extra data after last expected column\nCOPY t, line 1: \"1\txxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"",
    },
    Case {
        options: "(delimiter '|', null '')",
        data: b"1|\n|2\n",
        answer: "1|~\n~|2",
    },
    Case {
        options: "(delimiter '|', null 'NULL')",
        data: b"NULL|a\\|b\nx\\NULL|y\n",
        answer: "~|a|b\nxNULL|y",
    },
    Case {
        options: "(format text, header)",
        data: b"any\tthing\n1\tone\n",
        answer: "1|one",
    },
    Case {
        options: "(format text, header match)",
        data: b"a\tb\n1\tone\n",
        answer: "1|one",
    },
    Case {
        options: "(header match)",
        data: b"a\tc\n1\tone\n",
        answer: "22P04 column name mismatch in header line field 2: got \"c\", expected \"b\"\nCOPY t, line 1: \"a\tc\"",
    },
    Case {
        options: "(header match)",
        data: b"a\n1\tone\n",
        answer: "22P04 wrong number of fields in header line: got 1, expected 2\nCOPY t, line 1: \"a\"",
    },
    Case {
        options: "(header match)",
        data: b"a\t\\N\n1\tone\n",
        answer: "22P04 column name mismatch in header line field 2: got null value (\"\\N\"), expected \"b\"\nCOPY t, line 1: \"a\t\\N\"",
    },
    Case {
        options: "(format csv, header match)",
        data: b"a,b\n1,one\n",
        answer: "1|one",
    },
    Case {
        options: "(format csv)",
        data: b"1,one\n2,\n\"\",\"\"\n",
        answer: "1|one\n2|~\n|",
    },
    Case {
        options: "(format csv)",
        data: b"1,\"a \"\"quoted\"\" one\"\n",
        answer: "1|a \"quoted\" one",
    },
    Case {
        options: "(format csv)",
        data: b"1,\"two\nlines\"\n2,x\n",
        answer: "1|two\nlines\n2|x",
    },
    Case {
        options: "(format csv)",
        data: b"1,\"two\nlines\"\n2,x,y\n",
        answer: "22P04 extra data after last expected column\nCOPY t, line 2: \"2,x,y\"",
    },
    Case {
        options: "(format csv)",
        data: b"1,\"open\n2,x\n",
        answer: "22P04 unterminated CSV quoted field\nCOPY t, line 1: \"1,\"open\n2,x\n\"",
    },
    Case {
        options: "(format csv)",
        data: b"1,a\"b,c\"d\n",
        answer: "1|ab,cd",
    },
    Case {
        options: "(format csv)",
        data: b"1,one\n\\.\n2,two\n",
        answer: "1|one",
    },
    Case {
        options: "(format csv)",
        data: b"1,\\.\n2,two\n",
        answer: "1|\\.\n2|two",
    },
    Case {
        options: "(format csv)",
        data: b"\\.x,two\n",
        answer: "\\.x|two",
    },
    Case {
        options: "(format csv)",
        data: b"1\n",
        answer: "22P04 missing data for column \"b\"\nCOPY t, line 1: \"1\"",
    },
    Case {
        options: "(format csv)",
        data: b"1,2,3\n",
        answer: "22P04 extra data after last expected column\nCOPY t, line 1: \"1,2,3\"",
    },
    Case {
        options: "(format csv)",
        data: b"\n",
        answer: "22P04 missing data for column \"b\"\nCOPY t, line 1: \"\"",
    },
    Case {
        options: "(format csv)",
        data: b"1,one\r\n2,two\r\n",
        answer: "1|one\n2|two",
    },
    Case {
        options: "(format csv)",
        data: b"1,one\n2,two\r\n",
        answer: "22P04 unquoted carriage return found in data\nHINT Use quoted CSV field to represent carriage return.\nCOPY t, line 2",
    },
    Case {
        options: "(format csv)",
        data: b"1,one\r\n2,two\n",
        answer: "22P04 unquoted newline found in data\nHINT Use quoted CSV field to represent newline.\nCOPY t, line 2",
    },
    Case {
        options: "(format csv)",
        data: b"1,\"a\r\nb\"\r\n2,two\r\n",
        answer: "1|a\r\nb\n2|two",
    },
    Case {
        options: "(format csv, escape '\\')",
        data: b"1,\"a\\\"b\\\\c\\d\"\n",
        answer: "1|a\"b\\c\\d",
    },
    Case {
        options: "(format csv, escape '\\')",
        data: b"1,\"a\\\"\nb\"\n2,x\n",
        answer: "1|a\"\nb\n2|x",
    },
    Case {
        options: "(format csv, quote '''', delimiter ';')",
        data: b"1;'a;''b'\n",
        answer: "1|a;'b",
    },
    Case {
        options: "(format csv, null 'nil')",
        data: b"nil,\"nil\"\n",
        answer: "~|nil",
    },
    Case {
        options: "(format csv, force_not_null (a))",
        data: b",\n",
        answer: "|~",
    },
    Case {
        options: "(format csv, force_null (b))",
        data: b"\"\",\"\"\n",
        answer: "|~",
    },
    Case {
        options: "(format csv, force_null (b), null 'x')",
        data: b"\"x\",\"x\"\n",
        answer: "x|~",
    },
    Case {
        options: "(format csv)",
        data: b"1,\xff\n",
        answer: "22021 invalid byte sequence for encoding \"UTF8\": 0xff\nCOPY t, line 1",
    },
    Case {
        options: "(format csv)",
        data: b"1,one",
        answer: "1|one",
    },
    Case {
        options: "(format csv, header)",
        data: b"a,b",
        answer: "",
    },
    Case {
        options: "(format csv)",
        data: b"\\.\n",
        answer: "",
    },
    Case {
        options: "(format csv)",
        data: b"\\\n",
        answer: "22P04 missing data for column \"b\"\nCOPY t, line 1: \"\\\"",
    },
    Case {
        options: "(format csv)",
        data: b"\\,x\n",
        answer: "\\|x",
    },
    Case {
        options: "",
        data: b"1\tone\\",
        answer: "1|one",
    },
];

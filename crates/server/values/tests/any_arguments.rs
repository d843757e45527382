//! No function panics, whatever its arguments are: each one that is there is called with values of its declared types that lie at the
//! ends of their ranges, or are empty, odd, or nested.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use seawall_values::datum::{Dimension, Interval};
use seawall_values::functions::{Call, implementation};
use seawall_values::set_returning::set_implementation;
use seawall_values::system::{FunctionKind, FunctionRow, system};
use seawall_values::{Array, Datum, Oid, Record, Settings, TypeReference, json, oid, text_form};

/// Numbers that look random: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

const TEXTS: &[&str] = &[
    "",
    "a",
    " ",
    "äö€😄",
    "x_y%z",
    "\\",
    "%",
    "%s %1$I %*L",
    "%-3$",
    "(",
    "[a-",
    "a{1000}",
    "(a|b)*c",
    "(?i)x",
    "{1,NULL,3}",
    "{{1},{2}}",
    "[1,2]",
    "{\"a\":[1,{\"b\":null}]}",
    "null",
    "1",
    "-1.5e3",
    "1e400",
    "NaN",
    "infinity",
    "2020-02-30",
    "12:60",
    "epoch",
    "UTC",
    "Europe/Berlin",
    "utf8",
    "latin1",
    "hex",
    "base64",
    "escape",
    "\\000",
    "\\xZZ",
    "\\u00e4",
    "\\+110000",
    "g",
    "gi",
    "day",
    "YYYY-MM-DD HH24:MI:SS.US TZ",
    "FM999G999D99PR",
    "RN",
    "9999999999999999999999",
    "\"A\".b",
    "a.b.c",
    "0",
    "1kB",
    "true",
    "NFD",
    "0/FFFFFFFF",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "raise_exception",
    "P1Y2M",
    "1 year -3 days",
    "𝒳\u{301}",
    "ß",
];

const JSON: &[&str] = &[
    "null",
    "true",
    "1",
    "-0.5e-7",
    "\"x\"",
    "\"\\u00e4\\n\"",
    "[]",
    "{}",
    "[1,[2,[3]],null]",
    "{\"a\":{\"b\":[1,{}]},\"\":null,\"a\":2}",
    "[{\"a\":1},{\"a\":null}]",
];

const PATHS: &[&str] = &[
    "$",
    "strict $.a",
    "$.**{2 to last}[*]",
    "$[last - 1 to $x].abs()",
    "$.a ? (@.b > 1 || exists (@[*]))",
    "-$.a[*] / 0",
    "$ == 1",
    "$[*] ? (@ like_regex \"a.*\" flag \"i\")",
    "$[-2147483648 to 2147483647].double()",
    "$.a ? ((@ starts with \"x\") is unknown)",
];

const INTEGERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    7,
    -8,
    10,
    63,
    64,
    100,
    127,
    128,
    255,
    1000,
    32767,
    -32768,
    65535,
    0x10_FFFF,
    2_147_483_647,
    -2_147_483_648,
    i64::MAX,
    i64::MIN,
];

const FLOATS: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.5,
    1e-300,
    1e300,
    f64::MAX,
    f64::MIN_POSITIVE,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e15,
    123456.789,
];

const NUMERICS: &[&str] = &[
    "0",
    "0.000",
    "1",
    "-1",
    "2.5",
    "-99999.99999",
    "1e30",
    "1e-30",
    "123456789012345678901234567890",
    "NaN",
    "Infinity",
    "-Infinity",
];

/// Casts whose second argument is the modifier of a type. The type limits it, so it is never as long as an integer may be.
const TAKES_MODIFIER: &[&str] = &["bit", "varbit", "bitfromint4", "bitfromint8", "bpchar", "varchar"];

/// Element types of arrays.
const ELEMENTS: &[Oid] = &[oid::INT4, oid::TEXT, oid::FLOAT8, oid::BOOL, oid::JSONB];

fn integer<T: TryFrom<i64>>(random: &mut Random) -> T {
    loop {
        if let Ok(value) = T::try_from(random.of(INTEGERS)) {
            return value;
        }
    }
}

fn value(of: Oid, random: &mut Random) -> Option<Datum> {
    Some(match of {
        oid::BOOL => Datum::Bool(random.below(2) == 0),
        oid::CHAR => Datum::Char(integer(random)),
        oid::INT2 => Datum::Int2(integer(random)),
        oid::INT4 => Datum::Int4(integer(random)),
        oid::INT8 => Datum::Int8(integer(random)),
        oid::OID | oid::REGCLASS | oid::REGTYPE | oid::XID | oid::CID => Datum::Oid(integer(random)),
        oid::FLOAT4 => Datum::Float4(random.of(&[0.0, -1.5, f32::MAX, f32::INFINITY, f32::NAN, 1e-40])),
        oid::FLOAT8 => Datum::Float8(random.of(FLOATS)),
        oid::NUMERIC => Datum::Numeric(Arc::new(random.of(NUMERICS).parse().unwrap())),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN => Datum::text(random.of(TEXTS)),
        oid::JSON => Datum::text(random.of(JSON)),
        oid::JSONPATH => Datum::text(random.of(PATHS)),
        oid::JSONB => Datum::Jsonb(Arc::new(json::parse(random.of(JSON)).unwrap())),
        oid::BYTEA => Datum::Bytea(Arc::from(random.of(TEXTS).as_bytes())),
        oid::DATE => Datum::Date(random.of(&[0, 1, -1, 8000, i32::MIN, i32::MAX, -2_451_545, 2_145_031_948])),
        oid::TIME => Datum::Time(random.of(&[0, 1, 86_399_999_999, 86_400_000_000])),
        oid::TIMETZ => Datum::TimeTz(random.of(&[0, 1, 86_400_000_000]), random.of(&[0, -57_599, 57_599])),
        oid::TIMESTAMP => Datum::Timestamp(moment(random)),
        oid::TIMESTAMPTZ => Datum::TimestampTz(moment(random)),
        oid::INTERVAL => Datum::Interval(Interval {
            months: integer(random),
            days: integer(random),
            micros: random.of(INTEGERS),
        }),
        oid::UUID => Datum::Uuid([random.below(256).try_into().unwrap(); 16]),
        oid::PG_LSN | oid::XID8 => Datum::Unsigned8(random.of(&[0, 1, u64::MAX])),
        oid::TID => Datum::Tid(integer(random), integer(random)),
        oid::BIT | oid::VARBIT => {
            random.of(&[Datum::Bits(Arc::from([]), 0), Datum::Bits(Arc::from([0xA0]), 3)])
        }
        oid::RECORD => {
            let types = vec![oid::INT4, oid::TEXT];
            let values = types.iter().filter_map(|of| value(*of, random)).collect();
            Datum::Record(Arc::new(Record { types, names: None, values }))
        }
        _ => {
            let element = text_form::array_element(of)?;
            array(element, random)?
        }
    })
}

fn moment(random: &mut Random) -> i64 {
    random.of(&[
        0,
        1,
        -1,
        646_000_000_123_456,
        i64::MIN,
        i64::MAX,
        -211_813_488_000_000_000,
        9_223_371_331_199_999_999,
    ])
}

fn array(element: Oid, random: &mut Random) -> Option<Datum> {
    let shapes: &[&[(i32, i32)]] = &[
        &[],
        &[(1, 1)],
        &[(3, 1)],
        &[(2, -5)],
        &[(2, 1), (2, 0)],
        &[(2, i32::MAX - 2)],
        &[(1, 1), (1, 1), (1, 1)],
    ];
    let dimensions: Vec<Dimension> =
        random.of(shapes).iter().map(|&(length, lower)| Dimension { length, lower }).collect();
    let count = if dimensions.is_empty() { 0 } else { dimensions.iter().map(|found| found.length).product() };
    let values =
        (0..count).map(|_| if random.below(5) == 0 { Some(Datum::Null) } else { value(element, random) });
    Some(Datum::Array(Arc::new(Array { element, dimensions, values: values.collect::<Option<_>>()? })))
}

/// A type in the place of a polymorphic one.
fn concrete(declared: Oid, element: Oid) -> Oid {
    match declared {
        oid::ANY | oid::ANYELEMENT | oid::ANYNONARRAY | oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => {
            element
        }
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => text_form::array_of(element).unwrap(),
        other => other,
    }
}

/// Calls a function once. `Some` with the call if it panicked, or if no value has the type of an argument.
fn call(function: &FunctionRow, source: &str, random: &mut Random) -> Option<String> {
    let element = random.of(ELEMENTS);
    let mut types: Vec<Oid> =
        function.arguments.iter().map(|declared| concrete(*declared, element)).collect();
    if function.variadic == oid::ANY {
        types.pop();
        types.extend((0..random.below(5)).map(|_| random.of(ELEMENTS)));
    }
    let arguments: Option<Vec<Datum>> =
        types
            .iter()
            .map(|of| {
                if !function.is_strict && random.below(6) == 0 {
                    Some(Datum::Null)
                } else {
                    value(*of, random)
                }
            })
            .collect();
    let arguments = arguments?;
    let types: Vec<TypeReference> = types.into_iter().map(TypeReference::of).collect();
    let settings = Settings::default();
    let call = Call {
        arguments: &arguments,
        argument_types: &types,
        result_type: TypeReference::of(concrete(function.result, element)),
        settings: &settings,
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if let Some(implementation) = implementation(source) {
            drop(implementation(&call));
        }
        if let Some(implementation) = set_implementation(source) {
            drop(implementation(&call).map(|rows| rows.take(5).count()));
        }
    }));
    outcome.is_err().then(|| format!("{source} of {arguments:?}"))
}

#[test]
fn functions_return_values_or_errors() {
    const SEED: u64 = 0x5ea_1a11;
    println!("seed {SEED}");
    let mut random = Random(SEED);
    let mut count = 0;
    let mut panics = Vec::new();
    for function in system().functions() {
        let source = function.source.as_str();
        let is_there = implementation(source).is_some() || set_implementation(source).is_some();
        if function.kind != FunctionKind::Function || !is_there || TAKES_MODIFIER.contains(&source) {
            continue;
        }
        panics.extend((0..100).find_map(|_| call(function, source, &mut random)));
        count += 1;
    }
    assert!(count > 500, "{count} functions");
    assert!(panics.is_empty(), "{} functions panic:\n{}", panics.len(), panics.join("\n"));
}

//! Expressions of a wanted type, over the columns that are there.

/// Types that expressions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Bool,
    Numeric,
    Date,
    Array,
}

pub(crate) const KINDS: [Kind; 6] =
    [Kind::Int, Kind::Text, Kind::Bool, Kind::Numeric, Kind::Date, Kind::Array];

/// What may fail on some rows, and so depends on the order in which they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Never,
    Maybe,
}

/// A column that can be named.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The columns of tables t0 and t1, and of those that come and go.
pub(crate) const TABLE: [(&str, Kind, &str); 7] = [
    ("id", Kind::Int, "int"),
    ("a", Kind::Int, "int"),
    ("b", Kind::Text, "text"),
    ("c", Kind::Bool, "boolean"),
    ("d", Kind::Numeric, "numeric"),
    ("e", Kind::Date, "date"),
    ("f", Kind::Array, "int[]"),
];

/// The columns of a table under an alias.
pub(crate) fn columns_of(alias: &str) -> Vec<Column> {
    TABLE.iter().map(|(name, kind, _)| Column { name: format!("{alias}.{name}"), kind: *kind }).collect()
}

/// Draws parts of statements.
pub(crate) struct Maker {
    pub(crate) random: fastrand::Rng,
    pub(crate) failing: Failing,
    /// Aliases are numbered.
    pub(crate) aliases: u32,
}

impl Maker {
    pub(crate) fn new(seed: u64) -> Maker {
        Maker { random: fastrand::Rng::with_seed(seed), failing: Failing::Maybe, aliases: 0 }
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(0..count) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.random.usize(0..choices.len())]
    }

    pub(crate) fn kind(&mut self) -> Kind {
        KINDS[self.random.usize(0..KINDS.len())]
    }

    pub(crate) fn expression(&mut self, kind: Kind, columns: &[Column], depth: u32) -> String {
        // A mistake of the writer, now and then.
        let kind = if self.one_in(150) { self.kind() } else { kind };
        let fitting: Vec<&Column> = columns.iter().filter(|column| column.kind == kind).collect();
        if !fitting.is_empty() && (depth == 0 || self.one_in(3)) {
            return fitting[self.random.usize(0..fitting.len())].name.clone();
        }
        if depth == 0 {
            return self.literal(kind);
        }
        if self.one_in(8) {
            return self.any_of_kind(kind, columns, depth - 1);
        }
        match kind {
            Kind::Int => self.int(columns, depth - 1),
            Kind::Text => self.text(columns, depth - 1),
            Kind::Bool => self.bool(columns, depth - 1),
            Kind::Numeric => self.numeric(columns, depth - 1),
            Kind::Date => self.date(columns, depth - 1),
            Kind::Array => self.array(columns, depth - 1),
        }
    }

    fn literal(&mut self, kind: Kind) -> String {
        if self.one_in(12) {
            let name = TABLE.iter().find(|(_, of, _)| *of == kind).unwrap().2;
            return format!("null::{name}");
        }
        match kind {
            Kind::Int => self.pick(&["0", "1", "-1", "7", "42", "999"]).to_owned(),
            Kind::Text => self.pick(&["''", "'a'", "'Ab c'", "'%_'", "'äö'", "'it''s'", "'12'"]).to_owned(),
            Kind::Bool => self.pick(&["true", "false"]).to_owned(),
            Kind::Numeric => self.pick(&["0.0", "1.50", "-2.25", "100.001", "1e3"]).to_owned(),
            Kind::Date => {
                self.pick(&["date '2024-02-29'", "date '1999-12-31'", "date '2000-01-01'"]).to_owned()
            }
            Kind::Array => self.pick(&["array[1, 2, 3]", "'{}'::int[]", "'{4,NULL,5}'::int[]"]).to_owned(),
        }
    }

    /// What there is for each type alike.
    fn any_of_kind(&mut self, kind: Kind, columns: &[Column], depth: u32) -> String {
        let (one, two) = (self.expression(kind, columns, depth), self.expression(kind, columns, depth));
        match self.random.u8(0..5) {
            0 => format!("coalesce({one}, {two})"),
            1 => format!("nullif({one}, {two})"),
            2 => {
                let (of, when) = (self.kind(), self.kind());
                let (value, other) =
                    (self.expression(of, columns, depth), self.expression(when, columns, depth));
                let same = if of == when { format!("{value} = {other}") } else { format!("{value} is null") };
                format!("case when {same} then {one} else {two} end")
            }
            3 if kind != Kind::Array => format!("greatest({one}, {two})"),
            _ => {
                let condition = self.expression(Kind::Bool, columns, depth);
                format!("case when {condition} then {one} else {two} end")
            }
        }
    }

    fn int(&mut self, columns: &[Column], depth: u32) -> String {
        let one = self.expression(Kind::Int, columns, depth);
        match self.random.u8(0..11) {
            0 | 1 => {
                let (two, sign) = (self.expression(Kind::Int, columns, depth), self.pick(&["+", "-", "*"]));
                format!("(({one}) {sign} ({two})) % 1000")
            }
            2 => format!("abs({one})"),
            3 => format!("length({})", self.expression(Kind::Text, columns, depth)),
            4 => format!("cardinality({})", self.expression(Kind::Array, columns, depth)),
            5 => format!("({})::int", self.expression(Kind::Bool, columns, depth)),
            6 => {
                let (from, to) = (
                    self.expression(Kind::Date, columns, depth),
                    self.expression(Kind::Date, columns, depth),
                );
                format!("(({from}) - ({to})) % 1000")
            }
            7 => format!("extract(day from {})::int", self.expression(Kind::Date, columns, depth)),
            8 => format!("({})[2]", self.expression(Kind::Array, columns, depth)),
            9 => {
                let condition = self.condition_of_subquery(columns, depth);
                format!("(select count(*)::int from {condition})")
            }
            _ if self.failing == Failing::Never => format!("- ({one})"),
            _ => format!("({one}) / ({})", self.expression(Kind::Int, columns, depth)),
        }
    }

    /// A table and a condition, which may look at what is outside.
    fn condition_of_subquery(&mut self, columns: &[Column], depth: u32) -> String {
        self.aliases += 1;
        let (table, alias) = (self.pick(&["t0", "t1"]), format!("q{}", self.aliases));
        let inside = [columns, &columns_of(&alias)].concat();
        let condition = self.expression(Kind::Bool, &inside, depth.min(2));
        format!("{table} {alias} where {condition}")
    }

    fn text(&mut self, columns: &[Column], depth: u32) -> String {
        let one = self.expression(Kind::Text, columns, depth);
        match self.random.u8(0..9) {
            0 | 1 => format!("left(({one}) || ({}), 50)", self.expression(Kind::Text, columns, depth)),
            2 => format!(
                "{}({one})",
                self.pick(&["upper", "lower", "btrim", "reverse", "initcap", "md5", "quote_literal"])
            ),
            3 => format!("substr({one}, {}, 3)", self.expression(Kind::Int, columns, depth)),
            4 => format!("({})::text", {
                let kind = self.kind();
                self.expression(kind, columns, depth)
            }),
            5 => format!("replace({one}, 'a', {})", self.expression(Kind::Text, columns, depth)),
            6 => format!("lpad({one}, {} % 10, '*')", self.expression(Kind::Int, columns, depth)),
            7 => format!("array_to_string({}, ',')", self.expression(Kind::Array, columns, depth)),
            _ => format!("concat({one}, {}, '-')", self.expression(Kind::Int, columns, depth)),
        }
    }

    fn bool(&mut self, columns: &[Column], depth: u32) -> String {
        match self.random.u8(0..11) {
            0..4 => {
                let kind = self.kind();
                let (one, two) =
                    (self.expression(kind, columns, depth), self.expression(kind, columns, depth));
                let sign = self.pick(&["=", "<>", "<", ">=", "is distinct from", "is not distinct from"]);
                format!("(({one}) {sign} ({two}))")
            }
            4 => {
                let (one, two) = (
                    self.expression(Kind::Bool, columns, depth),
                    self.expression(Kind::Bool, columns, depth),
                );
                format!("({one} {} {two})", self.pick(&["and", "or"]))
            }
            5 => format!("not ({})", self.expression(Kind::Bool, columns, depth)),
            6 => {
                let kind = self.kind();
                format!("({}) is {}null", self.expression(kind, columns, depth), self.pick(&["", "not "]))
            }
            7 => {
                let kind = self.kind();
                let list: Vec<String> =
                    (0..3).map(|_| self.expression(kind, columns, depth.min(1))).collect();
                format!(
                    "({}) {} ({})",
                    self.expression(kind, columns, depth),
                    self.pick(&["in", "not in"]),
                    list.join(", ")
                )
            }
            8 => {
                let pattern = self.pick(&["'%a%'", "'_b%'", "'%'", "''"]);
                format!(
                    "({}) {} {pattern}",
                    self.expression(Kind::Text, columns, depth),
                    self.pick(&["like", "not like", "ilike"])
                )
            }
            9 => format!(
                "({}) = any ({})",
                self.expression(Kind::Int, columns, depth),
                self.expression(Kind::Array, columns, depth)
            ),
            _ => format!(
                "{}exists (select from {})",
                self.pick(&["", "not "]),
                self.condition_of_subquery(columns, depth)
            ),
        }
    }

    fn numeric(&mut self, columns: &[Column], depth: u32) -> String {
        let one = self.expression(Kind::Numeric, columns, depth);
        match self.random.u8(0..6) {
            0 | 1 => {
                let (two, sign) =
                    (self.expression(Kind::Numeric, columns, depth), self.pick(&["+", "-", "*"]));
                format!("round((({one}) {sign} ({two})) % 10000, 3)")
            }
            2 => format!("{}({one})", self.pick(&["abs", "floor", "ceil", "round", "trunc", "sign"])),
            3 => format!("({})::numeric", self.expression(Kind::Int, columns, depth)),
            4 if self.failing == Failing::Maybe => {
                format!("({one}) / ({})", self.expression(Kind::Numeric, columns, depth))
            }
            _ => format!("({one})::numeric(12, 2)"),
        }
    }

    fn date(&mut self, columns: &[Column], depth: u32) -> String {
        let one = self.expression(Kind::Date, columns, depth);
        match self.random.u8(0..3) {
            0 => format!("(({one}) + ({}) % 100)", self.expression(Kind::Int, columns, depth)),
            1 => format!("date_trunc('{}', {one})::date", self.pick(&["month", "year", "week"])),
            _ => format!("(({one}) + interval '1 {}')::date", self.pick(&["day", "month", "year"])),
        }
    }

    fn array(&mut self, columns: &[Column], depth: u32) -> String {
        let one = self.expression(Kind::Array, columns, depth);
        let int = self.expression(Kind::Int, columns, depth);
        match self.random.u8(0..5) {
            0 => format!("({one})[1:3] || ({})[1:2]", self.expression(Kind::Array, columns, depth)),
            1 => format!("array_append(({one})[1:4], {int})"),
            2 => format!("array_remove({one}, {int})"),
            3 => format!("array[{int}, {}]", self.expression(Kind::Int, columns, depth)),
            _ => format!("({one})[2:]"),
        }
    }
}

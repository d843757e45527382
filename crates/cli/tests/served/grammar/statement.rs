//! Statements: queries, changes of rows, definitions, transactions.

use super::expression::{Column, Failing, Kind, Maker, TABLE, columns_of};

/// Tables that are always there, and such that come and go.
const LASTING: [&str; 2] = ["t0", "t1"];
const PASSING: [&str; 3] = ["n0", "n1", "n2"];

/// What makes t0 and t1, and puts rows into them.
pub(crate) fn set_up() -> Vec<String> {
    LASTING
        .iter()
        .flat_map(|table| {
            let rows = "select i, i % 7, 'text ' || i % 5, i % 3 = 0, i * 1.25, date '2024-01-01' + i, array[i, i % 4] \
                        from generate_series(1, 20) i";
            [
                format!("create table {table} {}", definition()),
                format!("insert into {table} {rows}"),
                format!("insert into {table} (id) values (0), (-1)"),
            ]
        })
        .collect()
}

fn definition() -> String {
    let columns: Vec<String> = TABLE.iter().map(|(name, _, kind)| format!("{name} {kind}")).collect();
    format!("({}, primary key (id))", columns.join(", "))
}

impl Maker {
    pub(crate) fn statement(&mut self) -> String {
        self.failing = Failing::Maybe;
        match self.random.u8(0..20) {
            0..11 => self.query(2).sql,
            11..15 => {
                self.failing = Failing::Never;
                self.change()
            }
            15..17 => {
                self.failing = Failing::Never;
                self.define()
            }
            _ => self
                .pick(&["begin", "commit", "rollback", "savepoint s", "rollback to s", "release s"])
                .to_owned(),
        }
    }

    fn table(&mut self) -> &'static str {
        if self.one_in(6) { self.pick(&PASSING) } else { self.pick(&LASTING) }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("r{}", self.aliases)
    }

    /// An entry of FROM, with the columns that it adds.
    fn source(&mut self, depth: u32) -> (String, Vec<Column>) {
        let alias = self.alias();
        match self.random.u8(0..8) {
            0 if depth > 0 => {
                let query = self.query(depth - 1);
                let columns = query.columns(&alias);
                (format!("({}) {alias} ({})", query.sql, query.names()), columns)
            }
            1 => {
                let column = Column { name: format!("{alias}.v"), kind: Kind::Int };
                (format!("generate_series(1, {}) {alias} (v)", self.random.u8(0..6)), vec![column])
            }
            2 => {
                let columns = vec![
                    Column { name: format!("{alias}.x"), kind: Kind::Int },
                    Column { name: format!("{alias}.y"), kind: Kind::Text },
                ];
                (format!("(values (1, 'one'), (2, null), (null, 'none')) {alias} (x, y)"), columns)
            }
            _ => (format!("{} {alias}", self.table()), columns_of(&alias)),
        }
    }

    fn sources(&mut self, depth: u32) -> (String, Vec<Column>) {
        let (mut sql, mut columns) = self.source(depth);
        for _ in 0..*self.pick(&[&0, &0, &1, &1, &2]) {
            let (other, more) = self.source(depth);
            columns.extend(more);
            let kind = self.pick(&["join", "left join", "right join", "full join", "cross join"]);
            // A full join needs columns that are equal.
            let on = match kind {
                "cross join" => String::new(),
                "full join" => " on true".to_owned(),
                _ => format!(" on {}", self.expression(Kind::Bool, &columns, 2)),
            };
            sql = format!("{sql} {kind} {other}{on}");
        }
        (sql, columns)
    }

    /// A query with one to three columns.
    pub(crate) fn query(&mut self, depth: u32) -> Query {
        let kinds: Vec<Kind> = (0..self.random.usize(1..4)).map(|_| self.kind()).collect();
        let mut sql = self.select(&kinds, depth);
        if depth > 0 && self.one_in(6) {
            let word = self.pick(&["union", "union all", "intersect", "except", "except all"]);
            sql = format!("({sql}) {word} ({})", self.select(&kinds, depth - 1));
        }
        if self.one_in(8) {
            sql = format!("with w{0} as ({sql}) select * from w{0}", {
                self.aliases += 1;
                self.aliases
            });
        }
        if self.one_in(4) {
            let order: Vec<String> = (1..=kinds.len())
                .map(|number| {
                    format!("{number}{}", self.pick(&["", " desc", " nulls first", " desc nulls last"]))
                })
                .collect();
            let limit = if self.one_in(2) {
                format!(" limit {} offset {}", self.random.u8(0..9), self.random.u8(0..3))
            } else {
                String::new()
            };
            sql = format!(
                "select * from ({sql}) o{} order by {}{limit}",
                {
                    self.aliases += 1;
                    self.aliases
                },
                order.join(", ")
            );
        }
        Query { sql, kinds }
    }

    fn select(&mut self, kinds: &[Kind], depth: u32) -> String {
        let (from, columns) = self.sources(depth);
        let condition = self.expression(Kind::Bool, &columns, depth);
        let condition = if self.one_in(3) { String::new() } else { format!(" where {condition}") };
        if self.one_in(4) {
            return self.grouped(kinds, &from, &condition, &columns, depth);
        }
        let list: Vec<String> = kinds
            .iter()
            .map(|kind| {
                if *kind == Kind::Int && self.one_in(6) {
                    self.window(&columns)
                } else {
                    self.expression(*kind, &columns, depth)
                }
            })
            .enumerate()
            .map(|(index, value)| format!("{value} as c{index}"))
            .collect();
        let distinct = if self.one_in(6) { "distinct " } else { "" };
        format!("select {distinct}{} from {from}{condition}", list.join(", "))
    }

    /// One whose value does not depend on the order of rows that are peers.
    fn window(&mut self, columns: &[Column]) -> String {
        let function = self.pick(&["rank()", "dense_rank()", "count(*)"]);
        let (by, order) = (self.expression(Kind::Bool, columns, 1), self.expression(Kind::Int, columns, 1));
        format!("({function} over (partition by {by} order by {order}))::int")
    }

    fn grouped(
        &mut self,
        kinds: &[Kind],
        from: &str,
        condition: &str,
        columns: &[Column],
        depth: u32,
    ) -> String {
        let key_kind = self.kind();
        let key = self.expression(key_kind, columns, depth.min(1));
        // A key with a subquery in it is not known again in the list of results.
        let key = if key.contains("select") { self.expression(key_kind, columns, 0) } else { key };
        // Of a literal it would be a position.
        let key = format!("coalesce({key}, {key})");
        let list: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| {
                let of = self.expression(*kind, columns, depth);
                let value = match kind {
                    _ if *kind == key_kind && self.random.bool() => key.clone(),
                    Kind::Int => format!("{}({of})::int", self.pick(&["count", "count", "min", "max"])),
                    Kind::Text => self
                        .pick(&[
                            "min(OF)",
                            "max(OF)",
                            "string_agg(OF, ',' order by OF)",
                            "string_agg(distinct OF, ',')",
                        ])
                        .replace("OF", &of),
                    Kind::Bool => format!("{}({of})", self.pick(&["bool_and", "bool_or", "every"])),
                    Kind::Numeric => {
                        format!("round({}({of}), 4)", self.pick(&["sum", "avg", "min", "max", "stddev"]))
                    }
                    Kind::Date => format!("{}({of})", self.pick(&["min", "max"])),
                    Kind::Array => {
                        "array_agg(x order by x)".replace('x', &self.expression(Kind::Int, columns, 1))
                    }
                };
                format!("{value} as c{index}")
            })
            .collect();
        let having = if self.one_in(3) { " having count(*) > 1" } else { "" };
        format!("select {} from {from}{condition} group by {key}{having}", list.join(", "))
    }

    fn row(&mut self) -> String {
        let id = self.random.u8(0..60);
        let values: Vec<String> =
            TABLE[1..].iter().map(|(_, kind, _)| self.expression(*kind, &[], 2)).collect();
        format!("({id}, {})", values.join(", "))
    }

    fn change(&mut self) -> String {
        let table = self.table();
        let columns = columns_of(table);
        let (_, kind, _) = TABLE[self.random.usize(1..TABLE.len())];
        let name = TABLE.iter().rfind(|(_, of, _)| *of == kind).unwrap().0;
        let condition = self.expression(Kind::Bool, &columns, 2);
        match self.random.u8(0..7) {
            0 | 1 => format!("insert into {table} values {}, {}", self.row(), self.row()),
            2 => {
                let action = self.pick(&["do nothing", "do update set a = excluded.a, b = excluded.b"]);
                format!("insert into {table} values {} on conflict (id) {action} returning id, b", self.row())
            }
            3 => {
                let value = self.expression(kind, &columns, 2);
                format!("update {table} set {name} = {value} where {condition} returning *")
            }
            4 => format!("delete from {table} where id > 10 and {condition}"),
            5 => format!(
                "insert into {table} (id, a) select i, i from generate_series({0}, {0} + 3) i",
                self.random.u8(20..60)
            ),
            _ => format!(
                "update {table} set a = s.a from (select id, a from t1) s where s.id = {table}.id and {condition}"
            ),
        }
    }

    fn define(&mut self) -> String {
        let (table, number) = (self.pick(&PASSING), self.random.u8(0..3));
        match self.random.u8(0..12) {
            0..3 => format!("create table {table} {}", definition()),
            3 => format!(
                "create table if not exists {table} as select * from t0 where {}",
                self.expression(Kind::Bool, &columns_of("t0"), 2)
            ),
            4 => format!("drop table if exists {table} cascade"),
            5 => format!(
                "create {}index i{number} on {} (a, b)",
                if self.one_in(3) { "unique " } else { "" },
                self.table()
            ),
            6 => format!("drop index if exists i{number}"),
            7 => format!("create or replace view v{number} as {}", self.query(1).sql),
            8 => format!("drop view if exists v{number}"),
            9 => format!("truncate {table}"),
            10 => format!(
                "alter table {table} {}",
                self.pick(&[
                    "add column z int default 3",
                    "drop column z",
                    "alter b set not null",
                    "alter b drop not null",
                    "add check (a < 500)",
                    "rename c to c"
                ])
            ),
            _ => format!("select count(*) from v{number}"),
        }
    }
}

/// A query, and the types of its columns.
pub(crate) struct Query {
    pub(crate) sql: String,
    kinds: Vec<Kind>,
}

impl Query {
    fn columns(&self, alias: &str) -> Vec<Column> {
        self.kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| Column { name: format!("{alias}.k{index}"), kind: *kind })
            .collect()
    }

    fn names(&self) -> String {
        (0..self.kinds.len()).map(|index| format!("k{index}")).collect::<Vec<_>>().join(", ")
    }
}

select 'a' || true, false || 'b', concat('a', true), quote_literal(true), quote_nullable(false), quote_nullable(null::boolean)

select format('%s %L', true, false), 'x' || null::boolean, 1 || 'y', 'z' || 2.50

create table t (a int, c boolean)

insert into t values (1, true), (2, false), (3, null)

select a in ((select 2), 1), a not in ((select count(*)::int from t), 2) from t order by a

select a from t where a in ((select max(a) from t where c)) order by a

select a from t where a in ((select a from t where c) union (select 3)) order by a

select a from t where a in ((1), (2)) order by a

select a from t where (a, c) in ((1, true), (2, true)) order by a

select a from t where a in (((select 1) + 1), (select 3)) order by a

select a from t where a in ((select 1), )

create type pair as (x int, y text)

create type pair as (a int)

create type twice as (a int, A text)

create table pair (a int)

create type empty as ()

select row(1, 'a')::pair, '(2,"b c")'::pair, null::pair

select ('(3,d)'::pair).x, (row(4, 'e')::pair).y

select '(1)'::pair

select '(1,2,3)'::pair

select '(x,y)'::pair

select row('x', 'y')::pair

create table t (id int primary key, p pair, list pair[], note text)

insert into t values (1, row(10, 'ten'), array[row(1, 'one')::pair, row(2, 'two')::pair], 'first')

insert into t values (2, '(20,twenty)', '{"(3,three)"}', 'second'), (3, null, null, 'third')

select * from t order by id

select id, (p).x, (p).y, list[1], (list[2]).y from t order by id

select id, p is null, p is not null from t order by id

select id, (p).* from t order by id

select (list[1]).*, (row(1, 'r')::pair).* from t where id = 1

insert into t values (8, row('80', 'eighty')) returning (p).*

delete from t where id = 8

select id, (t.p).x + 1 as next from t where (p).y = 'ten'

select p, count(*) from t group by p order by p

select id from t where p = row(20, 'twenty')::pair

select id from t where p > row(10, 'a')::pair order by id

select row_to_json(t) from t order by id

select to_jsonb(p), to_json(list) from t order by id

update t set p.x = 11 where id = 1 returning p

update t set p.x = (p).x + 1, p.y = 'new' where id = 1 returning p

update t set p.y = 'only' where id = 3 returning p

update t set list[1].y = 'changed' where id = 1 returning list

update t set list[3].x = 5 where id = 1 returning list

update t set p = row(1, 'z'), p.x = 2

update t set p.x = 1, p = row(1, 'z')

update t set p.z = 1

update t set note.x = 1

update t set p.x = 'no number'

update t set p.x = default

update t set t.note = 'x'

insert into t (id, p.x, p.y) values (4, 40, 'forty') returning p

insert into t (id, p.y) values (5, 'half') returning p

insert into t (id, p.x) select 6, 60 returning p

insert into t (id, p.x, p.x) values (7, 1, 2)

insert into t (id, list[2].x) values (7, 70) returning list

insert into t (id, p.nothing) values (8, 1)

select unnest(list) from t where id = 1

select x, y from t, unnest(list) where id = 1

select u, u.x from t, unnest(list) as u where id = 1

select * from unnest(array[row(1, 'a'), null]::pair[])

select * from json_populate_record(null::pair, '{"x": 1, "y": "one"}')

select * from json_populate_recordset(null::pair, '[{"x": 1}, {"y": "two"}]')

select * from jsonb_populate_record(row(7, 'seven')::pair, '{"y": "other"}')

create type nested as (p pair, n int, more int[])

select row(row(1, 'a'), 2, '{3,4}')::nested, ('("(1,a)",2,"{3,4}")'::nested).p

create table n (v nested)

insert into n values ('("(1,""a b"")",2,"{3,4}")') returning (v).p.y, ((v).p).x, (v).more[2]

update n set v.p.y = 'deep', v.more[1] = 9 returning v

select to_json(v) from n

create domain positive as int check (value > 0)

create type guarded as (v positive, w text)

select row(1, 'a')::guarded

select row(-1, 'a')::guarded

create table g (c guarded)

insert into g values (row(5, 'five'))

insert into g values (row(0, 'none'))

update g set c.v = -1

update g set c.v = 6 returning c

create domain sorted as pair check ((value).x is not null)

select row(1, 'a')::sorted

select row(null, 'a')::sorted

create table s (v sorted)

insert into s values (row(1, 'a')), (row(2, 'b'))

update s set v.x = null

update s set v.x = 3 where (v).x = 2 returning v

create type used as (a int)

create table one (v used)

alter type used alter attribute a type bigint

create type loose as (a int)

alter type loose add attribute b text, add attribute c int

alter type loose add attribute b int

alter type loose drop attribute c

alter type loose drop attribute nothing

alter type loose drop attribute if exists c

alter type loose alter attribute a type bigint

alter type loose rename attribute b to a

alter type loose rename attribute b to c

alter type loose rename attribute nothing to d

select attname, format_type(atttypid, atttypmod), attnum from pg_attribute where attrelid = (select typrelid from pg_type where typname = 'nested') order by attnum

select relname, relkind, relnatts from pg_class where relname in ('nested', 'pair') order by relname

select typname, typtype, typcategory, typlen from pg_type where typname in ('loose', '_loose') order by typname

select pg_typeof(row(1, 'a')::pair), format_type('pair'::regtype, null), 'pair[]'::regtype

alter type loose rename to looser

select row(1, 'x')::looser

drop type pair

drop type loose

drop type looser

drop table pair

create view v as select (p).x as first, p from t

select * from v order by first nulls last limit 2

drop type pair cascade

select * from t order by id limit 1

drop type if exists pair

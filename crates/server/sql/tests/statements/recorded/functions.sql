create table parts (id int primary key, name text, price int); insert into parts select n, 'part ' || n, n * 10 from generate_series(1, 6) n

create function twice(n int) returns int language sql immutable as 'select n * 2'

select twice(4), twice(n => 5), twice(null)

select id, twice(price) from parts where twice(id) > 8 order by 1

create function added(int, int default 10) returns bigint as $$ select $1 + $2 $$ language sql

select added(1), added(1, 2), added(null, 1), pg_typeof(added(1))

create function name_of(which int) returns text language sql stable strict as $$ select name from parts where id = which $$

select name_of(3), name_of(99), name_of(null)

select id from parts where name_of(id) = 'part 2'

select name_of(p.id), p.price from parts p order by name_of(p.id) desc limit 2

create function cheap(limit_price int) returns table (id int, label text) language sql as $$ select p.id, p.name from parts p where p.price <= limit_price order by p.id desc $$

select * from cheap(30)

select c.label, p.price from parts p, lateral cheap(p.price) c where p.id = 2 order by 1

select * from cheap(0)

select count(*) from cheap(1000) as c(x, y) where c.x > 2

create function numbers(n int) returns setof int language sql as 'select generate_series(1, n)'

select * from numbers(3)

select numbers(3)

select numbers(2) as x, 'a' as y

select n from numbers(3) as n where n > 1

select p.id, numbers(p.id) from parts p where p.id < 3 order by 1, 2

create function bounds(out lowest int, out highest int) language sql as 'select min(price), max(price) from parts'

select * from bounds()

select lowest from bounds()

create function part(which int) returns parts language sql as 'select * from parts where id = which'

select * from part(2)

select * from part(77)

create function all_parts() returns setof parts language sql as 'select * from parts where price > 40'

select name from all_parts() order by id

create function any_record() returns setof record language sql as 'select id, name from parts where id < 3 order by id'

select * from any_record() as r(a int, b text)

select * from any_record()

create function same(x anyelement) returns anyelement language sql as 'select x'

select same(1), same('a'::text), pg_typeof(same(1.5))

create function total(variadic numbers int[]) returns bigint language sql as 'select sum(n) from unnest(numbers) n'

select total(1, 2, 3), total(variadic array[4, 5])

create function shown(n int) returns text language sql as $$ select 'int ' || n $$

create function shown(t text) returns text language sql as $$ select 'text ' || t $$

select shown(1), shown('a'), shown('b'::text)

create function outer_call(n int) returns int language sql as 'select twice(twice(n)) + 1'

select outer_call(3)

create function widest() returns text language sql as $$ select name from parts order by price desc $$

select widest()

create function with_case(kind text, n numeric) returns numeric language sql immutable as $$ select case kind when 'half' then n / 2 when 'square' then n * n else n end $$

select with_case('half', 5), with_case('square', 1.5), with_case('x', 2)

select with_case('half', price) from parts where id = 1

create function named_column(price int) returns bigint language sql as 'select count(*) from parts where parts.price >= named_column.price'

select named_column(30)

create function shadowed(price int) returns bigint language sql as 'select count(*) from parts where price >= price'

select shadowed(3000)

create view doubled as select id, twice(price) as p from parts

select * from doubled where id = 2

drop function twice(int)

drop function twice(int) cascade

select * from doubled

create function twice(n int) returns int language sql as 'select n * 2'

create function twice(n int) returns int language sql as 'select n * 2'

create or replace function twice(n int) returns int language sql as 'select n * 3'

select twice(2)

create or replace function twice(n int) returns text language sql as 'select n::text'

create or replace function twice(m int) returns int language sql as 'select m * 3'

create function wrong() returns int language sql as 'select ''a''::text'

create function wrong() returns int language sql as 'select 1, 2'

create function wrong() returns int language sql as 'select nothing from parts'

create function wrong() returns int language sql as $$select nothing from parts$$

create function wrong() returns int language sql as 'selec 1'

create function wrong() returns int language sql as 'begin'

create function wrong() returns table (a int, b int) language sql as 'select 1'

create function wrong() returns table (a int, b int) language sql as 'select 1, ''x''::text'

create function wrong(a int, a int) returns int language sql as 'select 1'

create function wrong(a int default 1, b int) returns int language sql as 'select 1'

create function wrong(a int default 'x'::text) returns int language sql as 'select 1'

create function wrong(a nothing) returns int language sql as 'select 1'

create function wrong() returns nothing language sql as 'select 1'

create function wrong() language sql as 'select 1'

create function wrong() returns int as 'select 1'

create function wrong() returns int language sql

create function wrong() returns int language nothing as 'select 1'

create function wrong() returns int language sql language sql as 'select 1'

create function wrong(out a int, out b int) returns int language sql as 'select 1, 2'

create function wrong(variadic a int[], b int) returns int language sql as 'select 1'

create function wrong(variadic a int) returns int language sql as 'select 1'

create function wrong() returns trigger language sql as 'select 1'

create function wrong() returns anyelement language sql as 'select 1'

create function wrong() returns int rows 10 language sql as 'select 1'

select nothing_at_all(1)

select twice('a'::text)

select twice()

select shown()

drop function shown

drop function shown(int), shown(text)

drop function shown(int)

drop function if exists shown(int)

drop function nothing_at_all

select proname, pronargs, pronargdefaults, prorettype::regtype, proargtypes, proallargtypes, proargmodes, proargnames, prosrc, prokind, proisstrict, proretset, provolatile, proparallel, procost, prorows, provariadic, prolang from pg_proc where pronamespace = 'recorded'::regnamespace and proname in ('added', 'cheap', 'bounds', 'total', 'name_of') order by proname

select pg_get_function_arguments(p.oid), pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid), p.oid::regprocedure, p.oid::regproc from pg_proc p where pronamespace = 'recorded'::regnamespace and proname in ('added', 'cheap', 'bounds', 'total', 'all_parts') order by proname

select rtrim(pg_get_functiondef('name_of'::regproc), E'\n')

select 'name_of'::regproc, 'added(int, int)'::regprocedure, pg_function_is_visible('name_of'::regproc)

alter function name_of(int) rename to name_for

select name_for(1)

create schema elsewhere

alter function name_for(int) set schema elsewhere

select name_for(1)

select elsewhere.name_for(1)

select elsewhere.name_of(1)

drop schema elsewhere

drop schema elsewhere cascade

create role function_user; grant usage on schema recorded to function_user; grant select on parts to function_user

set role function_user

select added(1), has_function_privilege('added(int, int)', 'execute')

reset role; revoke execute on function added(int, int) from public

set role function_user

select added(1)

select has_function_privilege('added(int, int)', 'execute')

drop function added(int, int)

create or replace function added(int, int default 10) returns bigint as 'select 1::bigint' language sql

reset role; grant execute on function added to function_user

select proacl from pg_proc where oid = 'added'::regproc

set role function_user

select added(1)

reset role

revoke execute on all functions in schema recorded from public

alter function added(int, int) owner to function_user

drop role function_user

drop owned by function_user

select added(1)

drop role function_user

comment on function bounds() is 'lowest and highest'

select obj_description('bounds'::regproc, 'pg_proc')

create type mood as enum ('sad', 'fine')

create function mood_of(n int) returns mood language sql as $$ select case when n > 0 then 'fine'::mood else 'sad' end $$

select mood_of(1), mood_of(0)

drop type mood

drop type mood cascade

select mood_of(1)

drop table parts

drop table parts cascade

select * from bounds()

begin; create function in_transaction() returns int language sql as 'select 5'; select in_transaction(); rollback

select in_transaction()

prepare call as select outer_call($1)

execute call(5)

create or replace function outer_call(n int) returns int language sql as 'select n'

execute call(5)

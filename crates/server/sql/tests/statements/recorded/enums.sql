create type mood as enum ('sad', 'ok', 'happy');

create type mood as enum ('a');

create type twice as enum ('a', 'b', 'a');

create type long_label as enum ('aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg');

create type nothing as enum ();

select 'ok'::mood, pg_typeof('ok'::mood), 'ok'::mood < 'happy', 'sad' > 'ok'::mood, 'happy'::mood::text;

select 'angry'::mood;

select cast('happy' as mood) = 'happy';

select ''::mood;

select null::mood;

select 'ok'::mood = 'ok'::text;

select 'ok'::mood || 'x';

select max(m), min(m), count(distinct m) from unnest('{happy,sad,ok,sad}'::mood[]) m;

select array_agg(m order by m), array_agg(m order by m desc) from unnest(array['happy', 'sad', null, 'ok']::mood[]) m;

select '{ok,NULL,"sad"}'::mood[], array['ok'::mood, 'sad'], '{ok,angry}'::text[]::mood[];

select ('{ok,sad}'::mood[])[2], array['ok']::mood[] || 'sad'::mood, 'sad' = any ('{ok,sad}'::mood[]);

select enum_first(null::mood), enum_last(null::mood), enum_range(null::mood);

select enum_range('ok'::mood, null), enum_range(null, 'ok'::mood), enum_range('sad'::mood, 'ok'), enum_range('ok'::mood, 'sad'::mood);

create table people (name text primary key, feels mood not null default 'ok', felt mood[]);

insert into people values ('ann', 'sad', '{sad,ok}'), ('bob', 'happy', '{}'), ('cec', default, null) returning *;

insert into people values ('dan', 'angry');

insert into people values ('dan', 'ok'::text);

insert into people (name, feels) values ('dan', null);

insert into people (name, feels) select 'dan', 'happy';

insert into people (name, feels) select 'eve', x::mood from (values ('sad')) v (x);

select name, feels from people order by feels, name;

select name from people where feels >= 'ok' order by feels desc, name;

select feels, count(*) from people group by feels order by 1;

select feels, count(*) from people group by feels having count(*) > 1 order by feels;

select a.name, b.name from people a join people b on a.feels = b.feels and a.name < b.name order by 1;

select name, case feels when 'happy' then 1 when 'sad' then -1 else 0 end from people order by name;

select coalesce(null, feels), nullif(feels, 'ok'), greatest(feels, 'ok') from people order by name;

select name from people where feels in ('sad', 'happy') order by 1;

select name from people where feels between 'sad' and 'ok' order by 1;

select name from people where feels = any (array['sad', 'happy']::mood[]) order by 1;

select name from people where feels in ('sad', 'angry');

select name from people where feels = 1;

select name from people where feels::text like 'h%' order by 1;

select to_json(feels), to_jsonb(felt), row_to_json(p) from people p where name = 'ann';

select jsonb_build_object('m', feels, 'f', felt), json_agg(feels) from people group by feels, felt order by feels, felt;

select format('%s %I %L', feels, feels, feels), concat(feels, '-', name), feels || '!' from people where name = 'bob';

select p, row(feels, 1), (p).feels from people p where name = 'bob';

select string_agg(feels::text, ',' order by feels) from people;

select name, rank() over (order by feels), lag(feels) over (order by name) from people order by name;

select feels from people union select 'sad' order by 1;

select feels from people union all select 'angry';

select distinct on (feels) feels, name from people order by feels, name;

update people set feels = 'happy' where name = 'ann' returning feels, felt;

update people set felt[2] = 'happy', feels = felt[1] where name = 'ann' returning *;

delete from people where feels = 'happy' and name = 'dan' returning feels;

insert into people values ('bob', 'sad') on conflict (name) do update set feels = excluded.feels returning *;

create index on people (feels);

create unique index people_felt on people (felt);

insert into people values ('fay', 'ok', '{sad,happy}');

select name from people where feels = 'sad' order by name;

create table by_mood (m mood primary key, note text);

insert into by_mood values ('happy', 'h'), ('sad', 's'), ('ok', 'o');

insert into by_mood values ('sad', 'again');

select * from by_mood order by m;

select * from by_mood where m > 'sad' order by m desc;

create table refers (m mood references by_mood);

insert into refers values ('ok'), (null);

delete from by_mood where m = 'ok';

alter type mood add value 'ecstatic';

alter type mood add value 'fine' before 'happy';

alter type mood add value 'so so' after 'sad';

alter type mood add value 'fine';

alter type mood add value if not exists 'fine';

alter type mood add value 'x' before 'nowhere';

select enum_range(null::mood);

insert into by_mood values ('fine', 'f'), ('ecstatic', 'e'), ('so so', '-');

select m, m < 'happy' from by_mood order by m;

alter type mood rename value 'sad' to 'gloomy';

alter type mood rename value 'sad' to 'x';

alter type mood rename value 'gloomy' to 'ok';

select name, feels, felt from people order by name;

select 'sad'::mood;

select * from by_mood where m = 'gloomy';

select enumlabel, enumsortorder from pg_enum e join pg_type t on t.oid = e.enumtypid where typname = 'mood' order by enumsortorder;

select a.typname, a.typelem = m.oid, a.oid = m.typarray, a.typcategory, a.typlen from pg_type a join pg_type m on a.typname = '_mood' and m.typname = 'mood';

select attname, format_type(atttypid, atttypmod), atttypid::regtype, attlen, attndims from pg_attribute where attrelid = 'people'::regclass and attnum > 0 order by attnum;

select column_name, data_type, udt_schema, udt_name, column_default from information_schema.columns where table_name = 'people' order by ordinal_position;

select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'people'::regclass;

select pg_type_is_visible('mood'::regtype), obj_description('mood'::regtype, 'pg_type');

comment on type mood is 'how one feels';

select obj_description('mood'::regtype, 'pg_type');

comment on domain mood is 'no';

comment on type nowhere is 'no';

alter table people add constraint not_gloomy check (feels <> 'gloomy' or name > 'a');

alter table people add constraint never_fine check (feels not in ('fine', 'so so'));

insert into people values ('gil', 'fine');

select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'people'::regclass and contype = 'c' order by 1;

alter type mood rename value 'fine' to 'good';

select pg_get_constraintdef(oid) from pg_constraint where conname = 'never_fine';

insert into people values ('gil', 'good');

alter table people add column more mood default 'good';

select name, more from people order by name;

alter table people alter column more type text;

select name, more || '!' from people order by name limit 1;

alter table people alter column more type mood;

alter table people alter column more drop default;

create view feelings as select name, feels from people where feels > 'ok'::mood;

drop type mood;

drop type if exists nowhere, mood_2;

drop type nowhere;

drop type nowhere.mood;

drop type if exists nowhere.mood;

drop type people;

drop domain mood;

drop type int4;

create table mood (a int);

create table other (a int);

create type other as enum ('x');

alter type mood rename to temper;

select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'people'::regclass;

create schema moods;

alter type temper set schema moods;

select 'ok'::moods.temper, pg_typeof('ok'::moods.temper);

insert into people values ('hal', 'none');

alter type moods.temper set schema recorded;

alter type nowhere add value 'x';

alter type nowhere rename to x;

create type quoted."Mood" as enum ('x');

create type "Mood" as enum ('It''s', 'a "b"', 'c,d', '');

select enum_range(null::"Mood"), 'It''s'::"Mood", 'x'::"Mood";

create table capital (m "Mood" default 'It''s');

insert into capital default values returning *;

select 'nope'::"Mood";

prepare feeling (temper) as select name, $1 from people where feels = $1 order by 1;

execute feeling ('gloomy');

execute feeling ('nonsense');

deallocate feeling;

begin;

create type brief as enum ('x', 'y');

create table briefs (b brief);

insert into briefs values ('y');

select * from briefs;

rollback;

begin;

create type brief as enum ('x');

savepoint s;

alter type brief rename value 'x' to 'y';

select enum_range(null::brief);

rollback to s;

select enum_range(null::brief);

commit;

drop type brief;

create temp table copied (m temper);

select pg_typeof(m), m is null from copied right join (select 1) one on true;

create table as_made as select feels, felt from people where name = 'bob';

select *, pg_typeof(feels), pg_typeof(felt) from as_made;

create table like_made (like people including all);

insert into like_made (name) values ('x') returning feels;

create sequence numbers;

select enum_first(1);

select min(x) from (select null::temper) t (x);

select 'ok' in (select feels::text from people), exists (select from people where feels = 'ok');

with recursive r (m) as (select 'ok'::temper union all select 'gloomy' from r where m = 'ok') select * from r;

select generate_series(1, 2), 'ok'::temper;

merge into by_mood b using (values ('ok'::temper, 'merged')) v (m, note) on b.m = v.m when matched then update set note = v.note;

select * from by_mood where m = 'ok';

values ('ok'::temper), ('gloomy');

select * from (values ('ok'::temper), ('gloomy')) v (m) order by m;

select lower(feels) from people;

select lower(feels::text) from people where name = 'bob';

select feels + 1 from people;

drop schema moods;

drop type temper cascade;

select * from feelings;

create schema gone;

create type gone.kind as enum ('a');

create table uses_kind (k gone.kind, a int);

drop schema gone;

drop schema gone cascade;

select * from uses_kind;

create type shown as enum ('one', 'two');

select n.nspname as "Schema", pg_catalog.format_type(t.oid, null) as "Name", t.typname as "Internal name", case when t.typrelid != 0 then cast('tuple' as pg_catalog.text) when t.typlen < 0 then cast('var' as pg_catalog.text) else cast(t.typlen as pg_catalog.text) end as "Size", pg_catalog.array_to_string(array(select e.enumlabel from pg_catalog.pg_enum e where e.enumtypid = t.oid order by e.enumsortorder), ',') as "Elements", pg_catalog.obj_description(t.oid, 'pg_type') as "Description" from pg_catalog.pg_type t left join pg_catalog.pg_namespace n on n.oid = t.typnamespace where (t.typrelid = 0 or (select c.relkind = 'c' from pg_catalog.pg_class c where c.oid = t.typrelid)) and not exists (select 1 from pg_catalog.pg_type el where el.oid = t.typelem and el.typarray = t.oid) and n.nspname = 'recorded' and pg_catalog.pg_type_is_visible(t.oid) order by 1, 2;

create table parts (id int primary key, name text, price int); insert into parts select n, 'part ' || n, n * 10 from generate_series(1, 6) n

create materialized view dear as select id, name as label, price from parts where price > 20

select * from dear order by id

insert into parts values (7, 'part 7', 70); select count(*) from dear

refresh materialized view dear

select count(*), max(label) from dear

create materialized view empty_one (a, b) as select id, price from parts with no data

select * from empty_one

create view over_empty as select a from empty_one

select * from over_empty

refresh materialized view concurrently empty_one

refresh materialized view empty_one

select count(*) from over_empty

refresh materialized view empty_one with no data

select a from empty_one

create materialized view dear as select 1

create materialized view if not exists dear as select 1

insert into dear values (1)

update dear set price = 1

delete from dear

merge into dear using parts on dear.id = parts.id when matched then delete

select * from dear for update

truncate dear

begin; lock table dear

rollback

alter table dear add column x int

alter materialized view dear add column x int

drop table dear

drop view dear

drop materialized view parts

drop materialized view nothing

drop materialized view if exists nothing

create table refers (id int references dear (id))

create unique index dear_id on dear (id)

create index on dear (label)

select label from dear where id = 5

refresh materialized view concurrently dear with no data

insert into parts values (8, 'part 8', 80); delete from parts where id = 3

refresh materialized view concurrently dear

select id, label from dear order by id

refresh materialized view dear

select id, label from dear order by id desc limit 2

create materialized view without_key as select id from parts

refresh materialized view concurrently without_key

refresh materialized view parts

refresh materialized view over_empty

refresh materialized view nothing

insert into parts values (9, 'part 8', 90); create materialized view twice as select 1 as one from parts; create unique index on twice (one)

drop materialized view twice

create materialized view too_many (a, b, c) as select 1, 2

create materialized view same_names as select 1 as a, 2 as a

select schemaname, matviewname, tablespace, hasindexes, ispopulated from pg_matviews where schemaname = 'recorded' order by 2

select relname, relkind, relispopulated, relhasindex, relreplident from pg_class where relnamespace = 'recorded'::regnamespace and relkind in ('m', 'v') order by 1

select table_name from information_schema.tables where table_schema = 'recorded' order by 1

select tablename from pg_tables where schemaname = 'recorded' order by 1

drop table parts

drop materialized view empty_one

drop materialized view empty_one cascade

alter materialized view dear rename to dearer

alter materialized view dearer rename column label to title

select title from dearer where id = 6

alter table dearer rename to dear

comment on materialized view dear is 'the dear ones'

select obj_description('dear'::regclass, 'pg_class')

comment on table dear is 'x'

create role view_reader; grant usage on schema recorded to view_reader

set role view_reader

select count(*) from dear

refresh materialized view dear

reset role; grant select on dear to view_reader; set role view_reader

select count(*) from dear

reset role; revoke all on dear from view_reader; revoke all on schema recorded from view_reader; drop role view_reader

analyze dear

select reltuples from pg_class where oid = 'dear'::regclass

begin; refresh materialized view dear with no data; rollback; select count(*) from dear

alter table parts drop column name

drop table parts cascade

select * from dear

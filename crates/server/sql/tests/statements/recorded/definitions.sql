create table t (a int, b text)

create table t (a int)

create table if not exists t (a int)

alter table t add column c int default 5

insert into t values (1, 'x')

select * from t

alter table t add column d text not null

alter table t add column d text not null default 'dd'

select * from t

alter table t rename column b to bb

alter table t drop column c

select * from t

alter table t alter column a type bigint

alter table t alter column bb type int

alter table t alter column a set default 42, alter column bb set not null

insert into t (bb, d) values ('y', 'z') returning *

alter table t add constraint positive check (a > 0)

insert into t values (-1, 'n', 'n')

alter table t drop constraint positive

alter table t add primary key (a)

insert into t values (1, 'again', 'd')

alter table t rename to renamed

select * from renamed order by a

select * from t

create unique index on renamed (bb)

create index named on renamed (lower(bb), a desc)

create index named on renamed (a)

drop index named

drop index named

create view v as select a, upper(bb) as shout from renamed

select * from v order by a

drop table renamed

drop view v

create or replace view v(x) as select a from renamed

select x from v order by x

drop table renamed cascade

select * from v

create schema s

create table s.inside (id int)

insert into s.inside values (1)

select * from s.inside

select * from inside

set search_path = s, recorded

select * from inside

drop schema s

drop schema s cascade

set search_path = recorded

create table copied as select i as id, 'n' || i as name from generate_series(1, 3) i

select * from copied order by id

create table empty as select 1 as a where false

select * from empty

create temporary table temp (id int)

insert into temp values (1)

select * from temp

create table keys (a int, b int, primary key (a, b), unique (b))

insert into keys values (1, 2), (1, 3)

insert into keys values (2, 3)

create table bad (a int, a int)

create table bad (a int primary key, b int primary key)

create table bad (a int references nowhere)

create table bad (a int check (b > 0))

create table bad (a int default 'x'::bool)

drop table nowhere

drop table if exists nowhere

alter table nowhere add column a int

alter table keys drop column nope

alter table keys add column a int

comment on table keys is 'a comment'

select obj_description('keys'::regclass)

create table like_keys (like keys including all, c int)

insert into like_keys values (1, 1, 1)

insert into like_keys values (1, 1, 1)

select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 'keys'::regclass and attnum > 0 order by attnum

select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'keys'::regclass order by 1

select indexdef from pg_indexes where tablename = 'keys' order by 1

select column_name, data_type, is_nullable from information_schema.columns where table_name = 'keys' order by ordinal_position

select 'keys'::regclass, 'int4'::regtype, 'nosuch'::regclass

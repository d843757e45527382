create domain positive as int default 5 check (value > 0)

create table keys (a int primary key)

create table refers (id int, a positive references keys on delete set default on update cascade)

insert into keys values (5), (7), (8); insert into refers values (1, 7), (2, 8)

delete from keys where a = 7; select * from refers order by id

update keys set a = -8 where a = 8

update keys set a = 9 where a = 8; select * from refers order by id

create domain given as int not null

create table must_refer (a given references keys on delete set null)

insert into must_refer values (9); delete from refers; delete from keys where a = 9

create table converted (id int, a int default 5::bigint references keys on delete set default on update cascade, g int generated always as (a::bigint * 2) stored)

insert into converted values (1, 9), (2, 5)

delete from must_refer; delete from keys where a = 9; select * from converted order by id

update keys set a = 6 where a = 5; select * from converted order by id

create table rows (a int); insert into rows values (-1), (2)

alter table rows add column b positive generated always as (a * 2) stored

delete from rows where a = -1; alter table rows add column b positive generated always as (a * 2::bigint) stored; select * from rows

create table nulls (a int default nullif(1, 2), b positive default null, c positive, d text default null, e varchar(3) default null)

insert into nulls default values; select * from nulls

alter table nulls add column f positive default null; alter table nulls alter column c set default null; insert into nulls default values; select * from nulls

select attname, pg_get_expr(adbin, adrelid) from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum where adrelid = 'nulls'::regclass order by attnum

create domain child as positive

create domain bare as positive default null

alter domain positive set default 7

create table inherits (a positive, b child, c bare); insert into inherits default values; select * from inherits

create table many as select generate_series(1, 10) as id

create domain random_number as float8 default random()

alter table many add column r random_number; select count(distinct r) from many

create sequence counter; create domain counted as int default nextval('counter') check (value < 100)

alter table many add column s counted; select count(distinct s), max(s) from many

alter sequence counter restart with 95; alter table many add column t counted

alter table many add column d date default clock_timestamp(), add column i int default random() * 10 + 100, add column u int default nextval('counter')

select count(d), min(i) >= 100 from many

drop sequence counter

create type mood as enum ('a', 'b')

create domain with_default as text default 'a'::mood::text

create domain with_check as text check (value <> 'b'::mood::text) check (value <> 'c')

create table moods (a with_default, b with_check)

drop type mood

alter domain with_check drop constraint with_check_check

alter domain with_default drop default

drop type mood

create type mood as enum ('a', 'b')

alter domain with_default set default 'b'::mood::text

alter domain with_check add check (value <> 'b'::mood::text)

drop type mood cascade

select * from moods

insert into moods values ('b'); insert into moods values ('c')

drop sequence counter cascade; select count(*) from pg_type where typname = 'counted'

prepare of_domain (positive) as select $1

execute of_domain (-1)

execute of_domain (1)

prepare of_given (given) as select $1

execute of_given (null)

select * from json_to_recordset('[{"a": 1}, {"a": -1}]') as x (a positive)

select * from json_to_recordset('[{"a": 1}, {"a": 2}]') as x (a positive, b int)

select * from json_to_record('{"a": -1}') as x (a positive)

select * from json_to_record('{}') as x (a given)

create table objects (a positive, b text)

select * from jsonb_populate_record(null::objects, '{"a": -1}')

select * from jsonb_populate_record(null::objects, '{"a": 1, "b": "x"}')

select * from json_populate_recordset(null::objects, '[{"a": 2}, {"a": -1}]')

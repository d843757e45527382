create domain positive as int check (value > 0);

create domain positive as int;

create domain short as varchar(5) not null default 'none' constraint not_empty check (value <> '');

create domain even positive constraint is_even check (value % 2 = 0) constraint small check (value < 100);

create domain tags as text[] check (array_length(value, 1) <= 2);

create domain bad as int default 1 default 2;

create domain bad as int not null null;

create domain bad as int unique;

create domain bad as nothing;

create domain bad as int check (nothing > 1);

create domain bad as int check ('x');

create domain bad as anyelement;

create domain bad as int constraint c check (value > 1) constraint c check (value > 2);

select 5::positive, 5::positive + 1, '7'::positive;

select 0::positive;

select '-1'::positive;

select 'x'::positive;

select null::positive, null::short;

select 4::even;

select 3::even;

select -2::even, (-2)::even;

select 200::even;

select 'abcdefgh'::short;

select ''::short;

select cast('ab' as short) || 'c';

select '{a,b}'::tags, '{a,b,c}'::tags;


create table things (id positive primary key, name short, size even, words tags);

insert into things values (1, 'one', 2, '{x}') returning *;

insert into things (id) values (2) returning *;

insert into things values (0, 'zero');

insert into things values (3, '', 2);

insert into things values (3, null, 2);

insert into things values (3, 'three', 3);

insert into things values (3, 'threesome', 4);

insert into things (id, size) select x, x * 2 from generate_series(3, 4) x returning id, name, size;

insert into things (id, size) select x, x * 50 from generate_series(5, 6) x;

insert into things (id, words) values (5, array['a', 'b', 'c']);

update things set size = size + 1 where id = 1;

update things set size = size + 2 where id = 1 returning size;

update things set name = default where id = 1 returning name;

update things set name = null where id = 1;

update things set (size, name) = (8, 'eight') where id = 1 returning *;

insert into things values (1, 'x') on conflict (id) do update set size = 7;

insert into things values (1, 'x') on conflict (id) do update set size = 6 returning size;

merge into things t using (values (1, -4)) v (id, size) on t.id = v.id when matched then update set size = v.size;

select id + size, name || '!', size / 4 from things where id = 1;

select max(size), sum(id) from things;

select id from things where id = 3::positive;

select id from things where id in (1, 2) order by id;

create index on things (size);

select id from things where size = 6 order by id;

select attname, format_type(atttypid, atttypmod), attlen, attnotnull from pg_attribute where attrelid = 'things'::regclass and attnum > 0 order by attnum;

select typname, typtype, typbasetype::regtype, typtypmod, typnotnull, typdefault, typcategory, typlen from pg_type where typnamespace = 'recorded'::regnamespace and typtype = 'd' order by typname;

select conname, contypid::regtype, contype, convalidated, pg_get_constraintdef(oid) from pg_constraint where contypid <> 0 and contypid <> 'even'::regtype and connamespace = 'recorded'::regnamespace order by conname;

select column_name, data_type, udt_name from information_schema.columns where table_name = 'things' and column_name <> 'size' order by ordinal_position;


comment on domain positive is 'more than nothing';

select obj_description('positive'::regtype, 'pg_type');

prepare at_least (positive) as select id from things where id >= $1 order by id;

execute at_least (3);

deallocate at_least;

prepare cast_it as select $1::even;

execute cast_it (6);

execute cast_it (7);

deallocate cast_it;

alter domain positive add check (value < 4);

alter domain positive add constraint below check (value < 1000);

alter domain positive add constraint below check (value < 1000);

insert into things values (1000, 'x');

alter domain positive drop constraint below;

alter domain positive drop constraint below;

alter domain positive drop constraint if exists below;

insert into things values (1000, 'x') returning id;

alter domain even set not null;

alter domain even add constraint not_six check (value <> 6);

alter domain even add constraint not_six check (value <> 6) not valid;

select convalidated from pg_constraint where conname = 'not_six';

alter domain even validate constraint not_six;

update things set size = 6 where id = 3;

update things set size = 10 where id = 1;

alter domain even validate constraint not_six;

alter domain even validate constraint nothing;

alter domain even rename constraint not_six to never_six;

alter domain even rename constraint not_six to x;

update things set size = 6 where id = 3;

delete from things where size is null;

alter domain even set not null;

update things set size = null where id = 1;

alter domain even drop not null;

update things set size = null where id = 1 returning size;

alter domain short drop default;

insert into things (id, size) values (7, 2);

alter domain short set default 'other';

insert into things (id, size) values (7, 2) returning name;

alter domain short drop not null;

insert into things values (8, null, 2) returning name;

alter domain short drop constraint not_empty;

insert into things values (9, '', 2) returning length(name);

alter domain nothing set not null;

alter domain int4 set not null;

alter table things add column extra positive;

alter table things add column more positive default 3;

alter table things add column bad positive default -3;

select id, extra, more from things order by id;

create domain required as int not null;

alter table things add column needed required;

alter table things add column needed required default 5;

select needed from things order by id limit 1;

alter table things alter column extra type int;

update things set extra = -1 where id = 1;

alter table things alter column extra type positive;

update things set extra = 1 where id = 1;

alter table things alter column extra type positive;

update things set extra = -1 where id = 1;

alter domain positive rename to natural_number;

select 0::natural_number;

alter type natural_number rename to positive;

create type kind as enum ('a', 'b');

create domain not_b as kind check (value <> 'b');

select 'a'::not_b;

select 'b'::not_b;

create table kinds (k not_b default 'a');

insert into kinds values (default), ('b');

insert into kinds values (default) returning k;

create table made as select id, name from things where id = 1;

create table like_things (like things);

insert into like_things (id, size, needed) values (-1, 2, 3);

create view seen as select id, 3::even as e from things;

select * from seen order by id limit 1;

drop domain even;

drop domain positive restrict;

drop type kind;

drop domain if exists nothing;

drop domain nothing;

begin;

create domain brief as int check (value > 1);

create table briefs (b brief);

insert into briefs values (1);

rollback;

select 1::brief;

begin;

alter domain positive add constraint one check (value > 0);

savepoint s;

alter domain positive drop constraint one;

rollback to s;

select count(*) from pg_constraint where conname = 'one';

rollback;

select count(*) from pg_constraint where conname = 'one';

drop domain even cascade;

select attname from pg_attribute where attrelid = 'things'::regclass and attnum > 0 and not attisdropped order by attnum;

drop domain positive, short, tags cascade;

drop domain not_b cascade;

create domain shown as numeric(5, 2) default 2.5 not null check (value > 1.5) constraint other check (value < 9.5);

select n.nspname as "Schema", t.typname as "Name", pg_catalog.format_type(t.typbasetype, t.typtypmod) as "Type", (select c.collname from pg_catalog.pg_collation c, pg_catalog.pg_type bt where c.oid = t.typcollation and bt.oid = t.typbasetype and t.typcollation <> bt.typcollation) as "Collation", case when t.typnotnull then 'not null' end as "Nullable", t.typdefault as "Default", pg_catalog.array_to_string(array(select pg_catalog.pg_get_constraintdef(r.oid, true) from pg_catalog.pg_constraint r where t.oid = r.contypid order by r.conname), ' ') as "Check" from pg_catalog.pg_type t left join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.typtype = 'd' and n.nspname = 'recorded' and pg_catalog.pg_type_is_visible(t.oid) order by 1, 2;

create table base (a int primary key, b text default 'none', c int)

create view plain as select * from base where a > 0

create view local_view as select * from plain where a < 100 with local check option

create view cascaded_view as select * from plain where a < 100 with cascaded check option

create view default_view as select * from plain with check option

create view upper_view as select a, b from cascaded_view where a <> 50

create view upper_checked as select a, b from local_view where a <> 50 with local check option

insert into local_view values (-1)

insert into local_view values (100)

insert into local_view values (1)

insert into cascaded_view values (-2)

insert into cascaded_view values (200)

insert into cascaded_view values (2)

insert into default_view values (-3)

insert into default_view values (3)

insert into upper_view values (-4)

insert into upper_view values (50)

insert into upper_checked values (-5)

delete from base where a = 50

insert into upper_checked values (50)

insert into upper_checked values (500)

insert into upper_checked values (null)

update local_view set a = 1000 where a = 1

update local_view set a = -7 where a = 1

update cascaded_view set a = -8 where a = 2

update default_view set a = a + 10 where a = 3

update upper_checked set a = 150 where a = 13

update upper_checked set b = 'x' where a = 13 returning a, b

insert into cascaded_view values (2, 'y') on conflict (a) do update set a = 999

insert into cascaded_view values (2, 'y') on conflict (a) do update set a = 22

select * from base order by a

delete from cascaded_view where a = 22

create view with_option with (check_option = local) as select a from base where a > 10

insert into with_option values (5)

insert into with_option values (15)

create table allowed (k int)

insert into allowed values (60), (61)

create view with_subquery as select a from base where a in (select k from allowed) with check option

insert into with_subquery values (60)

insert into with_subquery values (62)

update with_subquery set a = 62

update with_subquery set a = 61

create view computed as select a, a * 2 as twice from base where a * 2 < 300 with check option

insert into computed (a) values (149)

insert into computed (a) values (150)

create view nulls as select a, c from base where c > 0 with check option

insert into nulls values (70, null)

insert into nulls values (70, 1)

select relname, reloptions from pg_class where relname in ('local_view', 'cascaded_view', 'default_view', 'with_option', 'plain') order by relname

select table_name, check_option from information_schema.views where table_schema = 'recorded' order by table_name

create view grouped as select count(*) from base with check option

create view distinct_rows as select distinct a from base with local check option

create view joined as select 1 from base, allowed with check option

create view no_columns as select a + 1 as b from base with check option

create view wrong with (check_option = both) as select a from base

create view twice with (check_option = local) as select a from base with check option

create or replace view local_view as select * from plain where a < 100

insert into local_view values (1000)

create temp table scratch (a int)

create temp view scratch_view as select a from scratch where a > 0 with check option

insert into scratch_view values (-1)

prepare changed (int) as insert into cascaded_view (a) values ($1)

execute changed (-9)

execute changed (9)

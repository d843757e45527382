create role owner_of_view

create role user_of_view

create table base (id int primary key, a int, b int, c int generated always as (a + b) stored, tags int[])

insert into base values (1, 10, 20, default, '{1,2}'), (2, 30, 40, default, '{3}')

grant usage on schema recorded to owner_of_view, user_of_view

grant create on schema recorded to owner_of_view

grant select (id, a), insert (id, a), update (a) on base to owner_of_view

set role owner_of_view

create view narrow as select id, a from base where id < 100

create view wide as select id, a, b from base

create view two_levels as select a as x, id from narrow

grant select (id), insert (id, a), update (a) on narrow to user_of_view

grant all on wide to user_of_view

grant update (x), insert on two_levels to user_of_view

reset role

set role user_of_view

select id from narrow

select a from narrow

select count(*) from narrow

select * from base

insert into narrow values (3, 1)

insert into narrow (id) values (4)

update narrow set a = 5

update narrow set a = 5 where id = 1

update narrow set a = a + 1

update narrow set id = 5

delete from narrow

insert into narrow values (5, 1) returning id

insert into narrow values (6, 1) returning a

select a from wide

update wide set b = 1

update wide set a = 1

delete from wide

update two_levels set x = 1

update two_levels set id = 1

update two_levels set x = 1 where id = 1

insert into two_levels values (2, 8)

insert into two_levels (id) values (9)

delete from two_levels

reset role

revoke update (a) on base from owner_of_view

set role user_of_view

update narrow set a = 5

update two_levels set x = 1

reset role

grant update on base to owner_of_view

grant delete on base to owner_of_view

set role owner_of_view

grant delete on narrow to user_of_view

set role user_of_view

delete from narrow where id = 8

delete from narrow where a = 9

reset role

select id, a from base order by id

create role writer

grant usage on schema recorded to writer

grant update (a, tags) on base to writer

set role writer

update base set a = 77

update base set tags[1] = 5

update base set a = a + 1

update base set tags[1] = tags[2]

update base set a = 1 returning id

reset role

grant insert (id, a, b) on base to writer

set role writer

insert into base values (20, 1, 2) on conflict (id) do nothing

insert into base (id) values (20) on conflict do nothing

insert into base (id) values (20) on conflict on constraint base_pkey do nothing

insert into base (id) values (20) on conflict (id) do update set a = excluded.a

insert into base (id) values (20) on conflict (id) do update set a = base.b

reset role

grant select (id) on base to writer

set role writer

insert into base (id) values (20) on conflict on constraint base_pkey do nothing

insert into base (id, a) values (20, 3) on conflict (id) do update set a = excluded.a

insert into base (id, a) values (20, 3) on conflict (id) do update set a = excluded.a where base.id = 20

insert into base (id) values (20) on conflict (id) do update set a = base.b

merge into base using (values (1)) s (k) on s.k = base.id when matched then do nothing

merge into base using (values (1)) s (k) on s.k = base.b when matched then do nothing

merge into base using (values (1)) s (k) on s.k = base.id when matched then update set a = 4

merge into base using (values (1)) s (k) on s.k = base.id when matched then update set b = 4

merge into base using (values (1)) s (k) on s.k = base.id when matched then delete

merge into base using (values (1)) s (k) on s.k = base.id when matched and b = 1 then do nothing

select id from (select id, b from base) s

with q as (select id, b from base) select id from q

select 1 from base b1 join base b2 using (id) where b1.id = 99

select 1 from base b1 join base b2 using (b)

select tableoid from base

select base from base

select count(base) from base

select id from base order by id for update

select id from base order by id for share

select id from base order by b

reset role

create table other (id int, z int)

grant select (id) on other to writer

set role writer

create temp table copied (like other)

create temp table copied (like base)

select id from other for update

reset role

create index on base ((a + b))

create unique index on base ((id + 1))

revoke select on base from writer

set role writer

insert into base (id) values (30) on conflict ((id + 1)) do nothing

reset role

create view invoked with (security_invoker) as select id, a from base

create view invoked_by as select id, a from invoked

create view uninvoked with (security_invoker = off, security_barrier = on) as select id from base

grant select, update on invoked, invoked_by, uninvoked to writer

set role writer

select id from invoked

select id from invoked_by

select count(*) > 0 from uninvoked

update invoked set a = 3 where false

update invoked set a = 3

update invoked_by set a = 3

update uninvoked set id = 1 where false

reset role

select relname, reloptions from pg_class where relname like '%invoked%' order by relname

create view bad with (security_invoker = maybe) as select 1

create view bad with (fillfactor = 10) as select 1

drop table base cascade

drop owned by owner_of_view, writer, user_of_view

drop role owner_of_view, writer, user_of_view

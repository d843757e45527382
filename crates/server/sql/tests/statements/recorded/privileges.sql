create role clerk

create role auditor

create role boss in role clerk

create table orders (id int primary key, amount int, note text)

insert into orders values (1, 10, 'a'), (2, 20, 'b')

create view totals as select sum(amount) as total from orders

create sequence numbers

select nspacl from pg_namespace where nspname = 'public'

select relacl from pg_class where oid = 'orders'::regclass

set role clerk

select current_user, session_user = current_user

show role

select usename, query from pg_stat_activity where pid = pg_backend_pid()

select * from orders

reset role

grant usage on schema recorded to clerk, auditor

set role clerk

select * from orders

insert into orders values (3, 30, 'c')

update orders set amount = 1

delete from orders

select * from totals

select nextval('numbers')

create table own (a int)

create temporary table own (a int)

drop table own

drop table orders

create index on orders (amount)

alter table orders add column x int

truncate orders

comment on table orders is 'mine'

lock table orders

grant select on orders to auditor

revoke select on orders from auditor

reset role

grant select, insert on orders to clerk

grant select on totals to clerk

grant usage on sequence numbers to clerk

select relacl from pg_class where relname in ('orders', 'totals', 'numbers') order by relname

set role clerk

select * from orders where id = 1

select * from totals

select nextval('numbers')

select currval('numbers')

select setval('numbers', 10)

insert into orders values (3, 30, 'c') returning amount

insert into orders values (3, 30, 'c') on conflict (id) do update set amount = 0

select * from orders for update

grant select on orders to auditor

reset role

grant select on orders to clerk with grant option

set role clerk

grant select on orders to auditor

grant select, insert on orders to auditor

reset role

set role auditor

select count(*) from orders

reset role

select grantor, grantee, privilege_type, is_grantable from information_schema.table_privileges where table_name = 'orders' and grantee <> 'postgres' order by 1, 2, 3

select has_table_privilege('clerk', 'orders', 'select'), has_table_privilege('clerk', 'orders', 'select with grant option'), has_table_privilege('clerk', 'orders', 'delete'), has_table_privilege('boss', 'orders', 'insert'), has_table_privilege('auditor', 'orders', 'insert')

revoke select on orders from clerk

revoke grant option for select on orders from clerk

revoke grant option for select on orders from clerk cascade

select relacl from pg_class where relname = 'orders'

set role boss

select id from orders order by id

reset role

revoke all on orders from clerk

select relacl from pg_class where relname = 'orders'

grant select (id, amount), update (note), insert (id) on orders to clerk

select attname, attacl from pg_attribute where attrelid = 'orders'::regclass and attnum > 0 order by attnum

select column_name, privilege_type, grantee from information_schema.column_privileges where table_name = 'orders' and grantee = 'clerk' order by 1, 2

set role clerk

select id, amount from orders order by id

select * from orders

select note from orders

select orders from orders

select o.id from orders o where o.note = 'a'

select o.id from orders o join orders p using (id) order by p.amount

select count(*) from orders

select (select max(amount) from orders)

select (select max(note) from orders)

with w as (select amount from orders) select count(*) from w

select id from orders union select length(note) from orders

update orders set note = 'x' where id = 1

update orders set note = note || 'x'

update orders set note = 'y' where id = 2 returning id

update orders set note = 'y' returning note

update orders set amount = 1

insert into orders (id) values (7)

insert into orders (id, amount) values (8, 1)

insert into orders values (9)

delete from orders where id = 7

select id from orders order by id for share

copy orders to stdout

reset role

select has_column_privilege('clerk', 'orders', 'id', 'select'), has_column_privilege('clerk', 'orders', 'note', 'select'), has_any_column_privilege('clerk', 'orders', 'select'), has_any_column_privilege('auditor', 'orders', 'select')

revoke select on orders from clerk

select attname, attacl from pg_attribute where attrelid = 'orders'::regclass and attnum > 0 order by attnum

grant delete on orders to clerk

set role clerk

delete from orders where id = 7

delete from orders where true

reset role

grant all on all tables in schema recorded to auditor

grant all privileges on all sequences in schema recorded to auditor

select relname, relacl from pg_class where relnamespace = 'recorded'::regnamespace and relkind in ('r', 'v', 'S') order by relname

revoke insert, update, delete, truncate, references, trigger on all tables in schema recorded from auditor

select relname, relacl from pg_class where relnamespace = 'recorded'::regnamespace and relkind in ('r', 'v', 'S') order by relname

grant create on schema recorded to clerk

select nspacl from pg_namespace where nspname = 'recorded'

set role clerk

create table own (a serial primary key, b int references orders)

create table own (a serial primary key, b int)

insert into own (b) values (1) returning a

create view peek as select note from orders

select * from peek

grant select on own, peek to public

grant select on own to public with grant option

reset role

select * from peek

set role auditor

select * from own

insert into own (b) values (2)

insert into own (a, b) values (2, 2)

reset role

grant references (id) on orders to clerk

set role clerk

alter table own add foreign key (b) references orders

alter table own owner to auditor

reset role

alter table own owner to auditor

select relacl from pg_class where relname in ('own', 'own_a_seq') order by relname

drop role clerk

drop role auditor

grant usage on orders to clerk

grant frobnicate on orders to clerk

grant execute on orders to clerk

grant usage (id) on orders to clerk

grant select on schema recorded to clerk

grant select (id) on schema recorded to clerk

grant select on nothing to clerk

grant select on orders to nobody

grant select (nothing) on orders to clerk

grant usage on schema nothing to clerk

grant select on orders_pkey to clerk

grant select on sequence orders to clerk

grant select on numbers to clerk

grant connect on database nothing to clerk

alter default privileges in schema recorded grant select on tables to auditor

alter default privileges grant usage on sequences to auditor

alter default privileges revoke usage on schemas from public

select defaclnamespace::regnamespace, defaclobjtype, defaclacl from pg_default_acl order by 2

create table later (a serial)

select relacl from pg_class where relname in ('later', 'later_a_seq') order by relname

alter default privileges in schema recorded revoke select on tables from auditor

alter default privileges revoke usage on sequences from auditor

select count(*) from pg_default_acl

set role nobody

set session authorization nobody

set session authorization clerk

select current_user, session_user

set role boss

set role postgres

set session authorization auditor

reset session authorization

begin; set local role clerk; select current_user; rollback; select current_user <> 'clerk'

set role none

set role clerk

set role auditor

reset role

grant pg_read_all_data to clerk

set role clerk

select count(*) from orders

insert into orders values (50)

select count(*) > 0 from pg_authid

select count(*) > 0 from pg_roles

begin; insert into orders values (51); prepare transaction 'of clerk'

reset role

begin; insert into orders values (52); prepare transaction 'of postgres'

select gid, owner, pg_has_role('clerk', owner, 'member') from pg_prepared_xacts order by gid

set role clerk

commit prepared 'of postgres'

rollback prepared 'of postgres'

rollback prepared 'of clerk'

reset role

commit prepared 'of postgres'

set role clerk

create schema clerks

create role another

drop schema recorded

reset role

drop owned by clerk, auditor cascade

select relacl from pg_class where relname in ('orders', 'totals', 'numbers') order by relname

drop role clerk, auditor, boss

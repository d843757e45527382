create table t (a int primary key)

begin

insert into t values (1)

rollback

select * from t

begin; insert into t values (2); commit

select * from t

insert into t values (3); insert into t values (2)

select * from t order by a

begin

savepoint one

insert into t values (4)

savepoint two

insert into t values (4)

select 1

rollback to two

insert into t values (5)

release one

rollback to two

rollback

select * from t order by a

savepoint x

rollback

commit

begin; begin; commit

begin isolation level serializable

show transaction_isolation

commit

begin read only

insert into t values (9)

rollback

start transaction isolation level repeatable read, read write

set transaction read only

insert into t values (9)

rollback

set search_path = nowhere

show search_path

reset search_path

set search_path = recorded

begin; set local work_mem = '8MB'; show work_mem

rollback

show work_mem

set nosuch = 1

set work_mem = 'x'

prepare p (int) as select $1 + 1

execute p (41)

execute p ('x')

execute p

deallocate p

execute p (1)

begin

declare c cursor for select generate_series(1, 5)

fetch 2 from c

fetch next from c

move 1 in c

fetch all from c

fetch 1 from c

close c

fetch 1 from c

rollback

begin; create table made (a int); insert into made values (1); select * from made; rollback

select * from made

begin; drop table t; select * from t

rollback

select count(*) from t

select 1; select 2; select 3

select 1; select 1 / 0; select 3

lock table t

discard all

select set_config('application_name', 'tester', false), current_setting('application_name')

select current_setting('nosuch.setting', true)

vacuum

begin; vacuum

rollback

analyze t

checkpoint

listen here

notify here, 'payload'

unlisten *

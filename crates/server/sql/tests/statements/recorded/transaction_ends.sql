create table kept (a int)

begin

create temp table scratch (a int)

rollback

create temp table scratch (a int)

insert into scratch values (1)

select a from pg_temp.scratch

begin

savepoint s

rollback to s

create temp table other (a int)

commit

select count(*) from other

begin

insert into scratch values (2)

prepare transaction 'temporary'

select a from scratch

begin

select a from scratch

prepare transaction 'temporary'

begin

create temp table more (a int)

prepare transaction 'temporary'

begin

create temp view scratch_view as select 1

prepare transaction 'temporary'

begin

listen somewhere

prepare transaction 'listens'

begin

insert into kept values (1)

unlisten *

prepare transaction 'listens'

rollback prepared 'listens'

begin

notify somewhere

prepare transaction 'listens'

select pg_listening_channels()

begin

listen one

select pg_listening_channels()

savepoint s

listen two

rollback to s

listen three

commit

select pg_listening_channels() order by 1

begin

unlisten one

select pg_listening_channels() order by 1

rollback

select pg_listening_channels() order by 1

begin

unlisten one

commit

select * from pg_listening_channels()

begin

unlisten *

listen four

commit

select * from pg_listening_channels()

unlisten *

select * from pg_listening_channels()

select pg_advisory_lock(1) is null

begin

select pg_advisory_xact_lock(1) is null

prepare transaction 'both'

select pg_advisory_unlock(1)

begin

declare held cursor with hold for select 1

prepare transaction 'held'

begin

insert into kept values (2)

declare plain cursor for select 1

prepare transaction 'plain'

rollback prepared 'plain'

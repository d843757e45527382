create schema earlier; create schema later

create table later.t (a int, b text); insert into later.t values (1, 'x')

create type mood as enum ('sad', 'ok', 'happy'); create domain few as int check (value < 9)

create table moods (m mood, f few, ms mood[]); insert into moods values ('sad', 1, '{sad,ok}'), ('happy', 2, '{}')

set search_path = earlier, later, recorded

create view recorded.plain as select t.a, t.b from t

create view recorded.starred as select * from t

create view recorded.aliased as select x.a from t as x

create view recorded.qualified as select later.t.a from later.t where later.t.b = 'x'

create view recorded.joined as select t.a, m.m from t join moods m on m.f = t.a

create view recorded.over as with t as (select 5 as a) select a from t union select a from recorded.plain

create materialized view recorded.kept as select a from t

set search_path = recorded

create view labels as select m, m = 'sad' as is_sad, 'ok'::mood as k, 'happy'::mood as h, f::few as f, cast('sad' as mood) as c, 'sad' as s from moods where m in ('sad', 'happy') and ms <> '{ok,sad}'

create table earlier.t (a int, b text); insert into earlier.t values (100, 'x')

set search_path = earlier, later, recorded; select a from plain union all select a from starred union all select a from aliased union all select a from qualified order by 1

alter table later.t rename to u

select * from plain; select * from starred; select * from aliased; select * from qualified; select * from joined; select * from over order by a

refresh materialized view kept; select * from kept

alter schema later rename to latest

alter table latest.u set schema recorded

select * from plain; select * from starred; select * from aliased; select * from qualified; select * from joined; select * from over order by a

update plain set b = 'y'; insert into starred values (2, 'z'); delete from plain where a = 1; select * from recorded.u

alter view plain rename to simple

select * from over order by a

alter table moods rename to feelings

alter type mood rename to feeling; alter domain few rename to fewest

select * from labels order by m

alter type feeling rename value 'sad' to 'gloomy'; alter type feeling add value 'worse' before 'gloomy'

select * from labels order by m

insert into feelings values ('worse', 3, '{}'); select * from labels order by m

drop table u

drop type feeling

create type mood as enum ('sad', 'fine'); create table t (a int, b text, c bool, d varchar(5), e numeric, f mood, g int); insert into t select i % 10, 'x' || i, i % 2 = 0, 'v', i, 'fine', null from generate_series(1, 1000) i

select count(*) from pg_statistic where starelid = 't'::regclass

analyze t

select staattnum, stainherit, stanullfrac, stadistinct, stakind1, stakind2, stakind3, stakind4, stakind5 from pg_statistic where starelid = 't'::regclass order by 1

select staattnum, staop1, staop2, staop3, staop4, stacoll1, stacoll2, stacoll3 from pg_statistic where starelid = 't'::regclass order by 1

select staattnum, stavalues1, stanumbers1 from pg_statistic where starelid = 't'::regclass and stakind1 = 1 and staattnum <> 1 order by 1

select staattnum, stanumbers2, stavalues3 from pg_statistic where starelid = 't'::regclass and staattnum in (2, 5) order by 1

create role statistics_reader; grant usage on schema recorded to statistics_reader; grant select on t to statistics_reader; set role statistics_reader

select count(*) from pg_statistic

reset role; revoke all on t from statistics_reader; revoke all on schema recorded from statistics_reader; drop role statistics_reader

drop table t; drop type mood

select count(*) from pg_statistic s where not exists (select from pg_class c where c.oid = s.starelid)

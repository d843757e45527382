create table t (a int primary key, b text, c numeric, d json)

create view v as select 1 as one

create sequence s

analyze t (a, e)

analyze t (a, a)

analyze nowhere

analyze v, s

select reltuples from pg_class where relname = 't' and relnamespace = 'recorded'::regnamespace

insert into t select n, case when n % 10 < 8 then 'often' when n % 10 = 8 then 'x' || n % 3 end, n % 7 + 0.5, '{}' from generate_series(1, 1000) n

analyze t

select attname, inherited, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs, correlation is null as unordered from pg_stats where tablename = 't' and schemaname = 'recorded' and attname <> 'c' order by attname

select n_distinct, most_common_freqs, histogram_bounds from pg_stats where tablename = 't' and schemaname = 'recorded' and attname = 'c'

select cardinality(histogram_bounds::text::int[]), correlation from pg_stats where tablename = 't' and schemaname = 'recorded' and attname = 'a'

select reltuples from pg_class where relname = 't' and relnamespace = 'recorded'::regnamespace

select n_live_tup, last_analyze is not null as analyzed from pg_stat_user_tables where relname = 't' and schemaname = 'recorded'

update t set b = 'other' where a % 2 = 0

begin

analyze t (b)

select n_distinct, most_common_vals, most_common_freqs from pg_stats where tablename = 't' and schemaname = 'recorded' and attname = 'b'

rollback

select n_distinct, most_common_vals from pg_stats where tablename = 't' and schemaname = 'recorded' and attname = 'b'

alter table t drop column b

select attname from pg_stats where tablename = 't' and schemaname = 'recorded' order by attname

vacuum analyze t

drop table t

select count(*) from pg_stats where tablename = 't' and schemaname = 'recorded'

set default_statistics_target = 10

create table u as select n, n % 5 as k from generate_series(1, 2000) n

analyze u

select attname, n_distinct, most_common_vals, cardinality(histogram_bounds::text::int[]) from pg_stats where tablename = 'u' and schemaname = 'recorded' order by attname

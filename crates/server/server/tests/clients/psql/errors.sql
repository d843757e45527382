select 1 +;
select nothing from nowhere;
select 1 as a order by b;
selec 1;
create table t (a integer primary key check (a > 0), b text not null);
insert into t values (1, 'x');
insert into t values (1, 'y');
insert into t values (0, 'z');
insert into t values (2, null);
insert into t values ('many', 'x');
insert into t values (1, 2, 3);
select 1 / 0;
select 'a'::integer;
select 2147483647 + 1;
select upper(1, 2);
create table t (a integer);
drop table missing;
drop table if exists missing;
\set VERBOSITY sqlstate
select * from missing;
select 1 / 0;
\set VERBOSITY terse
select nothing from t;
\set VERBOSITY default
\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
select 1;
\echo :ERROR :SQLSTATE :ROW_COUNT
drop table t;

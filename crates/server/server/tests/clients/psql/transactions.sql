create table t (a integer primary key);
begin;
insert into t values (1);
savepoint s;
insert into t values (1);
select * from t;
rollback to s;
insert into t values (2);
commit;
select * from t order by a;
begin;
insert into t values (3);
rollback;
begin; insert into t values (4); select 1 / 0; insert into t values (5);
select 'ignored';
commit;
select * from t order by a;
commit;
start transaction isolation level repeatable read read only;
insert into t values (6);
rollback;
\set AUTOCOMMIT off
insert into t values (7);
rollback;
\set AUTOCOMMIT on
\set ON_ERROR_ROLLBACK on
begin;
insert into t values (8);
insert into t values (8);
insert into t values (9);
commit;
select * from t order by a;
drop table t;

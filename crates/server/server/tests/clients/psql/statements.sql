\pset null (none)
create table accounts (number integer primary key, owner text not null, balance numeric(12, 2) default 0, opened date);
insert into accounts values (1, 'Ada', 100.50, '2026-01-31'), (2, 'Böb', 0, null);
insert into accounts (number, owner) values (3, 'Cy') returning *;
select * from accounts order by number;
select owner, balance * 2 as double, opened is null as is_new from accounts where balance >= 0 order by owner desc limit 2;
update accounts set balance = balance - 25.25 where owner = 'Ada' returning balance;
delete from accounts where number = 3;
select count(*), sum(balance), max(opened) from accounts;
\x on
select * from accounts where number = 1;
\x off
\t on
select 1 where false;
select 'only this';
\t off
\pset format unaligned
select number, owner from accounts order by 1;
\pset format aligned
;
select 1 as a \; select 2 as b;
select true, 1.5::float8, -7::smallint, 'x'::char(3), null::text, '2026-11-23 12:00:00'::timestamp;
select number as n, owner as o from accounts where number = 2 \gset
\echo :n :o
select :n + 1 as next, :'o' as quoted;
select 1 as one, 'a'::text as letter \gdesc
select format('select %s as made', number) from accounts order by 1 \gexec
with big as (select * from accounts where balance > 10) select owner from big;
select a.owner, b.owner from accounts a join accounts b on a.number < b.number;
select generate_series(1, 3) as n;
values (1, 'one'), (2, 'two');
drop table accounts;

create table entries (account int primary key, amount int, kind text);

insert into entries values (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b');

create table limits (kind text, most int);

insert into limits values ('a', 1), ('b', 2);

select kind, (select count(*) from limits l where l.kind = e.kind and l.most < e.amount) from entries e group by kind;

select kind, (select sum(most) over (order by most rows e.amount preceding) from limits l limit 1) from entries e group by kind;

select kind, (select sum(most) over (order by most rows length(e.kind) preceding) from limits l order by 1 limit 1) from entries e group by kind order by kind;

select kind from entries e group by kind having exists (select from limits l limit e.amount);

select account, (select sum(most) over (order by most rows e.amount preceding) from limits l order by 1 limit 1) from entries e group by account order by account;

select kind, count(*) from entries group by rollup (kind) having count(*) > 1 order by kind nulls last;

drop table entries, limits;

create table stock (id int primary key, amount int default 0, note text, doubled int generated always as (amount * 2) stored, constraint amount_is_positive check (amount >= 0)); insert into stock values (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three')

create table arrivals (id int, amount int, note text); insert into arrivals values (2, 5, 'more'), (3, -30, 'gone'), (4, 40, 'four'), (5, null, null)

merge into stock s using arrivals a on s.id = a.id when matched and s.amount + a.amount = 0 then delete when matched then update set amount = s.amount + a.amount, note = s.note || ' ' || a.note when not matched and a.amount is null then do nothing when not matched then insert (id, amount, note) values (a.id, a.amount, a.note)

select * from stock order by id

merge into stock using (select 1 as n union select 7) q on id = n when matched then do nothing when not matched then insert default values

merge into stock using (select 1 as n union select 7) q on id = n when not matched then insert (id) values (n)

select * from stock order by id

merge into stock s using (values (1, 100), (2, 200)) v(k, x) on s.id = v.k when matched and v.x > 100 then update set (amount, note) = (v.x, 'tuple'), id = s.id + 10 when matched then update set (amount, note) = (select v.x + 1, 'query')

merge into stock s using (values (8, 1)) v on s.id = column1 when not matched then insert values (column1, default, upper('eight'))

select * from stock order by id

merge into stock s using (values (1), (1)) v on s.id = column1 when matched then update set note = 'twice'

merge into stock s using (values (1), (1)) v on s.id = column1 when matched then delete

merge into stock s using (values (1), (1)) v on s.id = column1 when matched then do nothing

merge into stock s using (values (20), (20)) v on s.id = column1 when not matched then insert (id) values (column1)

merge into stock s using (values (1)) v on s.id = column1 when matched then update set amount = -1

merge into stock s using (values (1)) v on s.id = column1 when matched then update set doubled = 1

merge into stock s using (values (9)) v on s.id = column1 when not matched then insert (id, doubled) values (9, 1)

merge into stock using stock on true when matched then delete

merge into stock s using arrivals on true when matched then delete when matched then do nothing

merge into stock s using arrivals a on true when matched then delete when not matched and true then do nothing when not matched then do nothing when not matched then insert values (1)

merge into stock s using arrivals a on s.id = a.id when not matched then insert values (s.id, 1)

merge into stock s using arrivals a on s.id = a.id when not matched and s.amount > 1 then insert values (1, 1)

merge into stock s using arrivals a on s.id = a.id when matched then update set missing = 1

merge into stock s using arrivals a on s.id = a.id when matched then update set note = amount

merge into stock s using arrivals a on s.id = a.id when matched and count(*) > 1 then delete

merge into stock s using arrivals a on s.id = a.id when matched and 5 then delete

merge into stock s using arrivals a on s.id = a.id when not matched then insert (id, amount) values (generate_series(1, 2), 1)

merge into stock s using arrivals a on s.id = a.id when not matched then insert (id, amount) values (1)

merge into stock s using arrivals a on s.id = a.id when not matched then insert (id) values (1, 2)

merge into stock s using arrivals a on s.id = a.id when not matched then update set amount = 1

merge into stock s using arrivals a on s.id = a.id when matched then insert values (1)

merge stock s using arrivals a on s.id = a.id when matched then delete

merge into nowhere using arrivals a on true when matched then delete

with m as (merge into stock using arrivals on true when matched then delete) select 1

with recursive q as (select 1) merge into stock using q on true when matched then delete

with q as (select 1 as one), u as (update arrivals set note = 'seen' where id = 4 returning id) merge into stock s using u on s.id = u.id when matched then update set note = (select 'one is ' || one from q)

select note from stock where id = 4

prepare merged(int, int) as merge into stock s using (select $1 as k) q on s.id = q.k when matched then update set amount = $2 when not matched then insert (id, amount) values ($1, $2)

execute merged(4, 44)

execute merged(6, 66)

select id, amount, doubled from stock where id in (4, 6) order by id

begin read only; merge into stock s using arrivals a on s.id = a.id when matched then delete

rollback

create table counters (id int primary key, a int[]); insert into counters values (1, '{1}')

merge into counters c using (values (1), (2)) v(k) on c.id = k when matched then update set a[3] = k, a[2] = 7 when not matched then insert values (k, '{5}')

select * from counters order by id

create view shown as select * from counters

merge into shown using arrivals on true when matched then delete

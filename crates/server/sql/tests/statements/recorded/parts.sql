create table a (i int[], t text[])

insert into a values (array[1, 2], array['a', 'b'])

insert into a values(array[3]), (array[]::int[])

insert into a select array[4]

insert into a (i) values (array[5]) returning i

insert into a(i[1], i[2]) values (6, 7) returning i

select * from a order by i

select make_interval(years := 1, months := 2), make_interval(days => 3)

select make_date(year := 2024, month := 2, day => 29)

select make_interval(nothing := 1)

select nosuch(*)

select nosuch(distinct 1)

select nosuch(1 order by 1)

select nosuch(1) within group (order by 2)

select nosuch(1) filter (where true)

select abs(*)

select abs(distinct 1)

select abs(1) filter (where true)

select lower('A') within group (order by 1)

create table i (a int generated always as identity, b text)

merge into i using (select 20 as a, 'system' as b) s on i.a = s.a when not matched then insert (a, b) overriding system value values (s.a, s.b)

merge into i using (select 30 as a, 'user' as b) s on i.a = s.a when not matched then insert (a, b) overriding user value values (s.a, s.b)

merge into i using (select 40 as a, 'all' as b) s on i.a = s.a when not matched then insert overriding system value values (s.a, s.b)

merge into i using (select 50 as a, 'none' as b) s on i.a = s.a when not matched then insert (a, b) values (s.a, s.b)

select * from i order by a

copy (insert into a values (null)) to stdout

copy (update a set t = null) to stdout

copy (select 1 as x into temporary y) to stdout

reindex schema nothing

reindex table nothing

reindex index nothing

reindex table a

reindex (verbose) table a

reindex (nothing) table a

begin; reindex table concurrently a

rollback; begin; reindex schema recorded

rollback

reindex system concurrently postgres

reindex table concurrently pg_class

select pg_notify(null, 'x')

select pg_notify('', 'x')

create domain few as int[] check (array_length(value, 1) <= 2)

create table f (v few)

insert into f values (array[1, 2]) returning v

update f set v[3] = 3

update f set v[2] = 5 returning v

insert into f (v[1], v[2], v[3]) values (1, 2, 3)

insert into f (v[1]) values (1) returning v

select date_part('year', date '2024-05-06'), date_part('doy', date '2024-05-06')

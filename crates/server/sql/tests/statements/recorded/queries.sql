create table people (id int primary key, name text not null, boss int references people, salary numeric(10,2), joined date)

insert into people values (1, 'ada', null, 300, '2020-01-01'), (2, 'bob', 1, 200, '2021-02-03'), (3, 'cleo', 1, 250.50, '2021-07-01'), (4, 'dan', 2, 100, null), (5, 'eve', 2, null, '2022-12-31')

create table tasks (id serial primary key, person int, title text, hours int)

insert into tasks (person, title, hours) values (1, 'plan', 5), (2, 'build', 8), (2, 'test', 3), (3, 'write', 4), (9, 'lost', 1)

select * from people order by id

select name, salary from people where salary > 150 order by salary desc

select p.name, t.title from people p join tasks t on t.person = p.id order by 1, 2

select p.name, t.title from people p left join tasks t on t.person = p.id order by p.id, t.id

select p.name, t.title from people p right join tasks t on t.person = p.id order by t.id

select p.name, t.title from people p full join tasks t on t.person = p.id order by p.id nulls last, t.id

select count(*) from people, tasks

select name from people where exists (select 1 from tasks where person = people.id) order by 1

select name from people where id not in (select person from tasks) order by 1

select name, (select sum(hours) from tasks where person = people.id) as hours from people order by id

select name, (select hours from tasks where person = people.id) from people where id = 2

select boss, count(*), avg(salary), sum(salary), min(name), max(joined) from people group by boss order by boss nulls first

select boss, count(*) from people group by boss having count(*) > 1 order by 1

select count(salary), count(distinct boss), count(*) filter (where salary > 150), string_agg(name, ',' order by name desc), array_agg(id order by id) from people

select boss, name, count(*) from people group by rollup (boss, name) order by boss nulls last, name nulls last

select name, row_number() over (order by salary desc nulls last), rank() over (partition by boss order by salary), sum(salary) over (order by id) from people order by id

select name, lag(name) over w, lead(name) over w, first_value(name) over w from people window w as (order by id) order by id

select id, sum(id) over (order by id rows between 1 preceding and 1 following) from people order by id

select distinct boss from people order by boss nulls first

select distinct on (boss) boss, name from people order by boss nulls first, name

select name from people order by id limit 2 offset 1

select name from people order by id fetch first 2 rows only

select 1 union select 2 union all select 1 order by 1

select id from people intersect select person from tasks order by 1

select id from people except select person from tasks order by 1

with recursive chain as (select id, name, 1 as level from people where boss is null union all select p.id, p.name, level + 1 from people p join chain c on p.boss = c.id) select * from chain order by level, id

with recursive n(i) as (select 1 union all select i + 1 from n where i < 5) select sum(i) from n

with big as (select * from people where salary > 150) select count(*) from big

select x, y from (values (1, 'a'), (2, 'b')) v(x, y) order by x desc

select i, i * i from generate_series(1, 4) i

select * from generate_series(1, 3) with ordinality

select unnest(array['a','b']), generate_series(1, 3)

select p.name, x.title from people p cross join lateral (select title from tasks where person = p.id order by hours desc limit 1) x order by 1

select * from people p natural join (select 1 as id) q

select id, name from people join tasks using (id) order by id

select name from people where (boss, salary) = (1, 200)

select name from people where salary = (select max(salary) from people)

select name from people where salary > all (select salary from people where boss = 2 and salary is not null) order by 1

select people from people where id = 1

select (p).name from people p where p.id = 1

select p.* from people p where id = 1

select nothing from people

select p.nothing from people p

select people.name from people p

select * from nowhere

select name, count(*) from people

select sum(count(*)) from people

select name from people where count(*) > 1

select id from people join tasks on true

select * from people order by 9

select a.id from people a, people a

select percentile_cont(0.5) within group (order by salary), mode() within group (order by boss) from people

select bool_and(salary > 50), bool_or(salary > 250), every(id > 0), variance(id), stddev(id) from people

select boss, json_agg(name order by name) from people group by boss order by boss nulls first

select name from people for update

select exists (select from people where id = 77)

select max(joined) - min(joined) from people

values (1, 'x'), (2, 'y')

create table outer_rows (a int, b int); insert into outer_rows values (1, 10), (2, 20), (3, 30)

select a, (select r from (select a as r) y), (select a), (select r from (select 1 as one) x, (select b as r) y) from outer_rows order by a

select o.a, s.z, i.n from outer_rows o join generate_series(1, 2) i(n) on true left join lateral (select o.a as z from generate_series(1, 1)) s on s.z = i.n order by 1, 3

select o.a, s.* from outer_rows o left join lateral (select o.b as x, 1 as one where o.a > 1) s on true order by 1

select (select max((select i.b from outer_rows i where i.a = o.a))) from outer_rows o

select (select count(*) filter (where o.a > 1) from (values (1)) t(x)), (select sum(o.b)) from outer_rows o

select v.x from outer_rows o, lateral (values ((select o.a + 1)), (o.a + 100)) v(x) where (select v.x) < 103 order by 1

select o.a, x.n from outer_rows o cross join lateral (with recursive x(n) as (select o.a as n union select n + 1 from x where n < 3) select * from x) x order by 1, 2

select grouping(s.x), s.x from outer_rows o cross join lateral (select (select o.a) as x) s group by s.x order by 2

select o.a from outer_rows o where exists (select from (select o.a as r) y where r = 2)

select o.a, (select r from (select o.a as r union all select 7) u order by r desc limit 1), array(select r from (select o.a as r) y, generate_series(1, 2)) from outer_rows o order by 1

select * from (select 1 as x, a, sum(b) from outer_rows group by grouping sets (1, 2)) s order by 1, 2

select * from (select 1 as x, a, sum(b) from outer_rows group by grouping sets (1, 2)) s where x = 1 and a = 1

select o.a, (with c(x) as (values (o.a)) select (select x from c)) from outer_rows o order by 1

select o.a, (with c(x) as (values (o.a)) values ((select x from c))) from outer_rows o order by 1

with recursive x(a) as ((values ('a'), ('b')) union all (with z as not materialized (select * from x) select z.a || z1.a from z cross join z as z1 where length(z.a || z1.a) < 5)) select * from x order by 1

with recursive iter(id) as (select 0 union (with r(id) as (select id + 1 from iter where id < 3), f as (select id from r) select f.id from f, f g)) select * from iter order by 1

select n, n * 7919 % 1000 as k from generate_series(1, 5000) n order by n * 7919 % 1000 desc, n limit 7

select n % 3 as k, n from generate_series(1, 1000) n order by n % 3, n desc limit 40 offset 33

select n from generate_series(1, 300) n order by -n limit 3

select case when a > 1 then generate_series(1, 2) end from outer_rows

select coalesce(generate_series(1, 2), a) from outer_rows

select * from generate_series(1, generate_series(1, 2))

select min(generate_series(1, 3)) over () from outer_rows

select * from (with w as (delete from outer_rows returning a) select * from w) s

with w as (with i as (delete from outer_rows returning a) select * from i) select * from w

select a from outer_rows order by a fetch first 1 row with ties for update skip locked

select percentile_cont(0.5, 0.5), 1 from outer_rows

select sum(1) within group (order by a) from outer_rows

select * from rows from (generate_series(1, 3), generate_series(10, 11)) as z(a, b)

select * from rows from (generate_series(1, 2), unnest(array['a', 'b', 'c'], array[true]), upper('x')) with ordinality

select o.a, z.* from outer_rows o, rows from (generate_series(1, o.a), abs(-7)) z where o.a < 3 order by 1, 2

select z.a from rows from (generate_series(1, 3)) as z(a) where a > 1

select * from json_to_recordset('[{"x": 1, "y": "a"}]') as (x int, y text)

select json_to_record.x from json_to_record('{"x": 1, "y": "a"}') as (x int, y text)

with v(a) as (values (1)) select * from v

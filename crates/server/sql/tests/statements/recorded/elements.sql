create table grids (id int primary key, a int[], b int[][], t text[], j jsonb, v varchar(3)[] default '{x}', g int generated always as (a[1]) stored)

insert into grids (id, a[1], a[3], t) values (1, 10, 30, '{one,two}')

insert into grids (id, a[2:3], b[1:2][1:2]) values (2, '{5,6,7}', '{{1,2},{3,4}}'), (3, array[8, 9], array[[5, 6], [7, 8]])

insert into grids (id, a[1], a[2], j['x'], j['y'][1]) select 4, 40, 41, '{"in": 1}', '2'

select * from grids order by id

insert into grids (id, a[1]) values (5, default)

insert into grids (id, a[1]) values (5, 'word')

insert into grids (id, a[1]) values (5, now())

insert into grids (id, a[1:2]) values (5, now())

insert into grids (id, a, a[1]) values (5, '{}', 1)

insert into grids (id, v[1], v[2]) values (5, 'abcd', 'b')

insert into grids (id, v[1], v[2]) values (6, 'abc', 'b') returning v, id, a

update grids set a[2] = a[1] + 1, t[2] = 'zwei', t[4] = 'four' where id = 1 returning a, t, g

update grids set a[0] = 0, a[-2] = -2 where id = 1 returning a

update grids set a[1] = 99 where id = 1 returning a, g

update grids set a[2:3] = '{22,33,44}', b[2][1] = 30 where id = 2 returning a, b

update grids set a[:2] = '{1,2,3,4}' where id = 2 returning a

update grids set a[4:] = '{1}' where id = 2 returning a

update grids set a[3:2] = '{1}' where id = 2

update grids set a[1:9] = '{1}' where id = 2

update grids set a[1:2] = null where id = 2 returning a

update grids set a[null] = 1 where id = 2

update grids set a[null:2] = '{1}' where id = 2

update grids set b[1] = 1 where id = 2

update grids set b[1][9] = 1 where id = 2

update grids set b[1:2][2:2] = '{8,9}' where id = 2 returning b

update grids set b[2:2] = '{{8,9}}' where id = 2 returning b

update grids set a[1] = 'x'::text where id = 2

update grids set a[1:2] = 5 where id = 2

update grids set a['x'] = 5 where id = 2

update grids set id[1] = 5 where id = 2

update grids set g[1] = 5 where id = 2

update grids set a[1] = default where id = 2

update grids set a = '{}', a[1] = 5 where id = 2

update grids set a[1] = 5, a = '{}' where id = 2

update grids set a = null where id = 3 returning a

update grids set a[:3] = '{1,2,3}' where id = 3

update grids set a[2:3] = '{1,2,3}' where id = 3 returning a

update grids set a[2147483647] = 1 where id = 3

update grids set b[3][3][3] = 1 where id = 1 returning b

update grids set j['a'] = '1', j['b'][2] = '"two"', j['c']['d'] = 'true' where id = 1 returning j

update grids set j['b'][0] = '{"e": 1}', j['b'][-1] = 'null' where id = 1 returning j

update grids set j['b'][-9] = '1' where id = 1

update grids set j['a']['x'] = '1' where id = 1

update grids set j[null] = '1' where id = 1

update grids set j['z'] = null where id = 1 returning j

update grids set j['b']['x'] = '1' where id = 1

update grids set j['a':'b'] = '1' where id = 1

update grids set j = '[1]' where id = 1 returning j

update grids set j[2] = '3', j[0]= to_jsonb(id) where id = 1 returning j

update grids set j = null where id = 1 returning j

update grids set j[2]['k'] = '3' where id = 1 returning j

update grids set j = null where id = 1 returning j

update grids set j['2'][1] = '3' where id = 1 returning j

update grids set j['2'] = 'x' where id = 1

insert into grids (id, a[1]) values (1, 7) on conflict (id) do update set a[5] = excluded.a[1], t[1] = 'again' returning a, t

update grids g set a[s.n] = s.n * 100 from (values (2)) s(n) where g.id = 4 returning a

update grids set a[id] = 4, t[1] = case when a[1] is distinct from 40 then 'no' else 'yes' end where id = 4 returning a, t

update grids set a[2] = (select max(id) from grids) where id = 4 returning a

update grids set v[2] = 'long one' where id = 4

update grids set a[(select 1)] = 5 where id = 4 returning a

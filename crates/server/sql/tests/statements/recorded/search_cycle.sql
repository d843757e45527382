create table edges (f int, t int, label text); insert into edges values (1, 2, '1 -> 2'), (1, 3, '1 -> 3'), (2, 3, '2 -> 3'), (1, 4, '1 -> 4'), (4, 5, '4 -> 5')

with recursive paths (f, t, label) as (select * from edges union all select e.* from edges e, paths p where e.f = p.t) search depth first by f, t set seq select * from paths order by seq

with recursive paths (f, t, label) as (select * from edges union all select e.* from edges e, paths p where e.f = p.t) search breadth first by f, t set seq select * from paths order by seq

insert into edges values (5, 1, '5 -> 1')

with recursive paths (f, t, label) as (select * from edges union all select e.* from edges e, paths p where e.f = p.t) cycle f, t set is_cycle using path select * from paths order by path

with recursive paths (f, t, label) as (select * from edges union distinct select e.* from edges e, paths p where e.f = p.t) cycle f, t set is_cycle to 'Y' default 'N' using path select f, t, is_cycle, path from paths order by path

with recursive paths (f, t, label) as (select * from edges e where f = 1 union all select e.* from edges e join paths on e.f = paths.t) search depth first by f, t set seq cycle f, t set is_cycle using path select f, t, seq, is_cycle from paths order by seq

with recursive n (x) as (values (1) union all select x + 1 from n where x < 4) search breadth first by x set o select x, o from n order by o

create view walked as with recursive paths (f, t, label) as (select * from edges union all select e.* from edges e, paths p where e.f = p.t) cycle f set is_cycle using path select f, t, is_cycle from paths

select count(*), bool_or(is_cycle) from walked

with recursive a (x) as (select 1 union all select x + 1 from a where x < 3) search depth first by x set o, b (y) as (select 10 union all select y + 1 from b where y < 12) search depth first by y set o select x, y from a, b order by a.o, b.o

create sequence s minvalue 1 maxvalue 3 cycle

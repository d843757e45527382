create table pairs (a int, b text); insert into pairs values (1, 'x'), (2, null), (null, null)

select row(p.*), row(p.*, 1), (p.*, 2) from pairs p order by a

select rank(3) within group (order by x) from (values (1), (3), (3), (5), (null)) v(x)

select rank(3) within group (order by x desc), dense_rank(5) within group (order by x), dense_rank(4) within group (order by x), percent_rank(3) within group (order by x), cume_dist(3) within group (order by x) from (values (1), (3), (3), (5), (null)) v(x)

select rank(null) within group (order by x), rank(null) within group (order by x nulls first), rank(6) within group (order by x desc nulls last), rank(6) within group (order by x desc) from (values (1), (3), (3), (5), (null)) v(x)

select rank(3, 'b') within group (order by x, y desc), dense_rank(3, 'b') within group (order by x, y desc) from (values (1, 'a'), (3, 'c'), (3, 'b'), (3, 'a')) v(x, y)

select g, rank(2) within group (order by x) filter (where x <> 1), cume_dist(2) within group (order by x) from (values (1, 1), (1, 2), (2, 1), (2, 5)) v(g, x) group by g order by g

select rank(1) within group (order by x), percent_rank(1) within group (order by x), cume_dist(1) within group (order by x) from (values (1)) v(x) where false

select rank('adam'::text) within group (order by x) from (values ('fred'), ('jim')) v(x)

select rank(sum(n)) within group (order by n) from (values (1)) v(n)

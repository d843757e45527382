select n, sum(n) over (order by n range '2'::int preceding) from generate_series(1, 5) n

select d, count(*) over (order by d range between '1 day'::interval preceding and '1 day'::interval following) from (values (date '2024-01-01'), ('2024-01-02'), ('2024-01-04')) v(d)

select d, count(*) over (order by d range between '1 day' preceding and '36 hours' following exclude current row) from (values (date '2024-01-01'), ('2024-01-02'), ('2024-01-04')) v(d)

select trim(both from '  x '), trim(leading from '  x '), trim(trailing from '  x ') || '|', trim(from ' x ') || '|'

select trim(both 'y' from 'yxy'), trim('y' from 'yxy')

select substring('abcdef' similar 'a#"(b_d)#"%' escape '#'), substring('abc' similar 'x%' escape '#')

select substring(null similar '%' escape '#') is null

select a, b, count(*) from (values (1, 2), (1, 3), (2, 3)) v(a, b) group by grouping sets (a, grouping sets (b, ())) order by 1, 2

select a, b, count(*) from (values (1, 2), (1, 3), (2, 3)) v(a, b) group by grouping sets (grouping sets (rollup (a, b)), grouping sets ((a, (b)))) order by 1, 2, 3

select a, b, count(*) from (values (1, 2), (1, 3), (2, 3)) v(a, b) group by grouping sets (a, cube (a, b)) order by 1, 2, 3

select a, b, grouping(a, b), count(*) from (values (1, 2), (1, 3), (2, 3)) v(a, b) group by distinct rollup (a, b), rollup (a) order by 1, 2, 3

select a, b, count(*) from (values (1, 2), (1, 3), (2, 3)) v(a, b) group by all rollup (a, b), rollup (a) order by 1, 2, 3

select 3 in (values (1), (3)), 2 = any (values (1), (3)), 2 <> all (values (1), (3)), (values (4)) as four

select (values (1), (2))

select exists (values (1))

select count(*) from (select where false) q

select count(*) from (select union select) q

select count(*) from (select union all select) q

select count(*) from (select except select) q

select exists (select), exists (select where false)

select name 'a word' = name 'a word ', cast(name 'x' as text)

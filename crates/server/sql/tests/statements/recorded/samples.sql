create table parts (id int primary key, name text); insert into parts select n, 'part ' || n from generate_series(1, 100) n; create view seen as select * from parts; create materialized view kept as select * from parts

select count(*) from parts tablesample system (100)

select count(*) from parts tablesample bernoulli (0)

select count(*) from parts p tablesample bernoulli (100) where p.id < 11

select count(*) from parts tablesample system (100) repeatable (5)

select count(*) from kept tablesample bernoulli (100)

select count(*) between 10 and 90 from parts tablesample bernoulli (50)

select count(*) between 10 and 90 from parts tablesample bernoulli (50) repeatable (7)

select (select array_agg(id order by id) from parts tablesample bernoulli (50) repeatable (7)) = (select array_agg(id order by id) from parts tablesample bernoulli (50) repeatable (7)) as same

select (select array_agg(id order by id) from parts tablesample bernoulli (50) repeatable (7)) = (select array_agg(id order by id) from parts tablesample bernoulli (50) repeatable (8)) as same

select count(*) from parts a tablesample system (100), parts b tablesample system (0)

select count(*) from parts tablesample bernoulli (101)

select count(*) from parts tablesample bernoulli (-1)

select count(*) from parts tablesample bernoulli (null)

select count(*) from seen tablesample bernoulli (100)

select 'abc' like any (select 'a%'), 'abc' ilike any (select 'X%'), 'abc' like all (select unnest(array['a%', '%c'])), 'abc' not like all (select 'b%'), 'abc' ilike all (select 'A%' union select '%d')

select name from parts where name like any (select '%' || n from generate_series(98, 99) n) order by id

select 'abc' like any (select null)

select 'abc' not ilike any (array['A%', 'b%']), 'abc' like any (values ('a%'))

select distinct on (id) id, generate_series(1, 2) from parts where id < 3 order by id, 2 desc

select distinct on (g) g, id from (select generate_series(1, 2) as g, id from parts where id < 4) x order by g, id desc

select distinct on (generate_series(1, 2)) generate_series(1, 2) as g, id from parts where id < 3 order by 1, 2 desc

select distinct on (1) generate_series(1, 2) as g, id from parts where id < 3 order by g, id

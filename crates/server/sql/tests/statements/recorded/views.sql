create table parts (id int primary key, name text default 'unnamed', price int check (price >= 0), weight int); insert into parts select n, 'part ' || n, n * 10, n from generate_series(1, 6) n

create view cheap as select id, name as label, price, price * 2 as twice from parts where price < 50

create view light as select label, id, twice from cheap where id < 4

select * from cheap order by id

insert into cheap (id, label, price) values (10, 'new', 15) returning *

insert into cheap values (11, 'second', 25) returning id, label, twice

insert into cheap (id) values (12) returning *

insert into cheap values (13, 'third', 25, 50)

insert into cheap (id, twice) values (13, 50)

insert into cheap (id, weight) values (13, 50)

insert into cheap (id, label) values (1, 'again')

insert into cheap (id, price) values (14, -1)

insert into cheap (id, label) values (1, 'again') on conflict (id) do nothing

insert into cheap as c (id, label, price) values (1, 'again', 3) on conflict (id) do update set label = c.label || ' and ' || excluded.label, price = excluded.twice where c.twice > 0 returning *, c.twice + 1

insert into cheap (id) values (5) on conflict (twice) do nothing

update cheap set price = price + 1, label = upper(label) where twice > 40 returning *

update cheap set twice = 4

update cheap c set price = o.price from parts o where o.id = c.id + 1 and c.id = 2 returning c.*, o.id

update cheap set price = 70 where id = 3 returning *

select id from cheap order by id

delete from cheap where id = 5

delete from cheap where label = 'SECOND' or twice = 30 returning label, twice

delete from cheap using parts p where p.id = cheap.id and p.name = 'unnamed' returning cheap.id

select * from light order by id

update light set label = 'lit' where twice > 40 returning *

update light set twice = 1

insert into light (id, label) values (20, 'x') returning *

insert into light values ('y', 21, 1)

delete from light where id = 2

update light set missing = 1

update light set light.label = 'x'

update light set label = 'a', label = 'b'

select * from parts order by id

create view both_columns as select price, price as cost, id from parts

update both_columns set price = 1, cost = 2

update both_columns set cost = 2 where id = 1 returning *

create view distinct_view as select distinct name from parts

insert into distinct_view values ('x')

create view grouped as select name, count(*) from parts group by name

update grouped set name = 'x'

delete from grouped

create view having_view as select 1 from parts having count(*) > 1

delete from having_view

create view of_union as select id from parts union select 1

delete from of_union

create view of_with as with p as (select * from parts) select * from p

update of_with set id = 1

create view limited as select id from parts limit 1

delete from limited

create view joined as select p.id from parts p, parts q

insert into joined values (1)

create view of_values as values (1, 2)

insert into of_values values (1)

create view of_nothing as select 1 as one

insert into of_nothing values (1)

create view counted as select count(*) from parts

insert into counted values (1)

create view windowed as select id, row_number() over () from parts

update windowed set id = 1

create view sets as select id, generate_series(1, 2) from parts

delete from sets

create view computed as select id + 1 as next from parts

insert into computed values (1)

update computed set next = 1

delete from computed where next = 21

create view outside as select * from of_union

update outside set id = 1

create view on_series as select * from generate_series(1, 2) n

delete from on_series

create view renamed as select x.a, x.b from parts as x(a, b)

update renamed set b = 'renamed' where a = 1 returning *

with changed as (update renamed set b = b || '!' where a = 1 returning *) select * from changed

prepare of_view(int) as update renamed set b = 'prepared' where a = $1 returning b

execute of_view(3)

create table elsewhere (r int, words text[]); create view of_elements as select words, r from elsewhere; insert into of_elements (words[2], r) values ('two', 1); update of_elements set words[1] = 'one' returning *

truncate cheap

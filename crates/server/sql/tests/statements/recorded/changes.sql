create table items (id int primary key, name text unique, price numeric(8,2) default 9.99, qty int not null default 1 check (qty >= 0), tags text[], made timestamp default '2024-01-01', total numeric generated always as (price * qty) stored)

insert into items (id, name) values (1, 'apple') returning *

insert into items values (2, 'pear', 1.25, 4, '{a,b}', default) returning id, total

insert into items (id, name, qty) values (3, 'fig', -1)

insert into items (id, name) values (1, 'other')

insert into items (id, name) values (4, 'pear')

insert into items (id, name, qty) values (4, 'nut', null)

insert into items (id, nope) values (1, 2)

insert into items (id, name) values (5)

insert into items (id, id) values (5, 6)

insert into items (id, name, total) values (5, 'kiwi', 3)

insert into items (id, price) values (6, 'cheap')

insert into items (id, price) values (6, 123456789)

insert into items (id, name) select i, 'n' || i from generate_series(10, 12) i returning id, name

insert into items (id, name) values (10, 'dup') on conflict do nothing

insert into items (id, name) values (10, 'dup') on conflict (id) do update set name = excluded.name || '!', qty = items.qty + 1 returning id, name, qty, total

insert into items (id, name) values (11, 'x') on conflict (id) do update set name = 'y' where items.qty > 100 returning *

insert into items (id, name) values (1, 'z') on conflict (qty) do nothing

insert into items (id, name) values (90, 'a'), (90, 'b') on conflict (id) do update set name = excluded.name

update items set price = price * 2 where id < 3 returning id, price, total

update items set (name, qty) = ('plum', 7) where id = 12 returning name, qty

update items set qty = default, price = default where id = 12 returning price, qty

update items set name = v.n from (values (10, 'ten'), (11, 'eleven')) v(i, n) where id = v.i returning id, name, v.i

update items i set qty = (select count(*) from items) where i.id = 1 returning qty

update items set id = id + 100 where id = 12 returning id

update items set id = id + 100 where id > 9 and id < 100

update items set qty = -5 where id = 1

update items set nope = 1

update items set qty = 1, qty = 2

update items set id = 1 where id = 2

update items set total = 1

delete from items where id = 110 returning id, name

delete from items using (values (111)) v(x) where id = v.x returning *

delete from items where nope = 1

with gone as (delete from items where id = 112 returning id) select * from gone

with new as (insert into items (id, name) values (50, 'fifty') returning id, name) select name from new

select id, name, price, qty, total from items order by id

create table parent (id int primary key, v text)

create table child (id int primary key, parent int references parent on delete cascade on update cascade, other int references parent on delete set null)

insert into parent values (1, 'a'), (2, 'b')

insert into child values (1, 1, 2), (2, 2, 1), (3, null, null)

insert into child values (4, 9, null)

update child set parent = 8 where id = 1

update parent set id = 11 where id = 1

select * from child order by id

delete from parent where id = 2

select * from child order by id

create table strict_child (id int references parent)

insert into strict_child values (11)

delete from parent where id = 11

truncate parent

truncate parent cascade

select count(*) from child

create table counters (id int generated always as identity, k text, s bigserial)

insert into counters (k) values ('a'), ('b') returning *

insert into counters (id, k) values (9, 'c')

insert into counters (id, k) overriding system value values (9, 'c') returning *

update counters set id = 5

create sequence seq start 10 increment 5

select nextval('seq'), nextval('seq'), currval('seq'), lastval()

select setval('seq', 100), nextval('seq')

select setval('seq', 100, false), nextval('seq')

create table nn (a int not null, b int)

insert into nn (b) values (1)

insert into nn values (1, 2, 3)

create table deferred (id int primary key, next int references deferred deferrable initially deferred)

begin

insert into deferred values (1, 2)

insert into deferred values (2, 1)

commit

begin

insert into deferred values (3, 4)

commit

select * from deferred order by id

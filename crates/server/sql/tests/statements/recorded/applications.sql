create table customers (id serial primary key, email text not null unique, name text, created timestamptz default '2024-01-01 00:00:00+00', tags text[] default '{}', data jsonb default '{}');

create table products (id serial primary key, title varchar(80) not null, price numeric(10, 2) not null check (price >= 0), stock int not null default 0);

create table orders (id serial primary key, customer int not null references customers on delete cascade, placed date not null, status text not null default 'new');

create table lines (orders int references orders on delete cascade, product int references products, amount int not null check (amount > 0), primary key (orders, product));

insert into customers (email, name) values ('ann@example.com', 'Ann'), ('bob@example.com', 'Bob'), ('cec@example.com', null) returning id;

insert into customers (email) values ('ann@example.com');

insert into products (title, price, stock) values ('pen', 1.50, 100), ('book', 12.00, 10), ('lamp', 39.99, 0) returning id, price;

insert into products (title, price) values ('free', -1);

insert into orders (customer, placed, status) values (1, '2024-02-01', 'paid'), (1, '2024-03-05', default), (2, '2024-03-06', 'paid') returning id, status;

insert into lines values (1, 1, 10), (1, 2, 1), (2, 3, 1), (3, 2, 2);

insert into lines values (1, 1, 1);

insert into lines values (9, 1, 1);

insert into lines values (3, 3, 0);

select o.id, c.name, sum(l.amount * p.price) as total from orders o join customers c on c.id = o.customer join lines l on l.orders = o.id join products p on p.id = l.product group by o.id, c.name order by o.id;

select c.name, count(o.id) as orders, coalesce(max(o.placed)::text, 'never') as last from customers c left join orders o on o.customer = c.id group by c.id order by c.id;

select title, stock, case when stock = 0 then 'out' when stock < 20 then 'low' else 'ok' end as state from products order by title;

select status, count(*) filter (where placed >= '2024-03-01') as recent, count(*) as total from orders group by status order by status;

select to_char(placed, 'YYYY-MM') as month, count(*) from orders group by 1 order by 1;

select date_trunc('month', placed)::date as month, sum(count(*)) over (order by date_trunc('month', placed)) as running from orders group by date_trunc('month', placed) order by 1;

select * from customers where email ilike 'ANN%' and created < now();

select id from customers where name is distinct from 'Ann' order by id;

select id, row_number() over (partition by customer order by placed desc) as newest from orders order by id;

select distinct on (customer) customer, id, placed from orders order by customer, placed desc;

select p.title from products p where not exists (select from lines l where l.product = p.id) order by 1;

select p.title, (select sum(amount) from lines l where l.product = p.id) as sold from products p order by sold desc nulls last, title;

with best as (select product, sum(amount) as sold from lines group by product) select p.title, b.sold from best b join products p on p.id = b.product where b.sold = (select max(sold) from best);

update products p set stock = stock - l.amount from lines l where l.product = p.id and l.orders = 1 returning p.title, p.stock;

update customers set tags = array_append(tags, 'vip'), data = jsonb_set(data, '{level}', '"gold"') where id = 1 returning tags, data;

update customers set data = data || '{"level": "silver", "points": 5}' where id = 2 returning data ->> 'level', (data ->> 'points')::int + 1;

select id from customers where data @> '{"level": "gold"}' or 'vip' = any (tags);

select id, data -> 'points' as points from customers where data ? 'points';

select key, value from customers c, jsonb_each_text(c.data) where c.id = 2 order by key;

insert into products (title, price, stock) values ('pen', 2, 5) on conflict do nothing returning id;

insert into customers (email, name) values ('bob@example.com', 'Robert') on conflict (email) do update set name = excluded.name returning id, name;

insert into customers (email, name) values ('bob@example.com', 'Bo') on conflict (email) do update set name = excluded.name where customers.name = 'Nobody' returning id;

delete from lines l using products p where p.id = l.product and p.title = 'lamp' returning l.orders, p.title;

delete from customers where id = 1 returning email;

select count(*) from orders;

select count(*) from lines;

select id, title from products order by price desc limit 2 offset 1;

select id, title from products where (price, id) > (1.50, 1) order by price, id limit 1;

select string_agg(title, ', ' order by title) from products where price < 20;

select json_agg(json_build_object('id', id, 'title', title) order by id) from products where id < 3;

select array(select title from products order by id limit 2);

select coalesce(json_agg(o), '[]') from orders o where false;

select generate_series('2024-03-01'::date, '2024-03-03', '1 day')::date as day;

select d::date as day, count(o.id) from generate_series('2024-03-05'::date, '2024-03-07', '1 day') d left join orders o on o.placed = d::date group by d order by d;

select age('2024-03-06', '2023-01-01'), '2024-03-06'::date - '2024-02-01'::date, extract(dow from '2024-03-06'::date);

select round(avg(price), 2), percentile_cont(0.5) within group (order by price), min(title) from products;

select width_bucket(price, 0, 40, 4) as bucket, count(*) from products group by bucket order by bucket;

create view open_orders as select o.id, c.email from orders o join customers c on c.id = o.customer where o.status <> 'paid';

select * from open_orders;

alter table orders add column note text not null default '', add column weight numeric(6, 2);

alter table orders alter column weight type double precision, alter column note drop not null, add constraint known check (status in ('new', 'paid', 'sent'));

update orders set status = 'lost';

alter table products rename column title to label;

alter table products rename to goods;

select label from goods order by id limit 1;

create index goods_label on goods (lower(label));

select label from goods where lower(label) = 'book';

begin;

lock table goods in share mode;

select id from goods where id = 2 for update nowait;

savepoint before;

update goods set stock = stock - 100 where id = 2 returning stock;

rollback to before;

select stock from goods where id = 2;

commit;

truncate customers cascade;

select count(*) from orders;

drop table goods;

drop table goods cascade;

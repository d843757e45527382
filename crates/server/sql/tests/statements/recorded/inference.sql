create table fruits (id int primary key, name text, kind text, amount int default 1); create unique index on fruits (lower(name)); create unique index on fruits (kind, upper(name)) where amount > 0; insert into fruits values (1, 'Apple', 'pome')

insert into fruits values (2, 'APPLE', 'x') on conflict (lower(name)) do nothing

insert into fruits values (2, 'APPLE', 'x') on conflict (lower(name)) do update set amount = fruits.amount + excluded.amount returning *

insert into fruits as f (name, id, kind) values ('apple', 3, 'pome') on conflict (upper(name), kind) where amount > 0 do update set kind = f.kind || '!' returning id, kind

insert into fruits values (4, 'plum', 'stone') on conflict (kind, upper(name)) do nothing

insert into fruits values (4, 'plum', 'stone') on conflict (kind, upper(name)) where amount > 0 and id > 1 do nothing

insert into fruits values (4, 'plum', 'stone') on conflict (id) where amount > 3 do nothing

insert into fruits values (4, 'plum', 'stone') on conflict (upper(name)) do nothing

insert into fruits values (4, 'plum', 'stone') on conflict (lower(missing)) do nothing

insert into fruits values (4, 'plum', 'stone') on conflict (count(*)) do nothing

with i as (insert into fruits values (6, 'aPPle') on conflict (lower(name)) do nothing returning *) select count(*) from i

prepare again as insert into fruits values ($1, $2) on conflict (lower(name)) do update set id = excluded.id returning id, name

execute again(7, 'APPle')

insert into fruits (id, name) overriding user value values (8, 'apple') on conflict (lower(name)) do nothing

create table words (a text[], b text); create unique index on words (lower(b)); insert into words (a[1], b) values ('x', 'y') on conflict (lower(b)) do nothing

insert into words (a[1], b) values ('x', 'Y') on conflict (lower(b)) do update set a[2] = excluded.a[1] returning *

select * from (values (1, 'a'), (2, 'b')) t(i, x) join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as j where j.i = 2

select j.*, t.x from (values (1, 'a'), (2, 'b')) t(i, x) join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as j

select j.x from (values (1, 'a'), (2, 'b')) t(i, x) join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as j

select j from (values (1, 'a'), (2, 'b')) t(i, x) join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as j

select row_to_json(j.*) from (values (1, 'a'), (2, 'b')) t(i, x) full join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as j order by j.i

select 1 from (values (1, 'a'), (2, 'b')) t(i, x) join (values (2, 'c'), (3, 'd')) u(i, y) using (i) as t

select k.i from ((values (1, 'a')) t(i, x) join (values (1, 'c')) u(i, y) using (i) as j) as k where j.i = 1

select x like any (array['a%', '%b']), x like all (array['a%', '%b']), x not like any ('{a%}'), x not like all ('{a%,b%}'), x ilike any (array['A']), x ilike all ('{A,B}') from (values ('a'), ('ab'), ('b'), (null)) v(x)

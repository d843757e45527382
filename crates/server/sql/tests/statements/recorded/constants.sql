create type mood as enum ('sad', 'happy');

create domain small as integer check (value < 100);

create table kept (id integer primary key, name varchar(5), price numeric(6, 2), day date, fixed char(3), feeling mood, size small, big bigint, flag boolean, data jsonb, at timestamp);

create unique index kept_name on kept (name);

create unique index kept_sad on kept (big) where feeling = 'sad';

insert into kept values (1, 'a', 1.5, '2024-01-01', 'x', 'sad', 1, 10, true, '{"a": 1}', '2024-01-01 10:00');

insert into kept values (2, 'b', 2.5, '2024-02-01', 'y', 'happy', 2, 20, false, '{"a": 2}', '2024-01-02 10:00');

insert into kept values (3, 'c', -3.5, '2024-03-01', 'z', 'sad', 3, 30, 'yes', '[]', '2024-01-03');

insert into kept values (4, 'toolong', 2.5, '2024-02-01', 'y', 'happy', 2, 20, false, '{}', '2024-01-02');

insert into kept values (5, 'd', 2.5, '2024-02-31', 'y', 'happy', 2, 20, false, '{}', '2024-01-02');

insert into kept values (6, 'e', 2.5, '2024-02-01', 'y', 'angry', 2, 20, false, '{}', '2024-01-02');

insert into kept values (7, 'f', 2.5, '2024-02-01', 'y', 'happy', 200, 20, false, '{}', '2024-01-02');

insert into kept values (8, 'g', 12345.678, '2024-02-01', 'y', 'happy', 2, 20, false, '{}', '2024-01-02');

insert into kept values (9, 'h', 2.5, '2024-02-01', 'y', 'happy', 2, 99999999999, false, '{}', '2024-01-02');

insert into kept values (99999999999, 'i', 2.5, '2024-02-01', 'y', 'happy', 2, 20, false, '{}', '2024-01-02');

insert into kept values (1, 'j', 2.5, '2024-02-01', 'y', 'happy', 2, 20, false, '{}', '2024-01-02');

insert into kept (id, name) values (20, 'k') returning id + 1, name;

insert into kept (id, name) values (21, 'l') returning id + 2, name;

insert into kept (id, name) values (22, 'a') on conflict (name) do update set price = kept.price + 1 returning price;

insert into kept (id, name) values (23, 'b') on conflict (name) do update set price = kept.price + 2 returning price;

insert into kept (id, name) values (24, 25);

insert into kept (id, name) values (26, 27);

insert into kept (id, name) values (28, 29.5);

select name from kept where id = 1;

select name from kept where id = 2;

select name from kept where id = -2;

select name from kept where id = 3000000000;

select name from kept where id = 2.0;

select name from kept where id = 2.5;

select name from kept where id = '2';

select name from kept where id = '3';

select name from kept where id = ' 3 ';

select name from kept where id = 'three';

select name from kept where id = '3000000000';

select id, price + 1 from kept where name = 'a';

select id, price + 2 from kept where name = 'b';

select id, price - 1.25 from kept where name = 'c';

select id, price - -1 from kept where name = 'c';

select id from kept where name = 'a    ';

select id from kept where name = 5;

select id from kept where fixed = 'x' and id = 1;

select id from kept where fixed = 'y  ' and id = 2;

select id from kept where feeling = 'sad' and id = 1;

select id from kept where feeling = 'happy' and id = 2;

select id from kept where feeling = 'angry' and id = 2;

select id from kept where feeling = 'sad' and big = 10;

select id from kept where feeling = 'sad' and big = 30;

select id from kept where feeling = 'happy' and big = 20;

select id from kept where size = 1 and id = 1;

select id from kept where size = 2 and id = 2;

select id from kept where flag = 'yes' and id = 1;

select id from kept where flag = 'no' and id = 2;

select id from kept where flag = 'maybe' and id = 2;

select id from kept where flag = 1 and id = 2;

select id from kept where day = '2024-01-01' and id = 1;

select id from kept where day = '2024-02-01' and id = 2;

select id from kept where day = 'soon' and id = 2;

select id from kept where at = '2024-01-01 10:00' and id = 1;

select id from kept where at = '2024-01-02 10:00:00' and id = 2;

select id from kept where data = '{"a":1}' and id = 1;

select id from kept where data = '{"a":2}' and id = 2;

select id from kept where data = '{a' and id = 2;

select id = 1, id = 2 from kept where id = 1;

select id = 3, id = 2 from kept where id = 2;

select id = 3 from kept where id = 2 limit 1;

select id = 2 from kept where id = 2 limit 1;

select id from kept where id = 2 limit 0;

select id from kept where id = 1 for update;

select id from kept where id = 2 for update;

update kept set price = price + 1, name = 'aa' where id = 1 returning name, price;

update kept set price = price + 2, name = 'bb' where id = 2 returning name, price;

update kept set price = price + 3, name = 'much too long' where id = 3 returning name, price;

update kept set price = price + 99999, name = 'cc' where id = 3 returning name, price;

update kept set price = price - -1, name = 'cc' where id = 3 returning name, price;

update kept set size = 5 where id = 1;

update kept set size = 6 where id = 2 returning size;

update kept set size = 600 where id = 3;

update kept set size = null where id = 3;

update kept set feeling = 'happy' where id = 1 returning feeling;

update kept set feeling = 'sad' where id = 2 returning feeling;

update kept set day = 'yesterday' where id = 2 returning day = current_date - 1;

update kept set day = 'tomorrow' where id = 2 returning day = current_date + 1;

delete from kept where id = 1 returning name;

delete from kept where id = 1 returning name;

delete from kept where id = 2 returning name;

select name from kept where id = 3;

alter table kept alter column name type text;

select name from kept where id = 3;

update kept set name = 'much too long' where id = 3 returning name;

update kept set name = 'longer than before' where id = 3 returning name;

alter table kept drop constraint kept_pkey;

insert into kept (id, name) values (3, 'another');

select name from kept where id = 3 order by name;

select count(*) from kept where id = 3;

drop table kept;

select name from kept where id = 3;

create table spans (id integer primary key, minutes interval minute, years interval year, both_of interval minute to second);

insert into spans values (1, '5', '2', '1:30');

insert into spans values (2, '5', '2', '1:30');

insert into spans values (3, '6', '3', '2:30');

update spans set minutes = '7' where id = 1;

update spans set minutes = '8' where id = 2;

select id from spans where minutes = '00:08' and id = 2;

select id from spans where minutes = '00:06' and id = 3;

select * from spans order by id;

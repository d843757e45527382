create table parents (id integer primary key, name varchar(20) not null default 'none', unique (name));
create table children (
    id bigint generated always as identity primary key,
    parent integer not null references parents (id) on delete cascade,
    weight numeric(5, 1) check (weight > 0.5),
    born timestamp with time zone
);
create index children_born on children (born desc, parent);
create view heavy as select id, weight from children where weight > 3;
create sequence numbers start 10 increment 5;
comment on table parents is 'those who have children';
\d parents
\d children
\d children_born
\d heavy
\d numbers
\d missing
\dt
\di
\dv
\ds
\d+ parents
\dp parents
\dT+ missing
drop view heavy;
drop table children;
drop table parents;
drop sequence numbers;
\d

create table steps (id int primary key, word text); insert into steps select n, 'step ' || n from generate_series(1, 6) n

begin

declare forth scroll cursor for select id, word from steps order by id

fetch prior from forth

fetch 2 from forth

fetch 0 from forth

fetch backward 1 from forth

fetch backward 1 from forth

fetch next from forth

fetch last from forth

fetch next from forth

fetch prior from forth

fetch absolute 3 from forth

fetch relative -2 from forth

fetch relative 0 from forth

fetch absolute -2 from forth

fetch absolute 99 from forth

fetch absolute 0 from forth

fetch relative 2 from forth

fetch backward all from forth

fetch forward -1 from forth

move 3 in forth

move 0 in forth

fetch 0 from forth

move backward all in forth

fetch backward -2 from forth

move absolute 5 in forth

fetch all from forth

fetch backward 3 from forth

move last in forth

move forward all in forth

move 0 in forth

commit

fetch 1 from forth

begin

declare ahead no scroll cursor for select id from steps order by id

fetch 2 from ahead

fetch absolute 4 from ahead

fetch backward 1 from ahead

rollback

begin

declare plain cursor for select id from steps

fetch 2 from plain

fetch prior from plain

select name, is_scrollable, is_holdable, is_binary from pg_cursors

commit

begin

declare counted cursor for select count(*) from steps

fetch all from counted

fetch prior from counted

rollback

declare outside cursor for select 1

declare twice scroll no scroll cursor for select 1

declare twice insensitive asensitive cursor for select 1

begin; declare locked scroll cursor for select * from steps for update

rollback; begin; declare locked cursor with hold for select * from steps for share

rollback; begin; declare locked insensitive cursor for select * from steps for update

rollback

declare kept cursor with hold for select id, word from steps order by id

fetch 2 from kept

insert into steps values (7, 'after'); delete from steps where id < 3

fetch 2 from kept

fetch prior from kept

select name, is_scrollable, is_holdable from pg_cursors

begin; fetch 1 from kept; rollback

fetch all from kept

close kept

fetch 1 from kept

begin; declare lost cursor with hold for select 1; rollback

fetch 1 from lost

begin; declare ahead no scroll cursor with hold for select id from steps order by id; fetch 2 from ahead; commit

fetch 1 from ahead

fetch prior from ahead

move all in ahead

close all

select count(*) from pg_cursors

begin; declare outer_cursor cursor for select id from steps order by id; fetch 1 from outer_cursor

savepoint inside; declare inner_cursor cursor for select id from steps; fetch 1 from outer_cursor

rollback to inside

fetch 1 from outer_cursor

fetch 1 from inner_cursor

rollback to inside

savepoint deeper; declare inner_cursor cursor for select id from steps order by id; release deeper

fetch 1 from inner_cursor

release inside

fetch 1 from inner_cursor

commit

begin; declare before_changes cursor for select id, word from steps order by id

delete from steps where id = 4; update steps set word = 'changed' where id = 5; insert into steps values (8, 'new')

fetch all from before_changes

fetch backward all from before_changes

rollback

begin; declare failing cursor for select 6 / (id - 5) from steps order by id; fetch 2 from failing; savepoint s; fetch 2 from failing

rollback to s

fetch 1 from failing

rollback

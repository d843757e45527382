create table parts (id serial primary key, name text)

select 'parts'::text::regclass, regclass('parts'::text)

select cast(pg_get_serial_sequence(cast(cast(attrelid as regclass) as text), attname) as regclass) from pg_attribute where attrelid = 'parts'::regclass and attname = 'id'

select relname::regclass from pg_class where oid = 'parts'::regclass

select attname, (information_schema._pg_expandarray(indkey)).n from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey) where indrelid = 'parts'::regclass

select * from information_schema._pg_expandarray(array[7, 8])

select 7::smallint::oid = 7::oid, 7::oid = 7::smallint, pg_typeof(7::smallint::oid), 1259::smallint::regclass

prepare by_number (smallint) as select relname from pg_class where oid = $1

execute by_number (1259)

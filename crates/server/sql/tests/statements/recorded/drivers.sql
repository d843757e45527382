create table parts (id serial primary key, name text)

select 'parts'::text::regclass, regclass('parts'::text)

select cast(pg_get_serial_sequence(cast(cast(attrelid as regclass) as text), attname) as regclass) from pg_attribute where attrelid = 'parts'::regclass and attname = 'id'

select relname::regclass from pg_class where oid = 'parts'::regclass

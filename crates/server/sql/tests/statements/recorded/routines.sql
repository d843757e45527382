create type mood as enum ('a'); create table t (a int)

create function g(mood, x text, out int, out y text) language sql as 'select 1, ''x''::text'

create function h(a mood default 'a', variadic b mood[] default '{}') returns setof t strict stable language sql as 'select 1'

create function f(x int) returns int language sql as 'select x + 1'

create view v as select h.a, f(h.a) as b from h('a', 'a')

select specific_name ~ '^[fgh]_[0-9]+$' as has_number, routine_name, routine_type, data_type, type_udt_schema, type_udt_name, routine_body, routine_definition, external_language, is_deterministic, sql_data_access, is_null_call, security_type, dtd_identifier from information_schema.routines where routine_schema = 'recorded' order by routine_name

select split_part(specific_name::text, '_', 1) as of, ordinal_position, parameter_mode, parameter_name, data_type, udt_schema, udt_name, is_result, dtd_identifier, parameter_default from information_schema.parameters where specific_schema = 'recorded' order by 1, 2

select objid::regprocedure, case refclassid when 'pg_type'::regclass then refobjid::regtype::text else 'schema' end as on, deptype from pg_depend where classid = 'pg_proc'::regclass and objid in (select oid from pg_proc where proname in ('f', 'g')) order by 1, 2

select refobjid::regprocedure, deptype from pg_depend where classid = 'pg_rewrite'::regclass and refclassid = 'pg_proc'::regclass and objid = (select oid from pg_rewrite where ev_class = 'v'::regclass) order by 1

alter function f(int) immutable strict parallel safe cost 7

select provolatile, proisstrict, proparallel, procost, prorows, proleakproof from pg_proc where proname = 'f'

select f(null), f(1)

alter function f volatile called on null input restrict

alter function f(int) rows 5

alter function h rows 5 leakproof

select provolatile, proisstrict, proparallel, procost, prorows, proleakproof from pg_proc where proname in ('f', 'h') order by proname

alter function f immutable stable

alter function f

alter function f cost 0

alter function missing(int) stable

select 'v'::regtype::oid < 2147483648 as is_small, typname, typrelid::regclass from pg_type where oid = 'v'::regtype

select typname from pg_type where oid = (select pg_typeof(t)::oid from (select null::t as t) s)

select '  12 '::int2, '-2147483648'::int4, '9223372036854775807'::int8

select 32767::int2 + 1::int2

select '32768'::int2

select 9223372036854775808::int8

select 2147483647 * 2::int8, 5 % 3, -5 % 3, 7::int2 / 2::int8, abs(-7), @ -5, 2 ^ 10, |/ 16.0::float8

select 1 << 4, 255 >> 4, 5 & 3, 5 | 3, 5 # 3, ~5, (-1)::int8 >> 1

select 0.1::float4, 0.1::float8, 0.1::float4::float8, 1e20::float8, 123456789::float4, 'NaN'::float8, '-inf'::float4

select 1e300::float8 * 1e300::float8

select '1e400'::float8

select 71331824::float4, 368744.125::float4, 1.5::float8::int, 2.5::float8::int, 2.5::numeric::int, -0.5::float8::int

select 10.0 / 3, 1.5 + 2.25, 1.5 * 1.5, 2.0 ^ 0.5, 10 % 3.3, -1.50, 1e-5, 100000000000000000000

select round(2.567, 2), round(-2.5), trunc(2.567, 1), ceil(1.2), floor(-1.2), sign(-3.3), sqrt(2.0), exp(1.0), ln(10.0), log(100.0), power(2, 0.5)

select 123.456::numeric(5,2), 0.005::numeric(3,2), 12345::numeric(5,-2)

select 1234.5::numeric(5,2)

select 'Infinity'::numeric - 'Infinity'::numeric, 'NaN'::numeric = 'NaN'::numeric, 'NaN'::numeric > 1e100

select 1 / 0.0

select gcd(12, 18), lcm(4, 6), gcd(1.5, 0.6), factorial(10), scale(1.500), min_scale(1.500), trim_scale(1.500), width_bucket(5.35, 0.024, 10.06, 5)

select true and not false, 't'::bool, 'off'::bool, 1::bool, false::int, true::text, 'yes'::bool > 'no'::bool

select 'maybe'::bool

select 'abcdef'::varchar(3), 'ab'::char(4) || '|', 'ab '::char(4) = 'ab', length('ab  '::char(4)), 'a'::"char", ''::"char" = ''

select cast('abcdef' as char(3)), 'abc'::name, 'x'::text::varchar(5)

create table t (a varchar(3), b char(3), n numeric(4,1), s int2, o oid, u uuid, v bit(3), w bit varying(2), y bytea)

insert into t values ('abc  ', 'ab', 12.34, 7, 42, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', B'101', B'1', '\xDEADbeef')

select * from t

insert into t (a) values ('abcd')

insert into t (b) values ('abcd')

insert into t (n) values (1000)

insert into t (s) values (32768)

insert into t (v) values (B'10')

insert into t (w) values (B'101')

insert into t (u) values ('a0eebc99')

insert into t (y) values ('\xzz')

select a from t where b = 'ab   ' and n = 12.3 and o = 42 and u = 'a0eebc999c0b4ef8bb6d6bb9bd380a11'

select 42::oid, '4294967295'::oid, 42::oid::int, (-1)::oid, 1::oid = 1, 5::int8::oid, 'pg_class'::regclass::oid, 1259::regclass, 23::regtype

select 4294967296::int8::oid

select B'1011' & B'0110', B'1011' | B'0100', B'1011' # B'1111', ~B'1011', B'1011' << 1, B'1011' || B'0', length(B'101'), 5::bit(4), B'101'::int, X'1F'

select B'101' & B'1'

select substring(B'110011' from 2 for 3), position(B'01' in B'110011'), overlay(B'1111' placing B'00' from 2), get_bit(B'10', 0), set_bit(B'10', 1, 1)

select '{1,2,NULL}'::int[], '{{1,2},{3,4}}'::int[], '[0:1]={5,6}'::int[], '{}'::text[], '{"a b",c,"NULL",null}'::text[], array[1.5, 2]::numeric[]

select '{1,2'::int[]

select '{{1},{2,3}}'::int[]

select '{1,a}'::int[]

select array[1,2] = array[1,2], array[1,2] < array[1,3], array[1,null] = array[1,null], array[[1,2],[3,4]], array[1,2]::text[], array['1','2']::int[], '{1.5,2.5}'::numeric[]::int[], array['abc']::varchar(2)[]

select row(1, 'a b', null), row(1, 2) = row(1, 2), row(1, 2) < row(1, 3), row('', '"', '(')

select '\x00ff'::bytea, 'a\\b\000'::bytea, '\x01'::bytea || '\x02'::bytea, length('\x0102'::bytea), 'abc'::bytea

select '16/B374D848'::pg_lsn - '16/B374D000'::pg_lsn, '16/0'::pg_lsn + 16, '(0,1)'::tid < '(0,2)'::tid, '7'::xid = '7'::xid

select 1 = 1.0, 1::int2 < 2::int8, 1.5::float4 < 2::float8, 1 = 1.0::float8, 'a' < 'b', 'a'::char(3) = 'a  '::varchar

select 1::numeric::float4, 1.1::float4::numeric, 0.3::float8::numeric, 1e40::numeric::float8, 3::int8::float4

select 1e40::numeric::int8

select null::int + 1, null::numeric is null, nullif(1.0, 1.00), coalesce(null, 1.50), greatest(1, 2.5), least('b', 'a')

select distinct x from (values (1.0), (1.00), (2), ('NaN'), ('NaN')) as v(x) order by x

select x, count(*) from (values ('a'::char(3)), ('a'), ('b')) as v(x) group by x order by x

select x from (values ('NaN'::float8), (1), ('-inf'), (0), ('inf'), (null)) as v(x) order by x

select x from unnest(array['b', 'a', null, 'B', 'é']) as x order by x desc

select hashtext('a'), hashint4(1), hashint8(-1)

select setseed(0.5) is null

select random(), random()

select 12::text, 1.50::text, true::text, '{1,2}'::int[]::text, 'a'::char(3)::text || '|', B'101'::text, '\x01'::bytea::text, 1.5::float8::text, 42::oid::text

select '12'::text::int, '1.5'::text::numeric, 't'::text::bool, '{1}'::text::int[], '101'::text::bit(3), 'x'::text::int

select round(4.5e131071, -131071) = 5e131071, round(4.5e131071, -131072), round(5e-16383, 16382) = 1e-16382, trunc(9.9e131071, -131071) = 9e131071

select round(5.5e131071, -131072)

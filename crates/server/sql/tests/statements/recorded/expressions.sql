select 1 + 1 as two, 'a' || 'b' as text, length('abc')

select 7 / 2, 7 % 2, -7 / 2, 7.0 / 2, 7 / 2.0::float8

select 2147483647 + 1

select 1 / 0

select 'x'::int

select '12'::int + 1, '1.50'::numeric(6,1), 1.5::int, 2.5::int, '1e3'::float8

select null + 1, null = null, null is null, 1 is not null, null is distinct from 1, 1 is not distinct from 1

select true and null, false and null, true or null, not null::bool

select case when 1 > 2 then 'a' when 2 > 1 then 'b' else 'c' end, case 3 when 1 then 'one' end

select coalesce(null, 2, 3), nullif(1, 1), nullif(1, 2), greatest(1, 3, null), least(2, 1)

select 1 in (1, 2), 3 in (1, 2), 3 in (1, null), 3 not in (1, 2), 1 = any (array[1, 2]), 1 <> all (array[2, 3])

select 5 between 1 and 10, 5 not between 6 and 10, 'abc' like 'a%', 'abc' like 'A%', 'abc' ilike 'A%', 'abc' similar to '(a|b)%'

select 'abc' ~ '^a', 'abc' !~ 'z', regexp_replace('foobar', 'o+', 'x'), substring('foobar' from 2 for 3), position('b' in 'abc')

select upper('abc'), initcap('hello world'), lpad('7', 3, '0'), trim('  x '), split_part('a,b,c', ',', 2), repeat('ab', 3)

select array[1,2,3], array[[1,2],[3,4]], '{1,2,3}'::int[], (array[10,20,30])[2], array_length(array[1,2,3], 1)

select array[1,2] || 3, array[1,2] || array[3], 2 = any('{1,2}'), array_to_string(array[1,2,3], '-')

select row(1, 'a'), (row(1, 2)).f1, row(1, 2) = row(1, 2), row(1, 2) < row(1, 3), (1, 2) in ((1, 2), (3, 4))

select date '2024-02-28' + 2, timestamp '2024-01-31 10:00' + interval '1 month', age(timestamp '2024-03-01', timestamp '2023-01-15')

select extract(year from date '2024-05-06'), date_trunc('month', timestamp '2024-05-06 07:08:09'), '2024-05-06'::date - '2024-05-01'::date

select interval '1 day 2 hours' * 2, interval '90 minutes', justify_hours(interval '30 hours'), interval '1 year' = interval '12 months'

select to_char(1234.5, '9,999.99'), to_char(timestamp '2024-05-06 07:08:09', 'YYYY-MM-DD HH24:MI:SS'), to_number('1,234', '9,999')

select '{"a": {"b": [1, 2]}}'::jsonb -> 'a' -> 'b' ->> 1, '{"a": 1}'::jsonb @> '{"a": 1}', jsonb_build_object('k', 1, 'l', null)

select '[1, 2, {"x": "y"}]'::json #>> '{2,x}', json_array_length('[1,2,3]'), to_json('a"b'::text), jsonb_set('{"a":1}', '{a}', '2')

select '550e8400-e29b-41d4-a716-446655440000'::uuid, '\xdeadbeef'::bytea, encode('\xdead'::bytea, 'hex'), md5('a')

select 1::bool, 'yes'::bool, 't'::bool, 'maybe'::bool

select 1.0::numeric(3,2), 123.456::numeric(5,2), 12345.6::numeric(5,2)

select 'abc'::varchar(2), 'abc'::char(5) || '|', 'abc'::char(2)

select round(2.5), round(3.5), round(-2.5), round(2.567, 2), trunc(2.9), ceil(2.1), floor(-2.1), sign(-3.2), abs(-4)

select sqrt(2.0), power(2, 10), ln(10.0), exp(1.0), mod(10, 3), div(10, 3), gcd(12, 18)

select 1 = '1', 'a' = 1

select unknown_function(1)

select 1 + 'a'

select foo

select 1 ++ 2

select 1 as a, 2 as a

select 'it''s', E'a\nb', $$dollar$$, U&'d\0061t'

select 10 as "Mixed Case", 11 "quoted"

select current_database() = current_catalog, current_schema() is not null

select pg_typeof(1), pg_typeof(1.5), pg_typeof('a'::text), pg_typeof(now()), pg_typeof(array[1]), pg_typeof(null)

select 1::bigint + 1, pg_typeof(1::bigint + 1), pg_typeof(1 + 1.5), pg_typeof(1::smallint + 1::smallint)

select 9223372036854775807 + 1, 99999999999999999999

select cast('2024-13-01' as date)

select overlay('abcdef' placing 'XX' from 3 for 2), concat('a', null, 1), concat_ws(',', 'a', null, 'b'), format('%s-%L-%I', 1, 'x''y', 'A b')

CREATE TABLE people (id int, name text, tags text[])

INSERT INTO people VALUES (1, 'Ada', '{x,y}'), (2, 'Brian', NULL)

SELECT row_to_json(people) FROM people ORDER BY id

SELECT to_jsonb(p) FROM people p ORDER BY id

SELECT json_agg(p ORDER BY id DESC) FROM people p

SELECT jsonb_agg(t ORDER BY id) FROM (SELECT id, name AS "Full Name" FROM people) t

SELECT json_build_object('person', p) FROM people p WHERE id = 2

SELECT row_to_json(row(1, 'x'))

SELECT (SELECT json_agg(t) FROM unnest(p.tags) WITH ORDINALITY t(tag, number)) FROM people p ORDER BY id

SELECT row_to_json(t) FROM people t LEFT JOIN people u ON u.id = t.id + 1 ORDER BY t.id

SELECT row_to_json(u) FROM people t LEFT JOIN people u ON u.id = t.id + 1 ORDER BY t.id

SELECT * FROM json_to_record('{"a":1,"b":[1,2]}') AS x(a int, b int[], c date)

SELECT a + 1 AS next, b FROM jsonb_to_recordset('[{"a":1,"b":"x"},{"a":2}]') AS x(a int, b text) WHERE a > 0

SELECT * FROM json_to_record(NULL) AS x(a int)

SELECT x.id, x.name, x.tags FROM people p, json_populate_record(p, '{"name":"Grace"}') x WHERE p.id = 1

SELECT id, name FROM json_populate_recordset(NULL::people, '[{"id":7},{"name":"z"}]')

SELECT key, value FROM json_each('{"a":1,"b":{"c":2}}') WHERE key <> 'a'

SELECT value->>'c' AS c FROM jsonb_array_elements('[{"c":"x"},{"c":null}]')

SELECT jsonb_path_query('{"a":[1,2,3]}', '$.a[*] ? (@ > $least)', '{"least":1}')

SELECT '{"a":[1,2,3]}'::jsonb @? '$.a[2]', '{"a":1}'::jsonb @@ '$.a > 1'

SELECT concat(VARIADIC ARRAY[1, NULL, 3]), format('%s %I', VARIADIC ARRAY['a', 'B']), json_build_array(VARIADIC ARRAY[1, 2])

SELECT concat(VARIADIC 1)

SELECT * FROM json_to_record('{"a":1}')

SELECT n, regexp_matches('a1b2', '[a-z]([0-9])', 'g') FROM generate_series(1, 3, 2) n

SELECT ARRAY[1, 2] || 3, 0 || ARRAY[1], ARRAY[1] || ARRAY[[2], [3]], ARRAY[1, 2] @> ARRAY[2], 2 = ANY (ARRAY[1, 2])

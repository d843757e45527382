create table t (a integer, b text, c boolean);
copy t from stdin;
1	one	t
2	\N	f
3	tab\tand\\back	\N
\.
copy t to stdout;
copy t (b, a) from stdin with (format csv, header);
b,a
"four, quoted ""4""",4
,5
\.
copy (select * from t order by a) to stdout with (format csv, header, null 'none');
copy t from stdin;
many	x	t
\.
copy t from stdin;
6	x
\.
\copy t (a) from stdin
7
8
\.
\copy (select count(*), sum(a) from t) to stdout
select * from t order by a;
copy missing from stdin;
copy missing to stdout;
drop table t;

create role plain_user

create role checkpointer in role pg_checkpoint

create role maker createrole

create role chief superuser

grant usage on schema recorded to plain_user, checkpointer, maker

create sequence counted

select nextval('counted')

set role plain_user

checkpoint

comment on role maker is 'x'

comment on database postgres is 'x'

select sequencename, last_value from pg_sequences where sequencename = 'counted'

reset role

set role checkpointer

checkpoint

reset role

set role maker

comment on role plain_user is 'plain'

comment on role chief is 'chief'

checkpoint

reset role

grant usage on sequence counted to plain_user

set role plain_user

select sequencename, last_value from pg_sequences where sequencename = 'counted'

reset role

set role chief

comment on role chief is 'chief'

reset role

select last_value from pg_sequences where sequencename = 'counted'

drop sequence counted

drop owned by plain_user, checkpointer, maker, chief

drop role plain_user, checkpointer, maker, chief

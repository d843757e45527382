//! What an application does with tokio-postgres: parameters and values of many types in binary, pipelines, portals, `COPY` both ways,
//! notifications, cancels, errors.

use std::error::Error as _;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, IsolationLevel, NoTls, SimpleQueryMessage};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn configuration() -> Result<tokio_postgres::Config> {
    let mut configuration = tokio_postgres::Config::new();
    configuration.host(std::env::var("PGHOST")?).port(std::env::var("PGPORT")?.parse()?);
    configuration.user(std::env::var("PGUSER")?).dbname(std::env::var("PGDATABASE")?);
    configuration.application_name("tokio").connect_timeout(Duration::from_secs(30));
    Ok(configuration)
}

/// A session, and the notifications that come to it.
async fn connected() -> Result<(Client, tokio::sync::mpsc::UnboundedReceiver<tokio_postgres::Notification>)> {
    let (client, mut connection) = configuration()?.connect(NoTls).await?;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => drop(sender.send(notification)),
                Ok(_) => {}
                Err(error) => return eprintln!("the connection ended: {error}"),
            }
        }
    });
    Ok((client, receiver))
}

async fn values(client: &Client) -> Result {
    client
        .batch_execute(
            "create table kinds (id serial primary key, small smallint, big bigint, real real, double double precision, name text, \
             short varchar(10), raw bytea, yes boolean, at timestamptz, document jsonb, numbers int[], words text[])",
        )
        .await?;
    let insert = client
        .prepare(
            "insert into kinds (small, big, real, double, name, short, raw, yes, at, document, numbers, words) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) returning id",
        )
        .await?;
    assert_eq!(insert.params()[9], Type::JSONB);
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    let document = serde_json::json!({"deep": [1, null]});
    let id: i32 = client
        .query_one(
            &insert,
            &[
                &-7_i16,
                &i64::MIN,
                &1.5_f32,
                &f64::MAX,
                &"n\u{e4}me",
                &Some("short"),
                &&[0_u8, 255][..],
                &true,
                &at,
                &document,
                &vec![Some(1), None, Some(3)],
                &vec!["a", "", "c, \"d\""],
            ],
        )
        .await?
        .get(0);
    assert_eq!(id, 1);
    let row = client.query_one("select * from kinds where id = $1", &[&id]).await?;
    assert_eq!(row.get::<_, i16>("small"), -7);
    assert_eq!(row.get::<_, i64>("big"), i64::MIN);
    assert_eq!(row.get::<_, f32>("real").to_bits(), 1.5_f32.to_bits());
    assert_eq!(row.get::<_, f64>("double").to_bits(), f64::MAX.to_bits());
    assert_eq!(row.get::<_, &str>("name"), "n\u{e4}me");
    assert_eq!(row.get::<_, Option<String>>("short").as_deref(), Some("short"));
    assert_eq!(row.get::<_, &[u8]>("raw"), [0, 255]);
    assert!(row.get::<_, bool>("yes"));
    assert_eq!(row.get::<_, SystemTime>("at"), at);
    assert_eq!(row.get::<_, serde_json::Value>("document"), document);
    assert_eq!(row.get::<_, Vec<Option<i32>>>("numbers"), [Some(1), None, Some(3)]);
    assert_eq!(row.get::<_, Vec<String>>("words"), ["a", "", "c, \"d\""]);
    assert_eq!(client.execute("update kinds set name = null where id = $1", &[&id]).await?, 1);
    let name: Option<String> = client.query_one("select name from kinds", &[]).await?.get(0);
    assert_eq!(name, None);
    Ok(())
}

/// Statements are sent ahead of the answers to those before them.
async fn pipelines(client: &Client) -> Result {
    let statement = client.prepare_typed("select $1 + 1", &[Type::INT4]).await?;
    let asked = (0..100).map(|number| {
        let statement = &statement;
        async move { client.query_one(statement, &[&number]).await.map(|row| row.get::<_, i32>(0)) }
    });
    let answers = futures_util::future::try_join_all(asked).await?;
    assert_eq!(answers, (1..=100).collect::<Vec<i32>>());
    let messages = client.simple_query("select 1 as one; select 'two' as two").await?;
    let rows: Vec<&str> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    assert_eq!(rows, ["1", "two"]);
    Ok(())
}

async fn transactions(client: &mut Client) -> Result {
    client.batch_execute("create table entries (n bigint primary key, note text)").await?;
    let mut outer = client.transaction().await?;
    outer.execute("insert into entries values (1, 'kept')", &[]).await?;
    let within = outer.savepoint("within").await?;
    within.execute("insert into entries values (2, 'taken back')", &[]).await?;
    within.rollback().await?;
    outer.commit().await?;
    {
        let dropped = client.transaction().await?;
        dropped.execute("insert into entries values (3, 'dropped')", &[]).await?;
    }
    let strict = client
        .build_transaction()
        .isolation_level(IsolationLevel::Serializable)
        .read_only(true)
        .start()
        .await?;
    let refused = strict.execute("insert into entries values (4, '')", &[]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    strict.rollback().await?;
    let found: Vec<i64> =
        client.query("select n from entries", &[]).await?.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [1]);
    // A portal gives its rows in portions.
    let portions = client.transaction().await?;
    let portal = portions.bind("select generate_series(1, 25)", &[]).await?;
    let mut counts = Vec::new();
    loop {
        let rows = portions.query_portal(&portal, 10).await?;
        counts.push(rows.len());
        if rows.len() < 10 {
            break;
        }
    }
    assert_eq!(counts, [10, 10, 5]);
    portions.commit().await?;
    Ok(())
}

async fn copies(client: &Client) -> Result {
    {
        let mut sink = pin!(client.copy_in::<_, std::io::Cursor<Vec<u8>>>("copy entries from stdin").await?);
        for number in 100..1100 {
            sink.send(std::io::Cursor::new(format!("{number}\tcopied\n").into_bytes())).await?;
        }
        assert_eq!(sink.as_mut().finish().await?, 1000);
    }
    let parts = client.copy_out("copy (select n from entries where n >= 100 order by n) to stdout").await?;
    let bytes: Vec<u8> =
        parts.try_fold(Vec::new(), |all, part| async move { Ok([&all[..], &part].concat()) }).await?;
    let expected: String = (100..1100).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(bytes)?, expected);
    // A sink that is dropped fails its COPY, and leaves nothing.
    {
        let mut sink = pin!(client.copy_in::<_, &[u8]>("copy entries from stdin").await?);
        sink.send(&b"5000\tnever\n"[..]).await?;
    }
    let count: i64 = client.query_one("select count(*) from entries where n = 5000", &[]).await?.get(0);
    assert_eq!(count, 0);
    Ok(())
}

async fn errors(client: &Client) -> Result {
    let error = client.execute("insert into entries values (1, 'again')", &[]).await.unwrap_err();
    let told = error.as_db_error().ok_or("no error of the server")?;
    assert_eq!(
        (told.code(), told.table(), told.constraint()),
        (&SqlState::UNIQUE_VIOLATION, Some("entries"), Some("entries_pkey"))
    );
    let error = client.prepare("selekt 1").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::SYNTAX_ERROR));
    assert!(error.source().is_some());
    let stream = client.query_raw("select 10 / (5 - n) from generate_series(1, 10) n", &[] as &[i32]).await?;
    let failed = stream.map_ok(|row| row.get::<_, i32>(0)).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::DIVISION_BY_ZERO));
    Ok(())
}

async fn cancels(client: &Client) -> Result {
    let token = client.cancel_token();
    let cancelling = async {
        // Until one request meets the statement.
        loop {
            token.cancel_query(NoTls).await?;
            tokio::task::yield_now().await;
        }
        #[allow(unreachable_code)]
        Ok::<(), tokio_postgres::Error>(())
    };
    let refused = tokio::select! {
        slept = client.execute("select pg_sleep(3600)", &[]) => slept.unwrap_err(),
        cancelled = cancelling => return Err(format!("{cancelled:?}").into()),
    };
    assert_eq!(refused.code(), Some(&SqlState::QUERY_CANCELED));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let (mut client, _) = connected().await?;
    let (listener, mut notifications) = connected().await?;
    listener.batch_execute("listen news").await?;
    values(&client).await?;
    pipelines(&client).await?;
    transactions(&mut client).await?;
    copies(&client).await?;
    errors(&client).await?;
    client.execute("select pg_notify('news', 'arrived')", &[]).await?;
    let notification = notifications.recv().await.ok_or("the listener is gone")?;
    assert_eq!((notification.channel(), notification.payload()), ("news", "arrived"));
    cancels(&client).await?;
    println!("done");
    Ok(())
}

// What an application does with pgjdbc: parameters, batches, generated keys, portions, metadata, errors, two-phase commit.

import java.math.BigDecimal;
import java.sql.*;
import java.time.OffsetDateTime;
import java.time.LocalDate;
import java.util.*;
import javax.sql.XAConnection;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.xa.PGXADataSource;

public class Application {
    static String env(String name) { return System.getenv(name); }

    static void same(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) throw new AssertionError("found " + found + ", expected " + expected);
    }

    interface Step { void run() throws SQLException; }

    static void fails(String state, Step step) {
        try {
            step.run();
        } catch (SQLException error) {
            same(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("expected " + state);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        return values;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://" + env("PGHOST") + ":" + env("PGPORT") + "/" + env("PGDATABASE");
        for (String mode : List.of("extended", "simple", "extendedForPrepared", "extendedCacheEverything")) {
            try (Connection connection = DriverManager.getConnection(url + "?preferQueryMode=" + mode + "&user=" + env("PGUSER"))) {
                application(connection, mode.equals("simple"));
            }
        }
        try (Connection connection = DriverManager.getConnection(url + "?user=" + env("PGUSER"))) {
            metadata(connection);
            copy(connection);
        }
        twoPhase();
        System.out.println("done");
    }

    static void application(Connection connection, boolean isSimple) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table owner (id serial primary key, name varchar(40) not null unique, born date)");
            statement.execute("create table account (id bigint generated always as identity primary key, owner integer not null references owner on delete cascade, "
                    + "balance numeric(12,2) not null default 0 check (balance >= 0), opened timestamptz, tags text[], raw bytea, ok boolean, ratio float8, tag uuid, extra jsonb)");
            statement.execute("create index account_by_owner on account (owner, opened desc)");
        }

        // Generated keys, values of many types, there and back.
        int owner;
        try (PreparedStatement insert = connection.prepareStatement("insert into owner (name, born) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, "alice");
            insert.setObject(2, LocalDate.of(1990, 2, 28));
            same(insert.executeUpdate(), 1);
            ResultSet keys = insert.getGeneratedKeys();
            same(keys.next(), true);
            owner = keys.getInt("id");
        }
        OffsetDateTime opened = OffsetDateTime.parse("2026-11-23T12:34:56.789012Z");
        UUID tag = UUID.fromString("67e55044-10b1-426f-9247-bb680e5fe0c8");
        try (PreparedStatement insert = connection.prepareStatement("insert into account (owner, balance, opened, tags, raw, ok, ratio, tag, extra) values (?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb)")) {
            insert.setInt(1, owner);
            insert.setBigDecimal(2, new BigDecimal("100.50"));
            insert.setObject(3, opened);
            insert.setArray(4, connection.createArrayOf("text", new String[] {"a", "b \"c\"", null}));
            insert.setBytes(5, new byte[] {0, -1});
            insert.setBoolean(6, true);
            insert.setDouble(7, 0.1);
            insert.setObject(8, tag);
            insert.setString(9, "{\"a\": [1, null]}");
            same(insert.executeUpdate(), 1);
        }
        try (PreparedStatement select = connection.prepareStatement("select * from account where owner = ? and opened = ?")) {
            for (int round = 0; round < 12; round++) { // from the fifth on with a name on the server, then in binary
                select.setInt(1, owner);
                select.setObject(2, opened);
                ResultSet row = select.executeQuery();
                same(row.next(), true);
                same(row.getBigDecimal("balance"), new BigDecimal("100.50"));
                same(row.getObject("opened", OffsetDateTime.class).toInstant(), opened.toInstant());
                same(row.getArray("tags").getArray(), new String[] {"a", "b \"c\"", null});
                same(row.getBytes("raw"), new byte[] {0, -1});
                same(row.getBoolean("ok"), true);
                same(row.getDouble("ratio"), 0.1);
                same(row.getObject("tag"), tag);
                same(row.getString("extra"), "{\"a\": [1, null]}");
                same(row.next(), false);
            }
        }

        // A batch; rows in portions in a transaction.
        connection.setAutoCommit(false);
        try (PreparedStatement insert = connection.prepareStatement("insert into owner (name) values (?)")) {
            for (int number = 0; number < 1000; number++) {
                insert.setString(1, "owner " + number);
                insert.addBatch();
            }
            same(Arrays.stream(insert.executeBatch()).sum(), 1000);
        }
        connection.commit();
        try (PreparedStatement select = connection.prepareStatement("select id from owner order by id")) {
            select.setFetchSize(64);
            same(column(select.executeQuery(), "id").size(), 1001);
        }
        connection.commit();

        // Errors, savepoints, isolation.
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        try (Statement statement = connection.createStatement()) {
            Savepoint savepoint = connection.setSavepoint("one");
            fails("23505", () -> statement.executeUpdate("insert into owner (name) values ('alice')"));
            fails("25P02", () -> statement.executeQuery("select 1"));
            connection.rollback(savepoint);
            fails("23514", () -> statement.executeUpdate("update account set balance = -1"));
            connection.rollback();
            fails("42P01", () -> statement.executeQuery("select * from nowhere"));
            connection.rollback();
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.executeQuery("select count(*) from generate_series(1, 1000000000)"));
            connection.rollback();
            statement.setQueryTimeout(0);
            connection.setReadOnly(true);
            fails("25006", () -> statement.executeUpdate("delete from owner"));
            connection.rollback();
            connection.setReadOnly(false);
        }
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);

        // A result that is changed in place.
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            ResultSet rows = statement.executeQuery("select id, name, born from owner where name = 'owner 7'");
            same(rows.first(), true);
            rows.updateString("name", "seven");
            rows.updateRow();
            same(column(statement.executeQuery("select name from owner where name in ('seven', 'owner 7')"), "name"), List.of("seven"));
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            boolean hasRows = statement.execute("select 1; update owner set born = null where false; select 2");
            same(hasRows, true);
            same(statement.getMoreResults(), false);
            same(statement.getUpdateCount(), 0);
            same(statement.getMoreResults(), true);
            statement.execute("drop table account, owner");
        }
    }

    static void metadata(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table owner (id serial primary key, name varchar(40) not null unique, born date)");
            statement.execute("create table account (id bigint generated always as identity primary key, owner integer not null references owner on delete cascade, balance numeric(12,2) default 0)");
            statement.execute("create index account_by_owner on account (owner, balance desc)");
            statement.execute("create view rich as select id from account where balance > 1000");
            statement.execute("comment on table owner is 'who owns accounts'");
        }
        DatabaseMetaData data = connection.getMetaData();
        same(data.getDatabaseProductName(), "PostgreSQL");
        same(column(data.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME"), List.of("account", "owner"));
        same(column(data.getTables(null, "public", "owner", null), "REMARKS"), List.of("who owns accounts"));
        same(column(data.getTables(null, null, "rich", new String[] {"VIEW"}), "TABLE_SCHEM"), List.of("public"));
        same(column(data.getColumns(null, "public", "owner", "%"), "TYPE_NAME"), List.of("serial", "varchar", "date"));
        same(column(data.getColumns(null, "public", "owner", "%"), "COLUMN_SIZE"), List.of("10", "40", "13"));
        same(column(data.getColumns(null, "public", "account", "%"), "IS_AUTOINCREMENT"), List.of("YES", "NO", "NO"));
        same(column(data.getPrimaryKeys(null, "public", "account"), "COLUMN_NAME"), List.of("id"));
        same(column(data.getIndexInfo(null, "public", "account", false, true), "INDEX_NAME"), List.of("account_pkey", "account_by_owner", "account_by_owner"));
        same(column(data.getImportedKeys(null, "public", "account"), "PKTABLE_NAME"), List.of("owner"));
        same(column(data.getExportedKeys(null, "public", "owner"), "FKCOLUMN_NAME"), List.of("owner"));
        same(column(data.getCrossReference(null, "public", "owner", null, "public", "account"), "DELETE_RULE"), List.of("" + DatabaseMetaData.importedKeyCascade));
        same(column(data.getSchemas(), "TABLE_SCHEM").containsAll(List.of("information_schema", "pg_catalog", "public")), true);
        same(column(data.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "uuid", "jsonb", "numeric")), true);
        same(column(data.getBestRowIdentifier(null, "public", "owner", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME"), List.of("id"));
        same(column(data.getTablePrivileges(null, "public", "owner"), "GRANTEE").contains(env("PGUSER")), true);
        data.getFunctions(null, "pg_catalog", "low%").close();
        data.getProcedures(null, null, "%").close();
        data.getColumnPrivileges(null, "public", "owner", "%").close();
        data.getUDTs(null, null, "%", null).close();
        data.getClientInfoProperties().close();
        try (PreparedStatement select = connection.prepareStatement("select o.name, a.balance, count(*) as n from owner o join account a on a.owner = o.id where o.id = ? group by 1, 2")) {
            same(select.getParameterMetaData().getParameterTypeName(1), "int4");
            ResultSetMetaData columns = select.getMetaData();
            same(columns.getColumnTypeName(2), "numeric");
            same(columns.getPrecision(2), 12);
            same(columns.getTableName(1), "owner");
            same(((org.postgresql.PGResultSetMetaData) columns).getBaseTableName(1), "owner");
            same(columns.isNullable(1), ResultSetMetaData.columnNoNulls);
        }
    }

    static void copy(Connection connection) throws Exception {
        CopyManager copy = ((PGConnection) connection).getCopyAPI();
        same(copy.copyIn("copy owner (name) from stdin (format csv)", new java.io.StringReader("\"a, b\"\nc\n")), 2L);
        java.io.StringWriter out = new java.io.StringWriter();
        same(copy.copyOut("copy (select name from owner order by name) to stdout", out), 2L);
        same(out.toString(), "a, b\nc\n");
        try (Statement statement = connection.createStatement()) {
            statement.execute("drop view rich");
            statement.execute("drop table account, owner");
        }
    }

    record Branch(byte[] global, byte[] branch) implements Xid {
        public int getFormatId() { return 1; }
        public byte[] getGlobalTransactionId() { return global; }
        public byte[] getBranchQualifier() { return branch; }
    }

    /** As a transaction manager does: prepare, lose the connection, recover, decide by another one. */
    static void twoPhase() throws Exception {
        PGXADataSource source = new PGXADataSource();
        source.setServerNames(new String[] {env("PGHOST")});
        source.setPortNumbers(new int[] {Integer.parseInt(env("PGPORT"))});
        source.setDatabaseName(env("PGDATABASE"));
        source.setUser(env("PGUSER"));
        XAConnection first = source.getXAConnection();
        try (Statement statement = first.getConnection().createStatement()) {
            statement.execute("create table moved (n integer)");
        }
        Branch committed = new Branch("committed".getBytes(), new byte[] {1});
        Branch taken = new Branch("taken back".getBytes(), new byte[] {2, 0});
        for (Branch branch : List.of(committed, taken)) {
            first.getXAResource().start(branch, XAResource.TMNOFLAGS);
            first.getConnection().createStatement().execute("insert into moved values (1)");
            first.getXAResource().end(branch, XAResource.TMSUCCESS);
            same(first.getXAResource().prepare(branch), XAResource.XA_OK);
        }
        first.close();
        XAConnection second = source.getXAConnection();
        XAResource resource = second.getXAResource();
        List<String> found = new ArrayList<>();
        for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) found.add(new String(xid.getGlobalTransactionId()));
        Collections.sort(found);
        same(found, List.of("committed", "taken back"));
        resource.commit(committed, false);
        resource.rollback(taken);
        try {
            resource.commit(committed, false);
            throw new AssertionError("committed twice");
        } catch (XAException error) {
            same(error.errorCode, XAException.XAER_NOTA);
        }
        try (Connection connection = second.getConnection(); Statement statement = connection.createStatement()) {
            same(column(statement.executeQuery("select count(*) as n from moved"), "n"), List.of("1"));
            statement.execute("drop table moved");
        }
        second.close();
    }
}

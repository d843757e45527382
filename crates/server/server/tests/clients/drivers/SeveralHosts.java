// What an application does with pgjdbc that knows several servers: it finds the primary or a standby, and goes on after a promotion.

import java.sql.*;
import java.util.Map;

public class SeveralHosts {
    static String env(String name) { return System.getenv(name); }

    static void same(Object found, Object expected) {
        if (!found.equals(expected)) throw new AssertionError("found " + found + ", expected " + expected);
    }

    static Connection connect(String wanted, String... ports) throws SQLException {
        String hosts = "127.0.0.1:" + String.join(",127.0.0.1:", ports);
        // What was learnt of a host counts for so many seconds.
        return DriverManager.getConnection("jdbc:postgresql://" + hosts + "/" + env("PGDATABASE") + "?user=" + env("PGUSER")
                + "&hostRecheckSeconds=0&targetServerType=" + wanted);
    }

    static boolean isStandby(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("select pg_is_in_recovery()")) {
            rows.next();
            return rows.getBoolean(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String primary = env("PRIMARY_PORT"), standby = env("STANDBY_PORT"), nobody = env("NOBODY_PORT");
        String[] everybody = {nobody, standby, primary};
        Map<String, Boolean> expected = Map.of("any", true, "primary", false, "secondary", true, "preferSecondary", true, "preferPrimary", false);
        for (Map.Entry<String, Boolean> entry : expected.entrySet()) {
            try (Connection connection = connect(entry.getKey(), everybody)) {
                same(isStandby(connection), entry.getValue());
            }
        }
        try (Connection connection = connect("preferSecondary", nobody, primary)) {
            same(isStandby(connection), false);
        }
        try (Connection connection = connect("secondary", nobody, primary)) {
            throw new AssertionError("a primary is taken for a standby");
        } catch (SQLException error) {
            same(error.getSQLState(), "08001");
        }
        // A session of the standby is refused when it writes, and may write after the promotion.
        try (Connection connection = connect("secondary", everybody); Statement statement = connection.createStatement()) {
            try {
                statement.execute("create table t (a int)");
                throw new AssertionError("a standby is written to");
            } catch (SQLException error) {
                same(error.getSQLState(), "25006");
            }
            statement.execute("select pg_promote()");
            statement.execute("create table t (a int)");
        }
        try (Connection connection = connect("primary", nobody, standby)) {
            same(isStandby(connection), false);
        }
        System.out.println("done");
    }
}

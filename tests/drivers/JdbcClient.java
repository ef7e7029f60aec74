/*
 * pgjdbc: server-prepared statements with binary transfer, batches (rewritten and not), COPY, large objects by fastpath
 * calls, savepoints, updatable results, cursors, generated keys, errors and retries, notifications. Writes through one
 * node, reads through the other.
 */
import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.Arrays;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

public class JdbcClient {
    static int failed = 0;

    interface Part {
        void run(Connection one, Connection two) throws Exception;
    }

    static void check(String name, boolean condition, Object why) {
        if (!condition) {
            failed++;
        }
        System.out.println((condition ? "ok - " : "not ok - ") + name + (condition ? "" : ": " + why));
    }

    static Connection connect(int node, boolean rewrite) throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", System.getenv("DBUSER"));
        p.setProperty("prepareThreshold", "1");
        p.setProperty("reWriteBatchedInserts", rewrite ? "true" : "false");
        Connection c = DriverManager.getConnection(
                "jdbc:postgresql://127.0.0.1:" + System.getenv("PORT" + node) + "/" + System.getenv("DB"), p);
        try (Statement s = c.createStatement()) {
            s.execute("SET lockstep.commit_wait = applied");
        }
        return c;
    }

    static void run(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
        }
    }

    static String value(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return r.getString(1);
        }
    }

    static void parameters(Connection one, Connection two) throws Exception {
        run(one, "CREATE TABLE jd (id int PRIMARY KEY, s int2, l int8, f float4, d float8, n numeric, b bool, t text, by bytea,"
                + " da date, ts timestamp, tz timestamptz, u uuid, a int[], j jsonb)");
        Timestamp ts = Timestamp.valueOf("2021-10-31 02:30:00.123456");
        try (PreparedStatement p = one.prepareStatement("INSERT INTO jd VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb)")) {
            for (int id = 0; id < 10; id++) {
                p.setInt(1, id);
                p.setShort(2, Short.MIN_VALUE);
                p.setLong(3, Long.MAX_VALUE);
                p.setFloat(4, 0.1f);
                p.setDouble(5, id % 2 == 0 ? -0.0 : Double.NaN);
                p.setBigDecimal(6, new BigDecimal("1.500"));
                p.setBoolean(7, true);
                p.setString(8, "ä \\ ' \n");
                p.setBytes(9, new byte[] {0, (byte) 255, '\\'});
                p.setDate(10, Date.valueOf("2020-02-29"));
                p.setTimestamp(11, ts);
                p.setTimestamp(12, ts);
                p.setObject(13, new UUID(0, 7));
                p.setArray(14, one.createArrayOf("int4", new Integer[] {1, null, 3}));
                p.setString(15, "{\"a\": [1, null]}");
                p.executeUpdate();
            }
        }
        String[] texts = new String[2];
        for (int i = 0; i < 2; i++) {
            texts[i] = value(i == 0 ? one : two, "SELECT md5(string_agg(jd::text, ',' ORDER BY id)) FROM jd");
        }
        check("binary parameters", texts[0].equals(texts[1]), Arrays.toString(texts));
        try (PreparedStatement p = two.prepareStatement("SELECT l, d, by, u, a, ts FROM jd WHERE id = ?")) {
            for (int i = 0; i < 3; i++) {
                p.setInt(1, 2);
                try (ResultSet r = p.executeQuery()) {
                    r.next();
                    check("binary results " + i, r.getLong(1) == Long.MAX_VALUE && 1 / r.getDouble(2) == Double.NEGATIVE_INFINITY
                            && r.getBytes(3).length == 3 && r.getObject(4).equals(new UUID(0, 7))
                            && Arrays.equals((Integer[]) r.getArray(5).getArray(), new Integer[] {1, null, 3})
                            && r.getTimestamp(6).equals(ts), r.getString(2));
                }
            }
        }
        try (PreparedStatement p = one.prepareStatement("INSERT INTO jd (id, t) VALUES (?, md5(random()::text))", new String[] {"id", "t"})) {
            p.setInt(1, 100);
            p.executeUpdate();
            try (ResultSet r = p.getGeneratedKeys()) {
                r.next();
                check("generated keys", r.getString(2).equals(value(two, "SELECT t FROM jd WHERE id = 100")), r.getString(2));
            }
        }
    }

    static void batches(Connection one, Connection two) throws Exception {
        run(one, "CREATE TABLE batch (id int PRIMARY KEY, v text)");
        for (boolean rewrite : new boolean[] {false, true}) {
            int base = rewrite ? 10000 : 0;
            try (Connection c = connect(1, rewrite)) {
                c.setAutoCommit(rewrite);
                try (PreparedStatement p = c.prepareStatement("INSERT INTO batch VALUES (?, ?)")) {
                    for (int i = 0; i < 1000; i++) {
                        p.setInt(1, base + i);
                        p.setString(2, "v" + i);
                        p.addBatch();
                    }
                    p.executeBatch();
                }
                try (PreparedStatement p = c.prepareStatement("UPDATE batch SET v = ? WHERE id = ?")) {
                    for (int i = 0; i < 100; i++) {
                        p.setString(1, "w" + i);
                        p.setInt(2, base + i);
                        p.addBatch();
                    }
                    p.executeBatch();
                }
                if (!rewrite) {
                    c.commit();
                }
            }
            check("a batch, rewritten: " + rewrite,
                    value(two, "SELECT count(*) || ' ' || count(*) FILTER (WHERE v LIKE 'w%') FROM batch WHERE id >= " + base).equals("1000 100"),
                    value(two, "SELECT count(*) FROM batch"));
        }
        try (Statement s = one.createStatement()) {
            s.addBatch("INSERT INTO batch VALUES (20000, 'x')");
            s.addBatch("INSERT INTO batch VALUES (1, 'duplicate')");
            s.executeBatch();
            check("an error in a batch", false, "no error");
        } catch (BatchUpdateException e) {
            check("an error in a batch", e.getSQLState().equals("23505"), e.getSQLState());
        }
        String mine = value(one, "SELECT count(*) FROM batch WHERE id >= 20000");
        check("what it left is the same", mine.equals(value(two, "SELECT count(*) FROM batch WHERE id >= 20000")), mine);
        run(two, "INSERT INTO batch VALUES (30000, 'multi'); UPDATE batch SET v = v || v WHERE id = 30000; DELETE FROM batch WHERE id = 5");
        check("several statements in one", value(one, "SELECT v FROM batch WHERE id = 30000").equals("multimulti"), "");
    }

    static void copy(Connection one, Connection two) throws Exception {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 2000; i++) {
            text.append(i).append("\t").append(i % 3 == 0 ? "\\N" : "line " + i).append("\n");
        }
        run(one, "CREATE TABLE cj (id int, t text)");
        one.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY cj FROM STDIN", new StringReader(text.toString()));
        StringWriter out = new StringWriter();
        two.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT * FROM cj ORDER BY id) TO STDOUT", out);
        check("CopyManager", out.toString().equals(text.toString()), out.toString().length());
    }

    static void largeObjects(Connection one, Connection two) throws Exception {
        byte[] data = new byte[100000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * 31 + i / 256);
        }
        one.setAutoCommit(false);
        LargeObjectManager m = one.unwrap(PGConnection.class).getLargeObjectAPI();
        long oid = m.createLO(LargeObjectManager.READWRITE);
        try (LargeObject o = m.open(oid, LargeObjectManager.READWRITE)) {
            o.write(data);
            o.seek(50000);
            o.write(new byte[] {1, 2, 3});
            o.truncate64(90000);
            System.arraycopy(new byte[] {1, 2, 3}, 0, data, 50000, 3);
        }
        long gone = m.createLO();
        m.delete(gone);
        one.commit();
        one.setAutoCommit(true);
        two.setAutoCommit(false);
        try (LargeObject o = two.unwrap(PGConnection.class).getLargeObjectAPI().open(oid, LargeObjectManager.READ)) {
            byte[] got = o.read(200000);
            check("a large object by fastpath calls", Arrays.equals(got, Arrays.copyOf(data, 90000)), got.length);
        }
        two.commit();
        two.setAutoCommit(true);
    }

    static void transactions(Connection one, Connection two) throws Exception {
        run(one, "CREATE TABLE acc (id int PRIMARY KEY, v int)");
        one.setAutoCommit(false);
        run(one, "INSERT INTO acc VALUES (1, 0), (2, 0)");
        Savepoint s = one.setSavepoint("s");
        run(one, "UPDATE acc SET v = 5");
        try {
            run(one, "INSERT INTO acc VALUES (1, 1)");
        } catch (SQLException e) {
            one.rollback(s);
        }
        run(one, "INSERT INTO acc VALUES (3, 3)");
        one.commit();
        check("savepoints", value(two, "SELECT string_agg(v::text, ' ' ORDER BY id) FROM acc").equals("0 0 3"), "");

        two.setAutoCommit(false);
        run(one, "UPDATE acc SET v = v + 1 WHERE id = 2");
        String state = "";
        try {
            run(two, "UPDATE acc SET v = v + 10 WHERE id = 2");
            one.commit();
            two.commit();
        } catch (SQLException e) {
            state = e.getSQLState();
            two.rollback();
        }
        check("of two writers one gets 40001", state.equals("40001"), state);
        for (int tries = 0; tries < 10; tries++) {
            try {
                run(two, "UPDATE acc SET v = v + 10 WHERE id = 2");
                two.commit();
                break;
            } catch (SQLException e) {
                two.rollback();
            }
        }
        two.setAutoCommit(true);
        one.rollback();
        one.setAutoCommit(true);
        check("and succeeds when it retries", value(one, "SELECT v FROM acc WHERE id = 2").equals("11"), value(one, "SELECT v FROM acc WHERE id = 2"));
    }

    static void results(Connection one, Connection two) throws Exception {
        try (Statement s = one.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                ResultSet r = s.executeQuery("SELECT id, v FROM batch WHERE id < 20 ORDER BY id")) {
            r.next();
            r.updateString(2, "updated");
            r.updateRow();
            r.next();
            r.deleteRow();
            r.moveToInsertRow();
            r.updateInt(1, 50000);
            r.updateString(2, "inserted");
            r.insertRow();
        }
        check("an updatable result", value(two, "SELECT string_agg(v, ' ' ORDER BY v) FROM batch WHERE id IN (0, 1, 50000)").equals("inserted updated"), "");
        two.setAutoCommit(false);
        int n = 0;
        try (Statement s = two.createStatement()) {
            s.setFetchSize(100);
            try (ResultSet r = s.executeQuery("SELECT id FROM batch ORDER BY id")) {
                while (r.next()) {
                    if (n++ % 500 == 0) {
                        run(two, "UPDATE batch SET v = 'cursor' WHERE id = " + r.getInt(1));
                    }
                }
            }
        }
        two.commit();
        two.setAutoCommit(true);
        check("a cursor while writing", value(one, "SELECT count(*) FROM batch WHERE v = 'cursor'").equals("" + (n + 499) / 500), n);
        run(one, "CREATE FUNCTION adds(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO acc VALUES (i, i); RETURN i * 2; END'");
        try (CallableStatement c = two.prepareCall("{? = call adds(?)}")) {
            c.registerOutParameter(1, Types.INTEGER);
            c.setInt(2, 70);
            c.execute();
            check("a callable statement", c.getInt(1) == 140 && value(one, "SELECT v FROM acc WHERE id = 70").equals("70"), c.getInt(1));
        }
    }

    static void prepared(Connection one, Connection two) throws Exception {
        try (PreparedStatement p = one.prepareStatement("INSERT INTO cj VALUES (?, ?)")) {
            for (int i = 0; i < 20; i++) {
                if (i == 10) {
                    run(two, "ALTER TABLE cj ADD w int DEFAULT 5");
                }
                p.setInt(1, 10000 + i);
                p.setString(2, "prepared");
                p.executeUpdate();
            }
        }
        check("prepared before and after DDL of the other node", value(two, "SELECT count(*) || ' ' || sum(w) FROM cj WHERE t = 'prepared'").equals("20 100"), "");
    }

    static void notifications(Connection one, Connection two) throws Exception {
        run(two, "LISTEN ch");
        run(one, "NOTIFY ch, 'hello'");
        PGNotification[] got = null;
        for (int i = 0; i < 100 && (got == null || got.length == 0); i++) {
            got = two.unwrap(PGConnection.class).getNotifications(100);
        }
        check("a notification of the other node", got != null && got.length == 1 && got[0].getParameter().equals("hello"), Arrays.toString(got));
    }

    public static void main(String[] args) throws Exception {
        String[] names = {"parameters", "batches", "copy", "large objects", "transactions", "results", "prepared statements", "notifications"};
        Part[] parts = {JdbcClient::parameters, JdbcClient::batches, JdbcClient::copy, JdbcClient::largeObjects,
            JdbcClient::transactions, JdbcClient::results, JdbcClient::prepared, JdbcClient::notifications};
        for (int i = 0; i < parts.length; i++) {
            try (Connection one = connect(1, false); Connection two = connect(2, false)) {
                parts[i].run(one, two);
            } catch (Exception e) {
                e.printStackTrace();
                check(names[i], false, e);
            }
        }
        System.exit(failed > 0 ? 1 : 0);
    }
}

/* The recipe for JDBC of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Statement;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;

public class Client {
    public static void main(String[] args) throws Exception {
        PGSimpleDataSource pool = new PGSimpleDataSource();
        pool.setURL(url());
        serve(pool, () -> { });
    }

    static String url() {
        return "jdbc:postgresql://127.0.0.1:" + System.getenv("PORT1") + ",127.0.0.1:" + System.getenv("PORT2") + "/" + System.getenv("DB")
                + "?targetServerType=primary&user=" + System.getenv("DBUSER") + "&prepareThreshold=0&sslmode=disable&gssEncMode=disable";
    }

    static void serve(DataSource pool, Runnable connectAnew) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String steps = line;
            try {
                String result = Lockstep.run(pool, connectAnew, c -> {
                    for (String step : steps.split(";;")) {
                        if (step.equals("@")) {
                            System.out.println("at");
                            try {
                                in.readLine();
                            } catch (java.io.IOException e) {
                                throw new RuntimeException(e);
                            }
                        } else {
                            try (Statement s = c.createStatement()) {
                                s.execute(step);
                            }
                        }
                    }
                    return "its result";
                });
                System.out.println("done " + result);
            } catch (Exception e) {
                System.out.println("failed " + e.toString().replace("\n", " "));
            }
        }
    }
}

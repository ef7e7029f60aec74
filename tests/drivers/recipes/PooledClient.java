/* The recipe for JDBC of docs/clients.md, with HikariCP: see tests/drivers/recipes.pl for what it reads and prints. */
import com.zaxxer.hikari.HikariDataSource;

public class PooledClient {
    public static void main(String[] args) throws Exception {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(Client.url());
        pool.setMaximumPoolSize(Integer.parseInt(System.getenv("POOL")));
        Client.serve(pool, () -> pool.getHikariPoolMXBean().softEvictConnections());
    }
}

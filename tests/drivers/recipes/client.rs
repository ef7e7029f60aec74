// The recipe for tokio-postgres of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
mod lockstep;
use std::env::var;

fn line() -> Option<String> {
    let mut text = String::new();
    (std::io::stdin().read_line(&mut text).unwrap() > 0).then(|| text.trim_end().to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let [port1, port2, db, user] = ["PORT1", "PORT2", "DB", "DBUSER"].map(|name| var(name).unwrap());
    let config = format!("host=127.0.0.1,127.0.0.1 port={port1},{port2} dbname={db} user={user} target_session_attrs=read-write").parse().unwrap();
    while let Some(steps) = line() {
        let done = lockstep::run(&config, async |tx| {
            for step in steps.split(";;") {
                if step == "@" {
                    println!("at");
                    // elsewhere, so that the connection can be heard meanwhile
                    tokio::task::spawn_blocking(line).await.unwrap();
                } else {
                    tx.batch_execute(step).await?;
                }
            }
            Ok(())
        })
        .await;
        match done {
            Ok(()) => println!("done its result"),
            Err(e) => println!("failed {}", e.as_db_error().map_or(e.to_string(), |d| d.to_string()).replace('\n', " ")),
        }
    }
}

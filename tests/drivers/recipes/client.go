// The recipe for pgx of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"client/lockstep"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx := context.Background()
	in := bufio.NewScanner(os.Stdin)
	pool, err := pgxpool.New(ctx, fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%s,%s dbname=%s user=%s sslmode=disable target_session_attrs=read-write pool_min_conns=%s pool_max_conns=20",
		os.Getenv("PORT1"), os.Getenv("PORT2"), os.Getenv("DB"), os.Getenv("DBUSER"), os.Getenv("POOL")))
	if err != nil {
		panic(err)
	}
	for in.Scan() {
		steps := strings.Split(in.Text(), ";;")
		err := lockstep.Run(ctx, pool, func(tx pgx.Tx) error {
			for _, step := range steps {
				if step == "@" {
					fmt.Println("at")
					in.Scan()
				} else if _, err := tx.Exec(ctx, step); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			fmt.Println("done its result")
		} else {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

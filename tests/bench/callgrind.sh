# Sourced by the benchmarks that count instructions (origin-cost, row-cost, apply-cost): one data
# directory with lockstep, that of the first of two nodes, and a copy of it for without, in
# $dir, which is removed at the end; a server on one of them under callgrind.
# shellcheck shell=bash

BIN=$("${PG_CONFIG:-pg_config}" --bindir)
dir=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-callgrind-XXXXXX")
chmod 755 "$dir"
owner=()
if [ "$(id -u)" -eq 0 ]; then
	chown postgres: "$dir"
	owner=(setpriv --reuid=postgres --regid=postgres --init-groups)
fi
command -v valgrind > /dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }

server=
finish()
{
	[ -z "$server" ] || kill -QUIT "$server" 2> /dev/null || true
	tests/cluster down --dir "$dir/c" > /dev/null 2>&1 || true
	rm -rf "$dir"
}
trap finish EXIT

# cluster_up PORT [option...]: of two nodes; NODE1_PORT, NODE1_PGDATA and DBNAME are set
cluster_up()
{
	tests/cluster up --nodes 2 --dir "$dir/c" --port "$1" "${@:2}" > /dev/null
	# shellcheck disable=SC1091
	. "$dir/c/cluster.env"
}

# The first node is stopped, and copied to $dir/plain.
copy_node()
{
	tests/cluster drain --dir "$dir/c" > /dev/null
	"$BIN/psql" -Xq -h 127.0.0.1 -p "$NODE1_PORT" -U postgres -d "$DBNAME" -c 'VACUUM ANALYZE' -c CHECKPOINT
	"${owner[@]}" "$BIN/pg_ctl" -D "$NODE1_PGDATA" -w -m fast stop > /dev/null
	cp -a "$NODE1_PGDATA" "$dir/plain"
}

# start DATADIR OUT PORT [option...]: what each of its processes executes goes to OUT.PID
start()
{
	local data=$1 out=$2 port=$3
	shift 3
	"${owner[@]}" valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$out.%p" \
		"$BIN/postgres" -D "$data" "$@" -c autovacuum=off > "$out.log" 2>&1 &
	server=$!
	until "$BIN/pg_isready" -q -h 127.0.0.1 -p "$port"; do
		kill -0 "$server" || { cat "$out.log" >&2; exit 1; }
		sleep 0.2
	done
}

stop()
{
	kill -INT "$server"
	wait "$server" || true
	server=
}

# executed FILE: the instructions of the process that wrote it
executed()
{
	sed -n 's/^\(summary\|totals\): //p' "$1" | head -1
}

# keep FILE...: callgrind's files stay in $KEEP, if that is set
keep()
{
	[ -n "${KEEP:-}" ] || return 0
	mkdir -p "$KEEP"
	cp "$@" "$KEEP"
}

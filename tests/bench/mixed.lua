-- Transactions of ten queries for sysbench, some of them UPDATE, the rest SELECT, on rows of each
-- thread's own: what pgbench runs as "updates-N" in tests/bench/run, for servers of any kind.
--
--	sysbench tests/bench/mixed.lua --updates=2 --node=0 ... prepare|run
--
-- The table is pgbench_accounts; prepare makes it where pgbench can't.

sysbench.cmdline.options = {
	updates = { "queries of a transaction that are UPDATE", 2 },
	node = { "number of the node that is driven: its threads use rows of their own", 0 },
	rows = { "rows of the table", 1000000 },
	spread = { "threads that the rows of a node are divided among", 64 },
}

local queries = 10

function prepare()
	local con = sysbench.sql.driver():connect()
	con:query("CREATE TABLE pgbench_accounts (aid int NOT NULL PRIMARY KEY, bid int, abalance int, filler char(84))")
	con:bulk_insert_init("INSERT INTO pgbench_accounts (aid, bid, abalance, filler) VALUES")
	for aid = 1, sysbench.opt.rows do
		con:bulk_insert_next(string.format("(%d, %d, 0, '')", aid, math.floor((aid - 1) / 100000) + 1))
	end
	con:bulk_insert_done()
end

local function statement(con, text)
	local s = con:prepare(text)
	local aid = s:bind_create(sysbench.sql.type.INT)
	s:bind_param(aid)
	return { statement = s, aid = aid }
end

function thread_init()
	con = sysbench.sql.driver():connect()
	update = statement(con, "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = ?")
	select = statement(con, "SELECT abalance FROM pgbench_accounts WHERE aid = ?")
	begin = con:prepare("BEGIN")
	commit = con:prepare("COMMIT")
	of_node = math.floor(sysbench.opt.rows / 2)
	of_thread = math.floor(of_node / sysbench.opt.spread)
end

local function run(s, aid)
	s.aid:set(aid)
	local rs = s.statement:execute()
	if s == select then
		rs:free()
	end
end

function event(thread)
	local first = sysbench.opt.node * of_node + thread * of_thread
	begin:execute()
	for i = 0, queries - 1 do
		local aid = first + sysbench.rand.uniform(1, of_thread)
		-- spread over the transaction
		if math.floor((i + 1) * sysbench.opt.updates / queries) > math.floor(i * sysbench.opt.updates / queries) then
			run(update, aid)
		else
			run(select, aid)
		end
	end
	commit:execute()
end

function thread_done()
	for _, s in ipairs({ update.statement, select.statement, begin, commit }) do
		s:close()
	end
	con:disconnect()
end

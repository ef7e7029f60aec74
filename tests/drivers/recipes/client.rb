# The Ruby recipes of docs/clients.md, by name: see tests/drivers/recipes.pl for what they read and print.
require "pg"
$stdout.sync = true
require "#{ARGV[0]}/lockstep"

def steps(line)
  line.split(";;").each do |step|
    if step == "@"
      puts "at"
      $stdin.gets
    else
      yield step
    end
  end
  "its result"
end

where = { host: "127.0.0.1,127.0.0.1", port: "#{ENV["PORT1"]},#{ENV["PORT2"]}", target_session_attrs: "read-write", sslmode: "disable", gssencmode: "disable" }
if ARGV[1] == "record"
  require "active_record"
  require "#{ARGV[0]}/lockstep_record"
  size = ENV["POOL"].to_i
  ActiveRecord::Base.establish_connection(adapter: "postgresql", username: ENV["DBUSER"], database: ENV["DB"], pool: size + 1, **where)
  pool = ActiveRecord::Base.connection_pool
  Array.new(size) { pool.checkout }.each { |conn| pool.checkin(conn) }
  # another thread, whose transaction is not to be waited for
  Thread.new do
    ActiveRecord::Base.transaction do
      ActiveRecord::Base.connection.execute("SELECT 1")
      sleep
    end
  end
  run = ->(line) { Lockstep.run_record { steps(line) { |sql| ActiveRecord::Base.connection.execute(sql) } } }
else
  connect = -> { PG.connect(user: ENV["DBUSER"], dbname: ENV["DB"], **where) }
  run = ->(line) { Lockstep.run(connect) { |conn| steps(line) { |sql| conn.exec(sql) } } }
end
while (line = $stdin.gets)
  begin
    puts "done #{run.call(line.chomp)}"
  rescue StandardError => error
    puts "failed #{error.class}: #{error.message}".tr("\n", " ")
  end
end

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

if ARGV[1] == "record"
  require "active_record"
  require "#{ARGV[0]}/lockstep_record"
  ActiveRecord::Base.establish_connection(adapter: "postgresql", host: "127.0.0.1", port: ENV["PORT1"], username: ENV["DBUSER"], database: ENV["DB"],
    sslmode: "disable", gssencmode: "disable")
  run = ->(line) { Lockstep.run_record { steps(line) { |sql| ActiveRecord::Base.connection.execute(sql) } } }
else
  connect = -> { PG.connect(host: "127.0.0.1", port: ENV["PORT1"], user: ENV["DBUSER"], dbname: ENV["DB"], sslmode: "disable", gssencmode: "disable") }
  run = ->(line) { Lockstep.run(connect) { |conn| steps(line) { |sql| conn.exec(sql) } } }
end
while (line = $stdin.gets)
  begin
    puts "done #{run.call(line.chomp)}"
  rescue StandardError => error
    puts "failed #{error.class}: #{error.message}".tr("\n", " ")
  end
end

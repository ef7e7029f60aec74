# Ruby's pg and ActiveRecord with migrations (tests/drivers/frameworks.pl).
require "active_record"
$stdout.sync = true
def check(good, name)
  puts((good ? "ok - " : "not ok - ") + name)
end
def on(port)
  ActiveRecord::Base.establish_connection(adapter: "postgresql", host: "127.0.0.1", port: ENV[port], username: ENV["DBUSER"], database: ENV["DB"],
    variables: { "lockstep.causal_reads" => "on" })
end
ActiveRecord::Migration.verbose = false
class First < ActiveRecord::Migration[6.0]
  def change
    enable_extension "hstore"
    create_table :people do |t|
      t.string :name, index: { unique: true }
      t.jsonb :data, default: {}
      t.hstore :tags
      t.integer :lock_version, default: 0
      t.timestamps
    end
    create_table :pets, id: :uuid do |t|
      t.references :person, foreign_key: { on_delete: :cascade, deferrable: :deferred }
      t.decimal :weight, precision: 8, scale: 3
    end
  end
end
class Second < ActiveRecord::Migration[6.0]
  disable_ddl_transaction!
  def change
    add_column :people, :age, :integer, default: 3, null: false
    add_index :people, :age, algorithm: :concurrently
    rename_column :pets, :weight, :mass
  end
end
class Person < ActiveRecord::Base
  has_many :pets
end
class Pet < ActiveRecord::Base
end
def migrate(which, version, direction)
  context = which.new(which.name, version)
  context.migrate(direction)
  [Person, Pet].each(&:reset_column_information)
end
on("PORT1")
migrate(First, 1, :up)
Person.transaction { 20.times { |i| Person.create!(name: "p#{i}", tags: { "k" => i.to_s }).pets.create!(weight: i / 3.0) } }
on("PORT2")
check(Person.count == 20 && Pet.sum(:weight) > 60, "objects, hstore, uuid keys")
migrate(Second, 2, :up)
Person.upsert_all((10...30).map { |i| { name: "p#{i}", age: i, created_at: Time.now, updated_at: Time.now } }, unique_by: :name)
Person.transaction do
  Person.find_by(name: "p1").with_lock { |_| Person.find_by(name: "p1").update!(data: { "a" => 1 }) }
  Person.transaction(requires_new: true) do
    Person.find_by(name: "p2").destroy!
    raise ActiveRecord::Rollback
  end
  Person.find_by(name: "p3").delete
end
on("PORT1")
[Person, Pet].each(&:reset_column_information)
check(Person.count == 29 && Pet.count == 19 && Person.find_by(name: "p29").age == 29, "migrations without transaction, upsert_all, savepoints, cascades")
got = Person.connection.get_advisory_lock(42)
check(got, "advisory locks")
migrate(Second, 2, :down)
migrate(First, 1, :down)
on("PORT2")
check(!ActiveRecord::Base.connection.table_exists?("people"), "migrations back")

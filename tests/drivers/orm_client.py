# SQLAlchemy's ORM on psycopg2, and Alembic's migrations (tests/drivers/frameworks.pl).
import os
import warnings

warnings.filterwarnings("ignore")
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.declarative import declarative_base
from sqlalchemy.orm import relationship, sessionmaker

urls = ["postgresql+psycopg2://%s@127.0.0.1:%s/%s" % (os.environ["DBUSER"], os.environ[p], os.environ["DB"]) for p in ("PORT1", "PORT2")]
one, two = (sa.create_engine(u, connect_args={"options": "-c lockstep.causal_reads=on -c lockstep.commit_wait=applied"}) for u in urls)


def check(good, name):
    print(("ok - " if good else "not ok - ") + name)


Base = declarative_base()


class Author(Base):
    __tablename__ = "author"
    id = sa.Column(sa.Integer, sa.Identity(), primary_key=True)
    name = sa.Column(sa.Text, unique=True)
    kind = sa.Column(sa.Enum("human", "robot", name="kind"))
    tags = sa.Column(pg.ARRAY(sa.Text))
    data = sa.Column(pg.JSONB)
    version = sa.Column(sa.Integer, nullable=False)
    books = relationship("Book", cascade="all, delete-orphan", passive_deletes=True)
    __mapper_args__ = {"version_id_col": version}


class Book(Base):
    __tablename__ = "book"
    id = sa.Column(sa.BigInteger, primary_key=True)
    author = sa.Column(sa.ForeignKey("author.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"))
    title = sa.Column(sa.Text, index=True)
    upper = sa.Column(sa.Text, sa.Computed("upper(title)"))
    price = sa.Column(sa.Numeric(10, 2), server_default=sa.text("random() * 100"))


Base.metadata.create_all(one)
with sessionmaker(one)() as s:
    for i in range(40):
        s.add(Author(name="n%d" % i, kind="human", tags=["a", None, "b%d" % i], data={"i": [i]}, books=[Book(title="t%d" % k) for k in range(3)]))
    s.commit()
with sessionmaker(two)() as s:
    check(s.query(Book).count() == 120, "objects with identities, arrays, jsonb")
    author = s.query(Author).filter_by(name="n3").one()
    author.data = {"x": None}
    with s.begin_nested():
        author.books.pop()
        s.flush()
    try:
        with s.begin_nested():
            s.add(Author(name="n4", kind="robot"))
            s.flush()
    except sa.exc.IntegrityError:
        pass
    s.delete(s.query(Author).filter_by(name="n5").one())
    s.commit()
with sessionmaker(one)() as s:
    check(s.query(Book).count() == 116, "changes, savepoints, cascades from the other node")
    add = pg.insert(Author.__table__).values([dict(name="n%d" % i, kind="robot", version=1) for i in range(30, 50)])
    s.execute(add.on_conflict_do_update(index_elements=["name"], set_=dict(kind=add.excluded.kind)))
    s.commit()
    check(s.query(Author).filter_by(kind="robot").count() == 20, "upserts")

# the same row on both nodes at once
a, b = sessionmaker(one)(), sessionmaker(two)()
a.query(Author).filter_by(name="n7").one().tags = ["a"]
b.query(Author).filter_by(name="n7").one().tags = ["b"]
a.commit()
try:
    b.commit()
    check(False, "optimistic locking")
except (sa.orm.exc.StaleDataError, sa.exc.OperationalError) as e:
    check(isinstance(e, sa.orm.exc.StaleDataError) or e.orig.pgcode == "40001", "optimistic locking")
b.rollback()
a.close(), b.close()


def migrate(engine, step):
    with engine.begin() as connection:
        step(Operations(MigrationContext.configure(connection)))


def forward(op):
    op.add_column("book", sa.Column("pages", sa.Integer, server_default="7"))
    op.alter_column("book", "title", new_column_name="name")
    op.alter_column("book", "price", type_=sa.Numeric(12, 3))
    op.create_check_constraint("positive", "book", "pages > 0")
    op.create_table("shelf", sa.Column("id", sa.Integer, primary_key=True), sa.Column("what", pg.UUID, server_default=sa.text("gen_random_uuid()")))
    op.bulk_insert(sa.table("shelf", sa.column("id")), [{"id": i} for i in range(50)])
    op.create_index("by_pages", "book", ["pages"], postgresql_where=sa.text("pages > 5"))
    op.execute("ALTER TYPE kind ADD VALUE 'cat'")
    op.execute("UPDATE book SET pages = id")


def backward(op):
    op.drop_index("by_pages", "book")
    op.drop_column("book", "pages")
    op.alter_column("book", "name", new_column_name="title")
    op.drop_table("shelf")


migrate(two, forward)
with one.connect() as c:
    check(c.execute(sa.text("SELECT count(DISTINCT what) FROM shelf")).scalar() == 50, "a migration on the other node")
with one.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
    Operations(MigrationContext.configure(c)).create_index("by_price", "book", ["price"], postgresql_concurrently=True)
migrate(one, backward)
with two.connect() as c:
    names = {i["name"] for i in sa.inspect(c).get_indexes("book")}
    check("by_price" in names and "by_pages" not in names, "back again, and an index made concurrently")

"""What an application does with SQLAlchemy: tables made from classes, relations, queries, reflection."""

import datetime
import decimal
import os
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert

address = sa.URL.create("postgresql+psycopg", os.environ["PGUSER"], host=os.environ["PGHOST"], port=int(os.environ["PGPORT"]),
                        database=os.environ["PGDATABASE"])
engine = sa.create_engine(address)


class Base(orm.DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True)
    born: orm.Mapped[datetime.date | None]
    tags: orm.Mapped[list[str]] = orm.mapped_column(ARRAY(sa.Text), default=list)
    extra: orm.Mapped[dict] = orm.mapped_column(JSONB, default=dict)
    accounts: orm.Mapped[list["Account"]] = orm.relationship(back_populates="owner", cascade="all, delete-orphan")


class Account(Base):
    __tablename__ = "account"
    __table_args__ = (sa.CheckConstraint("balance >= 0", name="no_debts"), sa.Index("account_by_owner", "owner_id", "opened"))
    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    owner_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("owner.id", ondelete="CASCADE"))
    balance: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2), default=0)
    opened: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    owner: orm.Mapped[Owner] = orm.relationship(back_populates="accounts")


Base.metadata.create_all(engine)
Base.metadata.create_all(engine)  # finds all of them there

with orm.Session(engine) as session:
    session.add_all([
        Owner(name="alice", born=datetime.date(1990, 2, 28), tags=["a", "b"], extra={"level": 3},
              accounts=[Account(balance=decimal.Decimal("100.50")), Account(balance=decimal.Decimal("1"))]),
        Owner(name="bob", accounts=[Account(balance=decimal.Decimal("50"))]),
        Owner(name="carol"),
    ])
    session.commit()

with orm.Session(engine) as session:
    alice = session.scalars(sa.select(Owner).where(Owner.name == "alice").options(orm.selectinload(Owner.accounts))).one()
    assert (alice.born, alice.tags, alice.extra, len(alice.accounts)) == (datetime.date(1990, 2, 28), ["a", "b"], {"level": 3}, 2)
    total = sa.func.coalesce(sa.func.sum(Account.balance), 0)
    sums = session.execute(sa.select(Owner.name, total, sa.func.count(Account.id)).outerjoin(Account).group_by(Owner.name).order_by(Owner.name))
    assert [tuple(row) for row in sums] == [("alice", decimal.Decimal("101.50"), 2), ("bob", 50, 1), ("carol", 0, 0)]
    rank = sa.func.row_number().over(order_by=Account.balance.desc())
    ranked = session.execute(sa.select(rank, Account.balance).order_by(rank)).all()
    assert [number for number, _ in ranked] == [1, 2, 3], ranked
    assert session.scalar(sa.select(Owner.id).where(Owner.extra["level"].as_integer() == 3)) == alice.id
    assert session.scalars(sa.select(Owner.name).where(Owner.tags.contains(["b"]))).all() == ["alice"]
    with_accounts = sa.exists().where(Account.owner_id == Owner.id)
    assert session.scalars(sa.select(Owner.name).where(~with_accounts)).all() == ["carol"]
    joined = sa.select(Owner).join(Account).where(Account.balance.between(40, 200)).order_by(Owner.name).distinct()
    assert [owner.name for owner in session.scalars(joined)] == ["alice", "bob"]

    # Changes that are found by the session; a lock; a delete that cascades; an error that a savepoint holds.
    alice.tags = ["c"]
    bob = session.scalars(sa.select(Owner).where(Owner.name == "bob").with_for_update()).one()
    bob.accounts[0].balance -= 20
    session.delete(alice)
    try:
        with session.begin_nested():
            session.add(Owner(name="carol"))
    except sa.exc.IntegrityError as error:
        assert error.orig.sqlstate == "23505", error
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Account)) == 1
    session.execute(sa.update(Account).values(balance=Account.balance * 2))
    try:
        session.execute(sa.update(Account).values(balance=-1))
        raise AssertionError("a debt")
    except sa.exc.IntegrityError as error:
        assert error.orig.diag.constraint_name == "no_debts", error
    session.rollback()

with engine.begin() as connection:
    upsert = insert(Owner.__table__).values(name="bob", tags=["u"], extra={}).on_conflict_do_update(
        index_elements=["name"], set_={"tags": ["u"]}).returning(Owner.id, Owner.tags)
    assert connection.execute(upsert).one().tags == ["u"]
    many = [{"name": f"owner {number}", "tags": [], "extra": {}} for number in range(1000)]
    ids = connection.execute(sa.insert(Owner.__table__).returning(Owner.id, sort_by_parameter_order=True), many).scalars().all()
    assert len(ids) == 1000 and ids == sorted(ids)
    page = sa.select(Owner.name).order_by(Owner.id.desc()).limit(2).offset(1)
    assert connection.execute(page).scalars().all() == ["owner 998", "owner 997"]
    below = sa.select(sa.literal(1).label("n")).cte("below", recursive=True)
    below = below.union_all(sa.select(below.c.n + 1).where(below.c.n < 10))
    assert connection.scalar(sa.select(sa.func.sum(below.c.n))) == 55
    with connection.execution_options(stream_results=True, yield_per=100).execute(sa.select(Owner.id)) as rows:
        assert len(rows.all()) == 1002

# A transaction in two phases, decided by another connection.
with engine.connect() as connection:
    two_phase = connection.begin_twophase("decided later")
    connection.execute(sa.insert(Owner.__table__).values(name="in doubt", tags=[], extra={}))
    two_phase.prepare()
    two_phase.commit()
    assert connection.scalar(sa.select(sa.func.count()).where(Owner.name == "in doubt")) == 1

# Tables that are described by the database.
found = sa.inspect(engine)
assert sorted(found.get_table_names()) == ["account", "owner"]
assert [column["name"] for column in found.get_columns("account")] == ["id", "owner_id", "balance", "opened"]
assert str(found.get_columns("account")[2]["type"]) == "NUMERIC(12, 2)"
assert found.get_pk_constraint("owner")["constrained_columns"] == ["id"]
assert found.get_foreign_keys("account")[0]["options"] == {"ondelete": "CASCADE"}
assert found.get_unique_constraints("owner")[0]["column_names"] == ["name"]
assert found.get_check_constraints("account")[0]["name"] == "no_debts"
assert [index["name"] for index in found.get_indexes("account")] == ["account_by_owner"]
reflected = sa.MetaData()
reflected.reflect(engine)
assert set(reflected.tables) == {"owner", "account"}
Base.metadata.drop_all(engine)
assert sa.inspect(engine).get_table_names() == []
print("done")

"""What a table or its database is against: each text names the table, what is safe and what to do, and says whether a
retry can help."""

import pytest
from marts import values

from tidegate import PostgresSink
from tidegate.protocol.facts.errors import RowsRefusedError

TABLE = "CREATE TABLE orders (v bigint, _checkpoint bigint)"
TO_RUNNER = "GRANT ALL ON orders TO tidegate_runner"


def noisy(body: str) -> list[str]:
    """A trigger before each row."""
    made = f"CREATE FUNCTION noisy() RETURNS trigger AS $$ BEGIN {body} END $$ LANGUAGE plpgsql"
    return [made, "CREATE TRIGGER noisy BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION noisy()"]


KNOWN = "CREATE TABLE known (id bigint PRIMARY KEY)"
IS_KNOWN = "ALTER TABLE orders ADD CONSTRAINT is_known FOREIGN KEY (v) REFERENCES known"
#: What is done to the table before a checkpoint with the values 1 and 1, and what the error says.
RULES = {
    "unique": (["ALTER TABLE orders ADD CONSTRAINT one UNIQUE (v)"], "constraint one", "Key (v)=(1) already exists"),
    "check": (["ALTER TABLE orders ADD CONSTRAINT big CHECK (v > 5)"], "constraint big", "Failing row contains (1, "),
    "foreign key": ([KNOWN, IS_KNOWN], "constraint is_known", 'Key (v)=(1) is not present in table "known"'),
    "deferred": ([KNOWN, f"{IS_KNOWN} DEFERRABLE INITIALLY DEFERRED"], "constraint is_known", "Key (v)=(1) is not"),
    "not null": (
        [*noisy("NEW.v = NULL; RETURN NEW;"), "ALTER TABLE orders ALTER v SET NOT NULL"],
        'null value in column "v"',
        "Failing row contains (null, 1)",
    ),
    "trigger": (noisy("RAISE 'not on Sundays';"), "not on Sundays", "A trigger of the table has refused it"),
    "value": (noisy("NEW.v = 1 / (NEW.v - 1);"), "division by zero", "A value does not fit its column"),
}
AFTER = ("foreign key", "deferred")


@pytest.mark.parametrize(
    ("case", "connection"), [*((case, None) for case in RULES), *((case, "marts") for case in AFTER)]
)
def test_a_rule_of_the_table_is_named_and_nothing_is_visible(mart, here, request, case, connection):
    base = request.getfixturevalue("there") if connection else here
    statements, rule, row = RULES[case]
    base.do(TABLE, *statements, TO_RUNNER)
    shop = mart(orders=PostgresSink("orders", connection=connection))
    if connection:
        id_, step = shop.finalize(orders=values(1, 1)), shop.coordinator.notify
    else:
        id_, step = shop.validated(orders=values(1, 1)), shop.coordinator.finalize
    with pytest.raises(RowsRefusedError) as raised:
        step(id_)
    said = str(raised.value)
    assert said.startswith("Table public.orders did not take the rows of checkpoint 1")
    assert rule in said
    assert row in said
    assert raised.value.retries == 0
    assert base.rows("SELECT * FROM orders") == []
    assert shop.status(id_) == ("COMPLETED" if connection else "IN_PROGRESS")
    assert ("The checkpoint is complete" in said) == bool(connection)
    assert ("Nothing of the checkpoint is visible" in said) != bool(connection)
    base.do("DROP TABLE orders CASCADE")
    step(id_)  # somebody has fixed it
    assert base.rows("SELECT v FROM orders") == [1, 1]

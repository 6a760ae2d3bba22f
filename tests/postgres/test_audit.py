"""What was asked and answered stays on record: neither the running role nor the owner can change it."""

import psycopg2
import pytest
from desks import Desk
from psycopg2 import errors
from records import SOMEBODY

from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.observing.actions import ActionKind, UserAction

CHANGES = [
    "UPDATE tidegate.audit SET actor = 'nobody'",
    "UPDATE tidegate.audit SET at = at WHERE false",
    "DELETE FROM tidegate.audit",
    "DELETE FROM tidegate.audit WHERE false",
    "TRUNCATE tidegate.audit",
    "TRUNCATE tidegate.pipelines CASCADE",
]


@pytest.fixture
def audited(store: PostgresCheckpointStore) -> PostgresCheckpointStore:
    Desk(store).coordinator.operations.suspend("id", SOMEBODY)
    return store


@pytest.mark.parametrize("statement", [*CHANGES, "ALTER TABLE tidegate.audit DISABLE TRIGGER ALL"])
def test_the_running_role_adds_and_reads_and_no_more(audited, running_url, statement):
    connection = psycopg2.connect(running_url.replace("+psycopg2", ""))
    with pytest.raises(errors.InsufficientPrivilege), connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()
    assert len(audited.audit("p", 9)) == 1


@pytest.mark.parametrize("statement", CHANGES)
def test_a_slip_of_the_owner_is_refused(audited, postgres_url, statement):
    connection = psycopg2.connect(postgres_url.replace("+psycopg2", ""))
    with pytest.raises(errors.CheckViolation, match=r"stays on record|are not deleted"), connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()
    assert len(audited.audit("p", 9)) == 1


def test_nobody_chooses_the_number_of_a_record(audited, running_url):
    connection = psycopg2.connect(running_url.replace("+psycopg2", ""))
    with pytest.raises(errors.GeneratedAlways), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tidegate.audit (number, request_id, at, kind, actor_kind, actor, origin, details, status,"
            " sentence) VALUES (1, 'x', now(), 'SUSPEND', 'CLI_USER', '', '', '{}', 'DONE', '')"
        )
    connection.close()


def test_an_upgrade_is_on_record_if_it_changes_something(postgres_server):
    postgres_server.create_database("test_audited_upgrade")
    url = postgres_server.url("test_audited_upgrade")
    for id_ in ("one", "two"):
        upgrade(url, UserAction(id_, ActionKind.UPGRADE, SOMEBODY))
    connection = psycopg2.connect(url.replace("+psycopg2", ""))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pipeline_id, request_id, kind, actor, status FROM tidegate.audit")
        assert cursor.fetchall() == [(None, "one", "UPGRADE", "amy", "DONE")]
    connection.close()

"""An embedded server of one test, and what it says."""

import psycopg2

from tidegate.embedded_postgres.server import EmbeddedPostgres


def ask(server: EmbeddedPostgres, question: str) -> str:
    connection = psycopg2.connect(server.url("postgres").replace("+psycopg2", ""))
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            row = cursor.fetchone()
            assert row is not None
            return str(row[0])
    finally:
        connection.close()


def process_of(server: EmbeddedPostgres) -> int:
    return int((server.data_dir / "server" / "pgdata" / "postmaster.pid").read_text().splitlines()[0])

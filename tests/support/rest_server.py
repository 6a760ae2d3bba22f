"""A REST catalog of Iceberg tables on pyiceberg's SQL catalog: `python rest_server.py PORT FILE`.

It checks what commits require, and changes several tables in one commit. Faults are ordered by `PUT /said`: requests
whose method and path begin so are answered otherwise, before or after they were carried out.
"""

import json
import sys
import time
from threading import Lock
from typing import Any

from flask import Flask, request
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, StagedTable, Table
from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError

app = Flask("catalog")
PREFIX = "/v1/lake"
TOGETHER = "POST /v1/{prefix}/transactions/commit"
ENDPOINTS = [
    *(f"{method} /v1/{{prefix}}/namespaces" for method in ("GET", "POST")),
    *(f"{method} /v1/{{prefix}}/namespaces/{{namespace}}" for method in ("GET", "HEAD", "DELETE")),
    *(f"{method} /v1/{{prefix}}/namespaces/{{namespace}}/tables" for method in ("GET", "POST")),
    *(f"{method} /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}" for method in ("GET", "HEAD", "POST")),
]
CODES = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}
catalog: SqlCatalog
lock = Lock()
said: dict[str, Any] = {"token": None, "together": True, "faults": []}
#: Of each commit, the tables that it changed.
commits: list[list[str]] = []


@app.before_request
def refused() -> Any:
    if not request.path.startswith("/v1/"):
        return None
    if said["token"] is not None and request.headers.get("Authorization") != f"Bearer {said['token']}":
        return answer(401, f"The token {request.headers.get('Authorization')} has expired")
    return fault("before")


@app.after_request
def faulty(response: Any) -> Any:
    return (
        response if response.status_code >= 400 or not request.path.startswith("/v1/") else fault("after") or response
    )


def fault(when: str) -> Any:
    """What was ordered for this request."""
    for one in said["faults"]:
        if one["when"] == when and f"{request.method} {request.path}".startswith(one["request"]) and one["times"]:
            one["times"] -= 1
            time.sleep(one.get("seconds", 0))
            if one["status"]:
                return app.make_response(answer(one["status"], one.get("text", "ordered by the test")))
            request.environ["werkzeug.socket"].shutdown(2)
    return None


def answer(code: int, message: str) -> Any:
    return {"error": {"message": message, "type": "Answered", "code": code}}, code


@app.errorhandler(Exception)
def explained(error: Exception) -> Any:
    return answer(CODES.get(type(error), 500), str(error))


@app.get("/said")
def tell() -> Any:
    return {"commits": commits}


@app.put("/said")
def order() -> Any:
    said.update(request.get_json())
    return "", 204


@app.get("/v1/config")
def config() -> Any:
    return {
        "defaults": {},
        "overrides": {"prefix": "lake"},
        "endpoints": [*ENDPOINTS, *([TOGETHER] if said["together"] else [])],
    }


@app.post(f"{PREFIX}/namespaces")
def make_namespace() -> Any:
    given = request.get_json()
    with lock:
        catalog.create_namespace(tuple(given["namespace"]))
    return {"namespace": given["namespace"], "properties": {}}


@app.get(f"{PREFIX}/namespaces/<namespace>")
def load_namespace(namespace: str) -> Any:
    return {"namespace": parts(namespace), "properties": catalog.load_namespace_properties(parts(namespace))}


@app.get(f"{PREFIX}/namespaces/<namespace>/tables")
def list_tables(namespace: str) -> Any:
    found = catalog.list_tables(parts(namespace))
    return {"identifiers": [{"namespace": each[:-1], "name": each[-1]} for each in found]}


@app.post(f"{PREFIX}/namespaces/<namespace>/tables")
def make_table(namespace: str) -> Any:
    given = CreateTableRequest.model_validate_json(request.data)
    with lock:
        made = catalog.create_table((*parts(namespace), given.name), given.table_schema, given.location)
    return document(made)


@app.get(f"{PREFIX}/namespaces/<namespace>/tables/<name>")
def load_table(namespace: str, name: str) -> Any:
    return document(catalog.load_table((*parts(namespace), name)))


@app.post(f"{PREFIX}/namespaces/<namespace>/tables/<name>")
def commit_table(namespace: str, name: str) -> Any:
    given = {"identifier": {"namespace": parts(namespace), "name": name}, **request.get_json()}
    [changed] = commit([CommitTableRequest.model_validate(given)])
    return document(changed)


@app.post(f"{PREFIX}/transactions/commit")
def commit_tables() -> Any:
    if not said["together"]:
        return answer(404, "There is no such endpoint")
    commit([CommitTableRequest.model_validate(each) for each in request.get_json()["table-changes"]])
    return "", 204


def commit(changes: list[CommitTableRequest]) -> list[StagedTable]:
    """All of them or none."""
    with lock:
        staged = [stage(change) for change in changes]
        try:
            with catalog.engine.begin() as connection:
                for before, after in staged:
                    assert connection.execute(changing(before, after)).rowcount == 1
        except IntegrityError as error:
            raise CommitFailedException("Table already exists") from error
        commits.append([".".join(after.name()) for _, after in staged])
    return [after for _, after in staged]


def stage(change: CommitTableRequest) -> tuple[Table | None, StagedTable]:
    name = (*change.identifier.namespace.root, change.identifier.name)
    try:
        before = catalog.load_table(name)
    except NoSuchTableError:
        before = None
        if not any(each.type == "assert-create" for each in change.requirements):
            raise
    after = catalog._update_and_stage_table(before, name, change.requirements, change.updates)
    catalog._write_metadata(after.metadata, after.io, after.metadata_location)
    return before, after


def changing(before: Table | None, after: StagedTable) -> Any:
    *namespace, name = after.name()
    where = {"catalog_name": catalog.name, "table_namespace": ".".join(namespace), "table_name": name}
    if before is None:
        return insert(IcebergTables).values(**where, metadata_location=after.metadata_location, iceberg_type="TABLE")
    return (
        update(IcebergTables)
        .filter_by(**where, metadata_location=before.metadata_location)
        .values(metadata_location=after.metadata_location, previous_metadata_location=before.metadata_location)
    )


def document(table: Any) -> Any:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def parts(namespace: str) -> tuple[str, ...]:
    return tuple(namespace.split("\x1f"))


if __name__ == "__main__":
    catalog = SqlCatalog("rest", uri=f"sqlite:///{sys.argv[2]}", warehouse=f"{sys.argv[2]}.tables")
    app.run("127.0.0.1", int(sys.argv[1]), threaded=True)

"""A schema says nothing of a column that is not kept."""

from cases import for_each

from tidegate.protocol.schema.ddl_promises import unkept_promises

KEPT = [
    "k STRING, n INT COMMENT 'NOT NULL, COLLATE x', d DECIMAL(9,2)",
    "k string collate UTF8_BINARY",
    "at TIMESTAMP, local TIMESTAMP_NTZ, t TIME(3), took INTERVAL DAY TO SECOND, hours interval hour",
    "a ARRAY<STRING>",
    "m MAP<STRING, INT>, s STRUCT<char: INT, variant: STRING, void INT, `not null`: INT, collate: INT>",
    "`NOT NULL` INT, interval INT, default INT, variant: STRING, generated STRING",
    "k INT -- NOT NULL\n, n INT /* DEFAULT 5 */",
    "",
]


@for_each("ddl", KEPT)
def test_what_promises_nothing_else_is_kept(ddl: str) -> None:
    assert list(unkept_promises(ddl)) == []


REFUSED = {
    "k STRING COLLATE UTF8_LCASE": ("k", "COLLATE UTF8_LCASE"),
    "n INT, `a b` ARRAY<string collate unicode_ci_rtrim>": ("a b", "COLLATE UNICODE_CI_RTRIM"),
    "s STRUCT<a: INT, k: STRING COLLATE UNICODE>": ("s", "COLLATE UNICODE"),
    "n INT NOT NULL": ("n", "NOT NULL"),
    "n: int not  null comment 'x'": ("n", "NOT NULL"),
    "s STRUCT<a: INT NOT NULL>": ("s", "NOT NULL"),
    "n INT DEFAULT 5": ("n", "DEFAULT"),
    "n INT, m INT GENERATED ALWAYS AS (n + 1)": ("m", "GENERATED"),
    "k CHAR(3)": ("k", "CHAR(3)"),
    "k character(3)": ("k", "CHARACTER(3)"),
    "m MAP<STRING, VARCHAR(7)>": ("m", "VARCHAR(7)"),
    "v VARIANT": ("v", "VARIANT"),
    "a ARRAY<VARIANT>": ("a", "VARIANT"),
    "n VOID COMMENT 'nothing'": ("n", "VOID"),
    "g GEOMETRY(4326)": ("g", "GEOMETRY(4326)"),
    "g geography(any)": ("g", "GEOGRAPHY(ANY)"),
    "i INTERVAL": ("i", "INTERVAL"),
    "i INTERVAL YEAR TO MONTH": ("i", "INTERVAL YEAR"),
    "s STRUCT<i: INTERVAL, n: INT>": ("s", "INTERVAL"),
}


@for_each("ddl", REFUSED)
def test_what_is_not_kept_is_named_with_its_column_and_a_way_out(ddl: str) -> None:
    column, said = REFUSED[ddl]
    (problem,) = unkept_promises(ddl)
    assert problem.startswith(f"column {column!r} is declared {said}: ")


def test_each_promise_is_named() -> None:
    problems = list(unkept_promises("a STRING COLLATE UNICODE NOT NULL, b VARIANT"))
    assert [problem.partition(":")[0] for problem in problems] == [
        "column 'a' is declared COLLATE UNICODE",
        "column 'a' is declared NOT NULL",
        "column 'b' is declared VARIANT",
    ]

"""Documents as commands print them that need Spark, a lost database or another machine; each with what draws it."""

from datetime import UTC, datetime

from tidegate.cli import (
    clean,
    compare,
    database,
    doctor,
    doubts,
    fork,
    plan,
    recover,
    restore,
    source,
    state,
    views,
    watch,
)
from tidegate.documents.command_models import (
    Cleaned,
    Comparison,
    Cost,
    DeliveredSink,
    EmbeddedServer,
    Finding,
    Health,
    KeptCheckpoint,
    KeyHistory,
    StateChanges,
    StateRows,
    Taken,
)
from tidegate.documents.plan_models import ChangePlan
from tidegate.reading.pipeline_answers import DoubtAt

ROW = {"carrier": "AA", "flights": 1200, "delay": 12.5, "note": "a longer text that a column of its own would need"}
RUN = Taken.model_construct(
    id=7, status="COMPLETED", sinks=[DeliveredSink(sink="route_delays", rows=328521, guarantee="EXACTLY_ONCE")]
)
STATE = {"pipeline": "flights", "operator": "carriers", "checkpoint": 7, "num_rows": 12, "rows": [ROW, ROW]}
CHANGES = {
    "pipeline": "flights", "operator": "carriers", "changes_since": 6, "checkpoint": 7, "num_changes": 1,
    "changes": [ROW | {"_change": "upsert"}],
}  # fmt: skip
HISTORY = {
    "pipeline": "flights", "operator": "carriers",
    "history": [
        {"checkpoint": 7, "completed_at": datetime(2026, 3, 1, 8, tzinfo=UTC), "row": ROW},
        {"checkpoint": 6, "completed_at": datetime(2026, 3, 1, 7, 26, 40, tzinfo=UTC), "row": None},
    ],
}  # fmt: skip
COMPARED = {
    "same": False,
    "pipelines": [{"pipeline": "flights", "checkpoint": 7}, {"pipeline": "trial", "checkpoint": 2}],
    "compared": [
        {
            "part": "TABLE", "name": "route_delays", "likeness": "DIFFERENT", "columns_of_one_side": ["delay"],
            "rows": [
                {"number": 1200, "surplus": 3, "sample": ['{"route": "EWR-IAH", "delay": 12}']},
                {"number": 1197, "surplus": 0, "sample": []},
            ],
        },
        {"part": "STATE", "name": "carriers", "likeness": "ONLY_IN_FIRST", "columns_of_one_side": [], "rows": []},
    ],
}  # fmt: skip
FINDINGS = [
    {"what": "Python", "ok": True, "says": "3.11, /home/ada/shop/.venv/bin/python", "mend": None},
    {"what": "Java", "ok": False, "says": "there is none", "mend": "apt install openjdk-21-jre-headless"},
    {
        "what": "plugin", "ok": None, "says": "Airflow is not installed here, so its pages and reports are not shown",
        "mend": "pip install 'tidegate[airflow]'",
    },
]  # fmt: skip
SERVERS = [
    {"directory": "/home/ada/shop/.tidegate/postgres", "pid": None, "port": None, "this_project": True},
    {
        "directory": "/home/ada/another/project/.tidegate/postgres",
        "pid": 4711,
        "port": 5433,
        "this_project": False,
    },
]
HEALTH = [
    {
        "pipeline": "flights", "status": "RUNNING", "well": False, "stale": True,
        "stale_since": datetime(2026, 3, 1, 8, tzinfo=UTC), "failed_checkpoint": None, "failure_reason": None,
        "summary": "Pipeline flights is stale: it has completed no checkpoint since 2026-03-01 08:00:00 UTC.",
    },
    {
        "pipeline": "orders", "status": "RUNNING", "well": True, "stale": False, "stale_since": None,
        "failed_checkpoint": None, "failure_reason": None, "summary": "Pipeline orders is well.",
    },
]  # fmt: skip
DOUBTS = [
    {
        "pipeline_id": "flights", "checkpoint_id": 8, "restore": None, "since": datetime(2026, 3, 1, 8, tzinfo=UTC),
        "duration": 754_000, "reason": "FAILED", "sinks": ["routes", "carriers"], "problem": "No space left on device.",
        "why": "Committing the sinks of checkpoint 8 failed: No space left on device.",
        "readers": "Tables routes and carriers may still show checkpoint 7, or checkpoint 8 already.",
        "advice": "Remove the cause. Then `tidegate run flights`, the next DAG run, or clearing its task `notify` "
        "repeats it. Nothing is lost, and repeating it changes nothing that is shown already.",
    },
]  # fmt: skip
RECOVERY = {
    "pipeline": "flights", "storage": "s3://bucket/checkpoints", "latest_checkpoint": 7,
    "checkpoints": [
        {"id": 6, "checkpoint_type": "SAVEPOINT", "was_in_doubt": False, "state_size": 12_000_000},
        {"id": 7, "checkpoint_type": "CHECKPOINT", "was_in_doubt": True, "state_size": 13_000_000},
    ],
    "in_doubt": [{"id": 8, "reason": "it has no marker: nobody knows whether it was committed"}],
    "not_recovered": [{"id": 5, "had_completed": True, "reason": "flights/chk-5/carriers/0 is missing"}],
    "lost_checkpoints": [9], "moved": [], "last_checkpoint_id": 9,
}  # fmt: skip
_CARRIERS = {
    "operator_id": "carriers", "matched": True, "rows": 1200, "bytes": 32_400,
    "changes": ["column delay: int becomes bigint", "column note is new: rows that are there have null"],
}  # fmt: skip
RESTORE = {
    "checkpoint": {"id": 5}, "copied_from": None, "edited": None, "moved": [], "latest_checkpoint": 7,
    "abandoned_checkpoints": [6, 7], "returning_checkpoints": [], "aborted_checkpoints": [8],
    "sources": [
        {"source": "flights", "files": 12, "bytes": 48_000_000, "missing": ["landing/flights/2026-01-03.csv"]},
        {"source": "airlines", "files": 0, "bytes": 0, "missing": []},
    ],
    "skipped": [{"source": "clicks", "checkpoint": 6, "lost": [{"part": "0", "first": 100, "last": 299, "next": 300}]}],
    "operators": [_CARRIERS, _CARRIERS | {"operator_id": "routes", "matched": False, "changes": []}],
    "sinks": [
        {
            "sink": "routes", "can_rewind": True, "withdrawn_checkpoints": [6, 7], "files": 4, "rows": None,
            "bytes": 9_000,
        },
        {
            "sink": "orders", "can_rewind": True, "withdrawn_checkpoints": [7], "files": 0, "rows": 1_200,
            "bytes": 60_000,
        },
        {"sink": "mail", "can_rewind": False, "withdrawn_checkpoints": [], "files": 0, "rows": None, "bytes": 0},
    ],
}  # fmt: skip
SKIPPED = {
    "pipeline": "clicks", "source": "clicks", "checkpoint": 7, "aborted_checkpoints": [8],
    "lost": [
        {"part": "0", "first": 100, "last": 299, "next": 300},
        {"part": "1", "first": 50, "last": None, "next": 0},
        {"part": "10", "first": 70, "last": None, "next": None},
    ],
}  # fmt: skip
FORK = {
    "pipeline": "trial", "forked_from": {"pipeline": "flights", "checkpoint": 7, "savepoint": None},
    "checkpoint": {"id": 7}, "copied_from": "/home/ada/shop/.tidegate/checkpoints/flights/chk-7", "moved": [],
    "sources": [
        {"source": "flights", "taken_over": True, "files": 12, "bytes": 48_000_000},
        {"source": "weather", "taken_over": False, "files": None, "bytes": 0},
    ],
    "operators": [_CARRIERS], "new_operators": ["routes"],
    "sinks": [{"sink": "late", "filled_from_state": False}, {"sink": "routes", "filled_from_state": True}],
}  # fmt: skip
PLAN = {
    "pipeline": "flights", "status": "RUNNING", "checkpoint": 7, "can_go_on": False,
    "summary": "Pipeline flights cannot go on from checkpoint 7 with this code.",
    "vertices": [
        {
            "kind": "source", "name": "flights", "verdict": "same", "changes": [], "way_out": None, "table": None,
            "commits": None,
        },
        {
            "kind": "operator", "name": "carriers", "verdict": "refused",
            "changes": ["its key was carrier, and is route"],
            "way_out": "Give the operator another name: it then begins anew, and the old state is dropped.",
            "table": None, "commits": None,
        },
    ],
}  # fmt: skip
KEPT = [
    Cleaned.model_construct(
        pipeline="flights",
        total=Cost(files=40, bytes=13_000_000),
        kept=[
            KeptCheckpoint.model_construct(
                id=3,
                why="savepoint before-migration, until somebody disposes of it",
                full=Cost(files=20, bytes=9_000_000),
                alone=Cost(files=8, bytes=2_000_000),
            ),
            KeptCheckpoint.model_construct(
                id=7, why="the latest", full=Cost(files=32, bytes=11_000_000), alone=Cost(files=20, bytes=4_000_000)
            ),
        ],
        summary=["Nothing is too old, and nothing is left over.", "2 files were verified, 13.0 kB."],
    )
]
REPLACED = {
    "pipeline": "flights", "source": "flights",
    "files": [
        {
            "file": "2026-01-03.csv", "read_by_checkpoint": 6,
            "then": {"bytes": 1200, "modified_timestamp": 1772350000000, "checksum": "c45fc64ff0a960c718a09e2417"},
            "now": {"bytes": 1300, "modified_timestamp": 1772352000000, "checksum": "4b185dbdb1674b185dbdb1674b"},
        }
    ],
    "restore": RESTORE,
}  # fmt: skip

DRAWN = {
    "source-replace": (source.replacement_tables, REPLACED),
    "source-skip": (source.skip_tables, SKIPPED),
    "restore": (restore.plan_tables, RESTORE),
    "fork": (fork.plan_tables, FORK),
    "plan": (plan.plan_tables, ChangePlan.model_validate(PLAN)),
    "clean": (clean.report_tables, KEPT),
    "run": (views.run_table, RUN),
    "state": (state.rows_table, StateRows.model_validate(STATE)),
    "state-diff": (state.changes_table, StateChanges.model_validate(CHANGES)),
    "state-history": (state.history_table, KeyHistory.model_validate(HISTORY)),
    "compare": (compare.comparison_table, Comparison.model_validate(COMPARED)),
    "doctor": (doctor.findings_table, [Finding.model_validate(each) for each in FINDINGS]),
    "db-status": (database.servers_table, [EmbeddedServer.model_validate(each) for each in SERVERS]),
    "watch": (watch.health_table, [Health.model_validate(each) for each in HEALTH]),
    "doubts": (doubts.doubt_list, [DoubtAt.model_validate(each) for each in DOUBTS]),
    "recover": (recover.plan_tables, RECOVERY),
}

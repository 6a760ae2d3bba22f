"""The legal changes of rows, as SQL. The running role cannot undo a completion, or go back in time.

The tables of transitions are those of `protocol.facts.lifecycle` and `protocol.facts.pipelines`. This file lists
which columns are fixed, and from when on. Every rule names its columns, so that later columns are free until a
migration adds them to a list. A rule on single rows is a trigger whose condition the database evaluates by itself,
which costs nothing while the rule is kept. Rules that read another table run once per statement.
"""

from collections.abc import Iterable

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PIPELINE_TRANSITIONS, PipelineStatus

#: Raise the trigger's message, as a violation of the rule that its arguments name.
REFUSE = """\
CREATE FUNCTION tidegate.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_ARGV[0], MESSAGE = TG_ARGV[1];
END $$"""

#: Parts of a checkpoint are written while it is in progress, and do not change after it has ended.
REFUSE_PARTS_OF_ENDED = """\
CREATE FUNCTION tidegate.refuse_parts_of_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tidegate.checkpoints c
        WHERE c.status <> 'IN_PROGRESS' AND (c.pipeline_id, c.checkpoint_id) IN (
            SELECT DISTINCT w.pipeline_id, w.checkpoint_id FROM written w)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_of_ended',
            MESSAGE = 'the checkpoint has ended; what belongs to it stays as it is';
    END IF;
    RETURN NULL;
END $$"""

#: Subtasks and their handles are deleted when their checkpoint is rolled up, and their totals are recorded.
REFUSE_UNFOLDED = """\
CREATE FUNCTION tidegate.refuse_unfolded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT pipeline_id, checkpoint_id, operator_id FROM written) w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.folded_operators f
            WHERE f.pipeline_id = w.pipeline_id AND f.checkpoint_id = w.checkpoint_id
              AND f.operator_id = w.operator_id)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_kept',
            MESSAGE = 'what belongs to a checkpoint is deleted only once it is folded';
    END IF;
    RETURN NULL;
END $$"""

#: Handles are deleted then as well. Those of versions that do not count are deleted while the checkpoint is in
#: progress.
REFUSE_NEEDED_HANDLES = """\
CREATE FUNCTION tidegate.refuse_needed_handles() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT pipeline_id, checkpoint_id, operator_id, details ? 'follows' AS version
                     FROM written) w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.folded_operators f
            WHERE f.pipeline_id = w.pipeline_id AND f.checkpoint_id = w.checkpoint_id
              AND f.operator_id = w.operator_id)
          AND NOT (w.version AND EXISTS (
            SELECT FROM tidegate.checkpoints c
            WHERE c.pipeline_id = w.pipeline_id AND c.checkpoint_id = w.checkpoint_id
              AND c.status = 'IN_PROGRESS'))
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'handles_kept',
            MESSAGE = 'what a checkpoint refers to is deleted only once it is folded';
    END IF;
    RETURN NULL;
END $$"""

#: Only for a checkpoint that is marked as rolled up, which a savepoint and one with state never are.
REFUSE_OPERATORS_OF_UNFOLDED = """\
CREATE FUNCTION tidegate.refuse_operators_of_unfolded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tidegate.checkpoints c
        WHERE NOT c.folded AND (c.pipeline_id, c.checkpoint_id) IN (
            SELECT DISTINCT w.pipeline_id, w.checkpoint_id FROM written w)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'folded_operators_of_folded',
            MESSAGE = 'the checkpoint is not folded';
    END IF;
    RETURN NULL;
END $$"""

#: The functions that the triggers below call.
REFUSALS = (
    *(REFUSE, REFUSE_PARTS_OF_ENDED, REFUSE_UNFOLDED, REFUSE_NEEDED_HANDLES),
    REFUSE_OPERATORS_OF_UNFOLDED,
)

#: Set by the trigger.
_OF_TRIGGER = (
    *("pipeline_id", "checkpoint_id", "request_id", "periodic", "kind", "drain"),
    *("triggered_at", "num_subtasks", "operators"),
)
#: Set while the checkpoint is in progress, and fixed once it has ended. notified_at and swept are set after that, once.
_OF_END = (
    *("deadline", "num_acknowledged", "num_finished", "acknowledged_at", "validated_at"),
    *("held_at", "held_until", "held_message", "decision", "decided_at", "decided_by", "decision_comment"),
    *("completed_at", "metadata_path", "state_size", "checkpointed_size", "committed_sinks"),
    *("failed_at", "failure_reason", "failure_message"),
)


def _row(name: str, table: str, event: str, condition: str, message: str) -> str:
    """Return a trigger that fires after the row's own constraints, because their messages are more exact."""
    return (
        f"CREATE TRIGGER {name} AFTER {event} ON tidegate.{table} FOR EACH ROW\n"
        f"WHEN ({condition})\nEXECUTE FUNCTION tidegate.refuse('{name}', '{message}')"
    )


def _never(name: str, table: str, event: str, message: str) -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {event} ON tidegate.{table} FOR EACH STATEMENT\n"
        f"EXECUTE FUNCTION tidegate.refuse('{name}', '{message}')"
    )


def _not_of_ended(table: str, event: str, rows: str) -> str:
    return (
        f"CREATE TRIGGER {table}_of_ended_{event.lower()} AFTER {event} ON tidegate.{table}\n"
        f"REFERENCING {rows} TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()"
    )


def _only_of_folded(table: str, function: str = "refuse_unfolded") -> str:
    return (
        f"CREATE TRIGGER {table}_folded AFTER DELETE ON tidegate.{table}\n"
        f"REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.{function}()"
    )


def _changed(columns: Iterable[str]) -> str:
    listed = list(columns)
    old, new = (", ".join(f"{which}.{column}" for column in listed) for which in ("OLD", "NEW"))
    return f"({old}) IS DISTINCT FROM ({new})"


def _shrunk(columns: Iterable[str]) -> str:
    return " OR ".join(f"NEW.{column} < OLD.{column}" for column in columns)


def _pipeline_moves() -> str:
    return ", ".join(
        f"('{before}', '{after}')" for before, followers in PIPELINE_TRANSITIONS.items() for after in sorted(followers)
    )


PIPELINE_GUARDS = (
    _row(
        "pipelines_legal_transition",
        "pipelines",
        "UPDATE",
        "OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (" + _pipeline_moves() + ")"
        f" AND NOT (NEW.status = '{PipelineStatus.RUNNING}' AND NEW.last_restore > OLD.last_restore)",
        "the pipeline cannot come from where it is to where it is put",
    ),
    _row(
        "pipelines_begin",
        "pipelines",
        "INSERT",
        f"NEW.status <> '{PipelineStatus.CREATED}' OR NEW.last_checkpoint_id <> 0 OR NEW.region_attempt <> 0",
        "a pipeline begins without a past",
    ),
    _row(
        "pipelines_only_forward",
        "pipelines",
        "UPDATE",
        _changed(["pipeline_id"])
        + " OR "
        + _shrunk(
            ["last_checkpoint_id", "forgiven_until", "region_attempt", "region_swept", "restores", "last_restore"]
        ),
        "ids and attempts only grow, or what is overtaken could count again",
    ),
    _never("pipelines_kept", "pipelines", "DELETE OR TRUNCATE", "pipelines are not deleted"),
)

RESTORE_GUARDS = (
    _row(
        "restores_fixed",
        "restores",
        "UPDATE",
        _changed(["pipeline_id", "number", "checkpoint_id", "last_checkpoint_id", "previous_checkpoint_id"])
        + " OR "
        + _changed(["restored_at", "undoes", "imported"])
        + " OR OLD.rewound_at IS NOT NULL AND OLD.rewound_at IS DISTINCT FROM NEW.rewound_at",
        "what was restored stays so",
    ),
    _never("restores_kept", "restores", "DELETE OR TRUNCATE", "restores are not deleted"),
)

IMPORT_GUARDS = (
    _row(
        "imports_ended",
        "imports",
        "UPDATE",
        f"{_changed(['pipeline_id', 'checkpoint_id'])} OR OLD.ended_at IS NOT NULL AND OLD IS DISTINCT FROM NEW",
        "an import that has ended does not go on",
    ),
)

CHECKPOINT_GUARDS = (
    _row(
        "checkpoints_deadline",
        "checkpoints",
        "INSERT",
        "NEW.deadline < NEW.triggered_at",
        "only a deadline that is corrected may lie before the trigger",
    ),
    _row(
        "checkpoints_fixed",
        "checkpoints",
        "UPDATE",
        _changed(_OF_TRIGGER),
        "what a checkpoint was triggered as stays",
    ),
    _row(
        "checkpoints_ended",
        "checkpoints",
        "UPDATE",
        f"OLD.status <> '{Status.IN_PROGRESS}' AND {_changed(_OF_END)}",
        "the checkpoint has ended and stays as it is",
    ),
    _row(
        "checkpoints_only_forward",
        "checkpoints",
        "UPDATE",
        _shrunk(["num_acknowledged", "num_finished"])
        + " OR OLD.swept AND NOT NEW.swept OR OLD.folded AND NOT NEW.folded"
        + " OR OLD.notified_at IS NOT NULL AND OLD.notified_at IS DISTINCT FROM NEW.notified_at",
        "what was acknowledged, notified, swept and folded stays so",
    ),
    _row(
        "checkpoints_exported_once",
        "checkpoints",
        "UPDATE",
        f"OLD.location IS NOT NULL AND {_changed(['location'])}"
        f" OR OLD.exported_at IS NOT NULL AND {_changed(['exported_at', 'exported_size'])}",
        "where a savepoint was written stays so",
    ),
    _row(
        "checkpoints_decided_once",
        "checkpoints",
        "UPDATE",
        f"OLD.held_at IS NOT NULL AND {_changed(['held_at', 'held_until', 'held_message'])} OR OLD.decision IS NOT NULL"
        f" AND {_changed(['decision', 'decided_at', 'decided_by', 'decision_comment'])}",
        "why it was held, and what was decided, stays so",
    ),
    _never("checkpoints_kept", "checkpoints", "DELETE OR TRUNCATE", "checkpoints are not deleted"),
)

SUBTASK_GUARDS = (
    _row(
        "subtasks_acknowledged",
        "subtasks",
        "UPDATE",
        "OLD.acknowledged_at IS NOT NULL",
        "the first acknowledgement stands",
    ),
    _row(
        "subtasks_only_forward",
        "subtasks",
        "UPDATE",
        _changed(["pipeline_id", "checkpoint_id", "operator_id", "subtask_index"]) + " OR " + _shrunk(["attempt"]),
        "attempts only grow, or one that is overtaken could count again",
    ),
    _never("subtasks_kept", "subtasks", "TRUNCATE", "subtasks of checkpoints are not deleted"),
    _only_of_folded("subtasks"),
    _not_of_ended("subtasks", "INSERT", "NEW"),
    _not_of_ended("subtasks", "UPDATE", "NEW"),
)

HANDLE_GUARDS = (
    _row("handles_unchanged", "handles", "UPDATE", "OLD IS DISTINCT FROM NEW", "a reported snapshot stays as it is"),
    _never("handles_kept", "handles", "TRUNCATE", "handles of checkpoints are not deleted"),
    _only_of_folded("handles", "refuse_needed_handles"),
    _not_of_ended("handles", "INSERT", "NEW"),
)

VERDICT_GUARDS = (
    _row("verdicts_unchanged", "verdicts", "UPDATE", "OLD IS DISTINCT FROM NEW", "a recorded verdict stands"),
    _never("verdicts_kept", "verdicts", "TRUNCATE", "verdicts are not deleted"),
    _not_of_ended("verdicts", "INSERT", "NEW"),
    _not_of_ended("verdicts", "DELETE", "OLD"),
)

FIGURE_GUARDS = (
    _row("figures_unchanged", "figures", "UPDATE", "OLD IS DISTINCT FROM NEW", "what a checkpoint has cost stays so"),
    _never("figures_kept", "figures", "DELETE OR TRUNCATE", "figures of checkpoints are not deleted"),
)

FOLDED_GUARDS = (
    _row("folded_unchanged", "folded_operators", "UPDATE", "OLD IS DISTINCT FROM NEW", "what was folded stays so"),
    _never("folded_kept", "folded_operators", "DELETE OR TRUNCATE", "what was folded is not deleted"),
    "CREATE TRIGGER folded_operators_of_folded AFTER INSERT ON tidegate.folded_operators\n"
    "REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_operators_of_unfolded()",
)

TOTAL_GUARDS = (
    _row(
        "folded_totals_grow",
        "folded_totals",
        "UPDATE",
        _changed(["pipeline_id"]) + " OR " + _shrunk(["failed", "discarded", "measured"]),
        "what was counted stays counted",
    ),
    _never("folded_totals_kept", "folded_totals", "DELETE OR TRUNCATE", "what was counted is not deleted"),
)

#: The columns of a plan's confirmation and accepted consequences, which are set together.
CONFIRMED = (
    *("confirmed_id", "confirmed_at", "confirmed_by", "confirmed_from", "confirmed_dag", "confirmed_run"),
    "accepted",
)

PLAN_GUARDS = (
    _row(
        "restore_plans_fixed",
        "restore_plans",
        "UPDATE",
        _changed(["pipeline_id", "request_id", "target", "asked_at", "asked_by", "asked_from", "dag_id", "run_id"])
        + f" OR OLD.planned_at IS NOT NULL AND {_changed(['planned_at', 'document', 'digest', 'refusal'])}"
        + f" OR OLD.confirmed_id IS NOT NULL AND {_changed(CONFIRMED)}",
        "a plan stays as it was shown and confirmed",
    ),
    _never("restore_plans_kept", "restore_plans", "DELETE OR TRUNCATE", "plans that were shown are not deleted"),
)

#: Not even the owner can change the audit by mistake.
AUDIT_GUARDS = (
    _never("audit_append_only", "audit", "UPDATE OR DELETE OR TRUNCATE", "what was asked and answered stays on record"),
)

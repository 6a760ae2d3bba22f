"""Rules that table definitions cannot express, as SQL: legal transitions, the subtask of a handle, and live references.

`tables` attaches these texts to its tables. `migrations/` has its own copies, and a test proves that both are equal.
"""

from tidegate.protocol.facts.lifecycle import TRANSITIONS, Phase, Status


def _transitions() -> str:
    moves = [
        f"('{before[0]}', '{before[1]}', '{after[0]}', '{after[1]}')"
        for before, followers in TRANSITIONS.items()
        for after in sorted(followers)
    ]
    return ",\n        ".join(moves)


#: A checkpoint starts TRIGGERED, then moves as in `lifecycle.TRANSITIONS`. An update that keeps the stage is allowed.
TRANSITION_FUNCTION = f"""\
CREATE FUNCTION tidegate.refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.status, NEW.phase) = ('{Status.IN_PROGRESS}', '{Phase.TRIGGERED}') THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
            MESSAGE = format('a checkpoint cannot begin as %s/%s', NEW.status, NEW.phase);
    END IF;
    IF (OLD.status, OLD.phase) = (NEW.status, NEW.phase) OR (OLD.status, OLD.phase, NEW.status, NEW.phase) IN (
        {_transitions()}
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
        MESSAGE = format('a checkpoint cannot go from %s/%s to %s/%s', OLD.status, OLD.phase, NEW.status, NEW.phase);
END $$"""

TRANSITION_TRIGGER = """\
CREATE TRIGGER checkpoints_legal_transition BEFORE INSERT OR UPDATE OF status, phase ON tidegate.checkpoints
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_illegal_transition()"""

#: Every commit attempt gets a new number, which fences older attempts, so no number is used twice. Only the newest
#: attempt may record a sign of life.
ATTEMPTS_FUNCTION = """\
CREATE FUNCTION tidegate.refuse_older_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.commit_attempt < OLD.commit_attempt OR NEW.commit_attempt = OLD.commit_attempt
        AND OLD.committer_seen_at IS NULL AND NEW.committer_seen_at IS NOT NULL
    THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'pipelines_attempts_grow',
            MESSAGE = 'an attempt at committing is given out a second time';
    END IF;
    RETURN NEW;
END $$"""

ATTEMPTS_TRIGGER = """\
CREATE TRIGGER pipelines_attempts_grow BEFORE UPDATE OF commit_attempt, committer_seen_at ON tidegate.pipelines
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_older_attempt()"""

#: The foreign key of handles, checked once per statement. Checked row by row, it took a third of the time of a large
#: batch of acknowledgements. Rows of subtasks are never deleted before their handles.
HANDLES_FUNCTION = """\
CREATE FUNCTION tidegate.refuse_handles_without_subtask() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM written w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.subtasks s
            WHERE s.pipeline_id = w.pipeline_id AND s.checkpoint_id = w.checkpoint_id
              AND s.operator_id = w.operator_id AND s.subtask_index = w.subtask_index)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'handles_of_subtask',
            MESSAGE = 'a handle belongs to no subtask that is recorded';
    END IF;
    RETURN NULL;
END $$"""

HANDLES_TRIGGERS = (
    """\
CREATE TRIGGER handles_of_subtask_inserted AFTER INSERT ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask()""",
    """\
CREATE TRIGGER handles_of_subtask_updated AFTER UPDATE ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask()""",
)

#: The files that must not be deleted, as (owner, path), with the checkpoint that refers to each, 0 for a compacted run.
#: These references are live (protocol.md section 9):
#: - the handles of checkpoints IN_PROGRESS, and those of COMPLETED ones except EXCHANGE, which is no longer needed;
#: - the metadata of COMPLETED checkpoints;
#: - the handles of compacted runs;
#: - the STAGED handles of a checkpoint that was subsumed before its sinks were notified. Until the notification is
#:   recorded they are the only copy of committed rows. After a restore has abandoned it, they are not needed.
LIVE_REFERENCES = """\
CREATE VIEW tidegate.live_references AS
    SELECT h.pipeline_id, h.owner, h.path, h.created_by, h.checkpoint_id
    FROM tidegate.handles h JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
    WHERE c.status = 'IN_PROGRESS'
        OR c.status = 'COMPLETED' AND h.kind <> 'EXCHANGE'
        OR c.status = 'SUBSUMED' AND c.notified_at IS NULL AND c.abandoned_by IS NULL AND h.kind = 'STAGED'
  UNION ALL
    SELECT c.pipeline_id, 'storage', c.metadata_path, c.checkpoint_id, c.checkpoint_id
    FROM tidegate.checkpoints c
    WHERE c.status = 'COMPLETED'
  UNION ALL
    SELECT k.pipeline_id, 'storage', k.path, k.created_by, 0
    FROM tidegate.compactions k"""

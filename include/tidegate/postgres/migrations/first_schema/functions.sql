-- What the triggers call.

CREATE FUNCTION tidegate.refuse_older_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.commit_attempt < OLD.commit_attempt OR NEW.commit_attempt = OLD.commit_attempt
        AND OLD.committer_seen_at IS NULL AND NEW.committer_seen_at IS NOT NULL
    THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'pipelines_attempts_grow',
            MESSAGE = 'an attempt at committing is given out a second time';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tidegate.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_ARGV[0], MESSAGE = TG_ARGV[1];
END $$;

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
END $$;

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
END $$;

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
END $$;

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
END $$;

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
END $$;

CREATE FUNCTION tidegate.refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.status, NEW.phase) = ('IN_PROGRESS', 'TRIGGERED') THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
            MESSAGE = format('a checkpoint cannot begin as %s/%s', NEW.status, NEW.phase);
    END IF;
    IF (OLD.status, OLD.phase) = (NEW.status, NEW.phase) OR (OLD.status, OLD.phase, NEW.status, NEW.phase) IN (
        ('IN_PROGRESS', 'TRIGGERED', 'FAILED', 'TRIGGERED'),
        ('IN_PROGRESS', 'TRIGGERED', 'IN_PROGRESS', 'ACKNOWLEDGED'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'FAILED', 'ACKNOWLEDGED'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'IN_PROGRESS', 'HELD'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'IN_PROGRESS', 'VALIDATED'),
        ('IN_PROGRESS', 'HELD', 'FAILED', 'HELD'),
        ('IN_PROGRESS', 'HELD', 'IN_PROGRESS', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'COMPLETED', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'FAILED', 'VALIDATED'),
        ('COMPLETED', 'VALIDATED', 'SUBSUMED', 'VALIDATED'),
        ('SUBSUMED', 'VALIDATED', 'DISCARDED', 'VALIDATED')
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
        MESSAGE = format('a checkpoint cannot go from %s/%s to %s/%s', OLD.status, OLD.phase, NEW.status, NEW.phase);
END $$;

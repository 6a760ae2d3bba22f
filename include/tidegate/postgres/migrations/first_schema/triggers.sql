-- Which changes of rows are legal.

CREATE TRIGGER pipelines_attempts_grow BEFORE UPDATE OF commit_attempt, committer_seen_at ON tidegate.pipelines
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_older_attempt();

CREATE TRIGGER pipelines_legal_transition AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (('CREATED', 'CANCELLED'), ('CREATED', 'RUNNING'),
    ('CREATED', 'STOPPING'), ('CREATED', 'SUSPENDED'), ('RUNNING', 'CANCELLED'), ('RUNNING', 'FAILED'),
    ('RUNNING', 'FINISHED'), ('RUNNING', 'STOPPING'), ('RUNNING', 'SUSPENDED'), ('STOPPING', 'CANCELLED'),
    ('STOPPING', 'FAILED'), ('STOPPING', 'FINISHED'), ('STOPPING', 'RUNNING'), ('STOPPING', 'SUSPENDED'),
    ('SUSPENDED', 'CANCELLED'), ('SUSPENDED', 'FINISHED'), ('SUSPENDED', 'RUNNING'), ('FAILED', 'CANCELLED'),
    ('FAILED', 'RUNNING'), ('FINISHED', 'CANCELLED'), ('FINISHED', 'RUNNING')) AND NOT (NEW.status = 'RUNNING' AND
    NEW.last_restore > OLD.last_restore))
EXECUTE FUNCTION tidegate.refuse('pipelines_legal_transition',
    'the pipeline cannot come from where it is to where it is put');

CREATE TRIGGER pipelines_begin AFTER INSERT ON tidegate.pipelines FOR EACH ROW
WHEN (NEW.status <> 'CREATED' OR NEW.last_checkpoint_id <> 0 OR NEW.region_attempt <> 0)
EXECUTE FUNCTION tidegate.refuse('pipelines_begin', 'a pipeline begins without a past');

CREATE TRIGGER pipelines_only_forward AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN ((OLD.pipeline_id) IS DISTINCT FROM (NEW.pipeline_id) OR NEW.last_checkpoint_id < OLD.last_checkpoint_id OR
    NEW.forgiven_until < OLD.forgiven_until OR NEW.region_attempt < OLD.region_attempt OR NEW.region_swept <
    OLD.region_swept OR NEW.restores < OLD.restores OR NEW.last_restore < OLD.last_restore)
EXECUTE FUNCTION tidegate.refuse('pipelines_only_forward',
    'ids and attempts only grow, or what is overtaken could count again');

CREATE TRIGGER pipelines_kept BEFORE DELETE OR TRUNCATE ON tidegate.pipelines FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('pipelines_kept', 'pipelines are not deleted');

CREATE TRIGGER restores_fixed AFTER UPDATE ON tidegate.restores FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.number, OLD.checkpoint_id, OLD.last_checkpoint_id, OLD.previous_checkpoint_id) IS DISTINCT
    FROM (NEW.pipeline_id, NEW.number, NEW.checkpoint_id, NEW.last_checkpoint_id, NEW.previous_checkpoint_id) OR
    (OLD.restored_at, OLD.undoes, OLD.imported) IS DISTINCT FROM (NEW.restored_at, NEW.undoes, NEW.imported) OR
    OLD.rewound_at IS NOT NULL AND OLD.rewound_at IS DISTINCT FROM NEW.rewound_at)
EXECUTE FUNCTION tidegate.refuse('restores_fixed', 'what was restored stays so');

CREATE TRIGGER restores_kept BEFORE DELETE OR TRUNCATE ON tidegate.restores FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('restores_kept', 'restores are not deleted');

CREATE TRIGGER imports_ended AFTER UPDATE ON tidegate.imports FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id) IS DISTINCT FROM (NEW.pipeline_id, NEW.checkpoint_id) OR OLD.ended_at IS NOT
    NULL AND OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('imports_ended', 'an import that has ended does not go on');

CREATE TRIGGER restore_plans_fixed AFTER UPDATE ON tidegate.restore_plans FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.request_id, OLD.target, OLD.asked_at, OLD.asked_by, OLD.asked_from, OLD.dag_id, OLD.run_id)
    IS DISTINCT FROM (NEW.pipeline_id, NEW.request_id, NEW.target, NEW.asked_at, NEW.asked_by, NEW.asked_from,
    NEW.dag_id, NEW.run_id) OR OLD.planned_at IS NOT NULL AND (OLD.planned_at, OLD.document, OLD.digest, OLD.refusal) IS
    DISTINCT FROM (NEW.planned_at, NEW.document, NEW.digest, NEW.refusal) OR OLD.confirmed_id IS NOT NULL AND
    (OLD.confirmed_id, OLD.confirmed_at, OLD.confirmed_by, OLD.confirmed_from, OLD.confirmed_dag, OLD.confirmed_run,
    OLD.accepted) IS DISTINCT FROM (NEW.confirmed_id, NEW.confirmed_at, NEW.confirmed_by, NEW.confirmed_from,
    NEW.confirmed_dag, NEW.confirmed_run, NEW.accepted))
EXECUTE FUNCTION tidegate.refuse('restore_plans_fixed', 'a plan stays as it was shown and confirmed');

CREATE TRIGGER restore_plans_kept BEFORE DELETE OR TRUNCATE ON tidegate.restore_plans FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('restore_plans_kept', 'plans that were shown are not deleted');

CREATE TRIGGER checkpoints_legal_transition BEFORE INSERT OR UPDATE OF status, phase ON tidegate.checkpoints
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_illegal_transition();

CREATE TRIGGER checkpoints_deadline AFTER INSERT ON tidegate.checkpoints FOR EACH ROW
WHEN (NEW.deadline < NEW.triggered_at)
EXECUTE FUNCTION tidegate.refuse('checkpoints_deadline',
    'only a deadline that is corrected may lie before the trigger');

CREATE TRIGGER checkpoints_fixed AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id, OLD.request_id, OLD.periodic, OLD.kind, OLD.drain, OLD.triggered_at,
    OLD.num_subtasks, OLD.operators) IS DISTINCT FROM (NEW.pipeline_id, NEW.checkpoint_id, NEW.request_id, NEW.periodic,
    NEW.kind, NEW.drain, NEW.triggered_at, NEW.num_subtasks, NEW.operators))
EXECUTE FUNCTION tidegate.refuse('checkpoints_fixed', 'what a checkpoint was triggered as stays');

CREATE TRIGGER checkpoints_ended AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.status <> 'IN_PROGRESS' AND (OLD.deadline, OLD.num_acknowledged, OLD.num_finished, OLD.acknowledged_at,
    OLD.validated_at, OLD.held_at, OLD.held_until, OLD.held_message, OLD.decision, OLD.decided_at, OLD.decided_by,
    OLD.decision_comment, OLD.completed_at, OLD.metadata_path, OLD.state_size, OLD.checkpointed_size,
    OLD.committed_sinks, OLD.failed_at,
    OLD.failure_reason, OLD.failure_message) IS DISTINCT FROM (NEW.deadline, NEW.num_acknowledged, NEW.num_finished,
    NEW.acknowledged_at, NEW.validated_at, NEW.held_at, NEW.held_until, NEW.held_message, NEW.decision, NEW.decided_at,
    NEW.decided_by, NEW.decision_comment, NEW.completed_at, NEW.metadata_path, NEW.state_size, NEW.checkpointed_size,
    NEW.committed_sinks, NEW.failed_at, NEW.failure_reason, NEW.failure_message))
EXECUTE FUNCTION tidegate.refuse('checkpoints_ended', 'the checkpoint has ended and stays as it is');

CREATE TRIGGER checkpoints_only_forward AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (NEW.num_acknowledged < OLD.num_acknowledged OR NEW.num_finished < OLD.num_finished OR OLD.swept AND NOT NEW.swept
    OR OLD.folded AND NOT NEW.folded OR OLD.notified_at IS NOT NULL AND OLD.notified_at IS DISTINCT FROM
    NEW.notified_at)
EXECUTE FUNCTION tidegate.refuse('checkpoints_only_forward',
    'what was acknowledged, notified, swept and folded stays so');

CREATE TRIGGER checkpoints_exported_once AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.location IS NOT NULL AND (OLD.location) IS DISTINCT FROM (NEW.location) OR OLD.exported_at IS NOT NULL AND
    (OLD.exported_at, OLD.exported_size) IS DISTINCT FROM (NEW.exported_at, NEW.exported_size))
EXECUTE FUNCTION tidegate.refuse('checkpoints_exported_once', 'where a savepoint was written stays so');

CREATE TRIGGER checkpoints_decided_once AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.held_at IS NOT NULL AND (OLD.held_at, OLD.held_until, OLD.held_message) IS DISTINCT FROM (NEW.held_at,
    NEW.held_until, NEW.held_message) OR OLD.decision IS NOT NULL AND (OLD.decision, OLD.decided_at, OLD.decided_by,
    OLD.decision_comment) IS DISTINCT FROM (NEW.decision, NEW.decided_at, NEW.decided_by, NEW.decision_comment))
EXECUTE FUNCTION tidegate.refuse('checkpoints_decided_once', 'why it was held, and what was decided, stays so');

CREATE TRIGGER checkpoints_kept BEFORE DELETE OR TRUNCATE ON tidegate.checkpoints FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('checkpoints_kept', 'checkpoints are not deleted');

CREATE TRIGGER subtasks_acknowledged AFTER UPDATE ON tidegate.subtasks FOR EACH ROW
WHEN (OLD.acknowledged_at IS NOT NULL)
EXECUTE FUNCTION tidegate.refuse('subtasks_acknowledged', 'the first acknowledgement stands');

CREATE TRIGGER subtasks_only_forward AFTER UPDATE ON tidegate.subtasks FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id, OLD.operator_id, OLD.subtask_index) IS DISTINCT FROM (NEW.pipeline_id,
    NEW.checkpoint_id, NEW.operator_id, NEW.subtask_index) OR NEW.attempt < OLD.attempt)
EXECUTE FUNCTION tidegate.refuse('subtasks_only_forward',
    'attempts only grow, or one that is overtaken could count again');

CREATE TRIGGER subtasks_kept BEFORE TRUNCATE ON tidegate.subtasks FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('subtasks_kept', 'subtasks of checkpoints are not deleted');

CREATE TRIGGER subtasks_folded AFTER DELETE ON tidegate.subtasks
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_unfolded();

CREATE TRIGGER subtasks_of_ended_insert AFTER INSERT ON tidegate.subtasks
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended();

CREATE TRIGGER subtasks_of_ended_update AFTER UPDATE ON tidegate.subtasks
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended();

CREATE TRIGGER handles_of_subtask_inserted AFTER INSERT ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask();

CREATE TRIGGER handles_of_subtask_updated AFTER UPDATE ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask();

CREATE TRIGGER handles_unchanged AFTER UPDATE ON tidegate.handles FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('handles_unchanged', 'a reported snapshot stays as it is');

CREATE TRIGGER handles_kept BEFORE TRUNCATE ON tidegate.handles FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('handles_kept', 'handles of checkpoints are not deleted');

CREATE TRIGGER handles_folded AFTER DELETE ON tidegate.handles
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_needed_handles();

CREATE TRIGGER handles_of_ended_insert AFTER INSERT ON tidegate.handles
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended();

CREATE TRIGGER verdicts_unchanged AFTER UPDATE ON tidegate.verdicts FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('verdicts_unchanged', 'a recorded verdict stands');

CREATE TRIGGER verdicts_kept BEFORE TRUNCATE ON tidegate.verdicts FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('verdicts_kept', 'verdicts are not deleted');

CREATE TRIGGER verdicts_of_ended_insert AFTER INSERT ON tidegate.verdicts
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended();

CREATE TRIGGER verdicts_of_ended_delete AFTER DELETE ON tidegate.verdicts
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended();

CREATE TRIGGER figures_unchanged AFTER UPDATE ON tidegate.figures FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('figures_unchanged', 'what a checkpoint has cost stays so');

CREATE TRIGGER figures_kept BEFORE DELETE OR TRUNCATE ON tidegate.figures FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('figures_kept', 'figures of checkpoints are not deleted');

CREATE TRIGGER folded_unchanged AFTER UPDATE ON tidegate.folded_operators FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('folded_unchanged', 'what was folded stays so');

CREATE TRIGGER folded_kept BEFORE DELETE OR TRUNCATE ON tidegate.folded_operators FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('folded_kept', 'what was folded is not deleted');

CREATE TRIGGER folded_operators_of_folded AFTER INSERT ON tidegate.folded_operators
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_operators_of_unfolded();

CREATE TRIGGER folded_totals_grow AFTER UPDATE ON tidegate.folded_totals FOR EACH ROW
WHEN ((OLD.pipeline_id) IS DISTINCT FROM (NEW.pipeline_id) OR NEW.failed < OLD.failed OR NEW.discarded < OLD.discarded
    OR NEW.measured < OLD.measured)
EXECUTE FUNCTION tidegate.refuse('folded_totals_grow', 'what was counted stays counted');

CREATE TRIGGER folded_totals_kept BEFORE DELETE OR TRUNCATE ON tidegate.folded_totals FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('folded_totals_kept', 'what was counted is not deleted');

CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tidegate.audit FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('audit_append_only', 'what was asked and answered stays on record');

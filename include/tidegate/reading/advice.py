"""Advice for each reason that a checkpoint can fail for; the reason's own sentence states the cause.

It holds for every pipeline: no state of a failed checkpoint counts, and none of its rows became visible.
"""

from tidegate.protocol.facts.reasons import FailureReason

UNHARMED = "State, positions and tables are as the last completed checkpoint left them."

ADVICE = {
    FailureReason.PERIODIC_SCHEDULER_SHUTDOWN: (
        "Nothing, if it was stopped on purpose. To continue, resume the pipeline; the next DAG run takes one."
    ),
    FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS: (
        "Nothing; the next checkpoint follows. If this happens often, the schedule is faster than "
        "CheckpointConfig.min_pause allows; lengthen the schedule or shorten the pause."
    ),
    FailureReason.TOO_MANY_CHECKPOINT_REQUESTS: (
        "Wait until the checkpoint that has precedence ends, then request one again. If this happens often, "
        "checkpoints take longer than the schedule allows."
    ),
    FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING: (
        "Check that the pipeline is running, and for a continuous one its region. Start it, then request again."
    ),
    FailureReason.CHECKPOINT_DECLINED: (
        "The message says which subtask declined and why. Fix the cause; the next checkpoint reads the same data again."
    ),
    FailureReason.CHECKPOINT_ASYNC_EXCEPTION: (
        "Read the message and the log of the snapshot. The usual cause is checkpoint storage that is full, unreachable "
        "or not writable. Then run the pipeline again."
    ),
    FailureReason.CHECKPOINT_EXPIRED: (
        "Find the subtask that did not acknowledge among the operators, and read its log. If it was only slow, give it "
        "more time with CheckpointConfig.timeout, more parallelism, or less to read at once."
    ),
    FailureReason.CHECKPOINT_SUBSUMED: "Nothing; the newer checkpoint has its rows and its state too.",
    FailureReason.DECLINED_SUBSUMED: "Nothing; the newer checkpoint has its rows and its state too.",
    FailureReason.DECLINED_ON_CANCELLATION_BARRIER: (
        "Check the operators upstream of the one that declined. The first of them failed or was stopped."
    ),
    FailureReason.DECLINED_INPUT_END_OF_STREAM: (
        "Nothing; an input has just ended. The next checkpoint counts it as finished."
    ),
    FailureReason.ALIGNMENT_LIMIT_EXCEEDED: (
        "One input is much slower than another. Find the slow one by its alignment and start delay; give it more "
        "parallelism, raise the limit, or allow unaligned checkpoints."
    ),
    FailureReason.TASK_FAILURE: (
        "The task's log has the error. Fix the cause, then run the pipeline again: it reads the same data again."
    ),
    FailureReason.VALIDATION_FAILED: (
        "The verdicts below list the rows that failed. Correct the data or the expectation, then run the pipeline "
        "again: the staged rows are deleted and read anew."
    ),
    FailureReason.VALIDATION_REJECTED: (
        "The decision names the person and the reason. Correct the data or the expectation, then run the pipeline "
        "again: the staged rows are deleted and read anew."
    ),
    FailureReason.HOLD_EXPIRED: (
        "No decision was made in time. Run the pipeline again: it reads the same data, and is held again if that still "
        "breaks the rule. Allow more time with hold_for."
    ),
    FailureReason.FINALIZE_CHECKPOINT_FAILURE: (
        "The message names the file or row that was missing or not writable. Check that checkpoint storage and the "
        "database are available, then run the pipeline again."
    ),
    FailureReason.COORDINATOR_SUSPEND: (
        "Nothing, if it was stopped on purpose: the next checkpoint takes the same data. If the pipeline was suspended "
        "or stopped, resume it to continue."
    ),
    FailureReason.COORDINATOR_SHUTDOWN: (
        "Nothing, if it was cancelled on purpose. A cancelled pipeline continues only from a restored checkpoint."
    ),
    FailureReason.JOB_FAILOVER_REGION: (
        "Nothing; the region continues from the latest completed checkpoint. If it fails repeatedly, its log has the "
        "cause."
    ),
}

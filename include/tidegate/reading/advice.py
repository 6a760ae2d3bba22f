"""What to do about a failed checkpoint, a sentence or two for each reason; a reason's own sentence says what happened.

All of them hold for every pipeline: nothing of a failed checkpoint counts, and nothing of it became visible.
"""

from tidegate.protocol.facts.reasons import FailureReason

UNHARMED = "State, positions and tables are as the last completed checkpoint left them."

ADVICE = {
    FailureReason.PERIODIC_SCHEDULER_SHUTDOWN: (
        "Nothing, if it was stopped on purpose. To go on, resume the pipeline; the next DAG run takes one."
    ),
    FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS: (
        "Nothing: the next one comes. If this happens often, the schedule is faster than CheckpointConfig.min_pause "
        "allows; lengthen the one or shorten the other."
    ),
    FailureReason.TOO_MANY_CHECKPOINT_REQUESTS: (
        "Wait for the one that has precedence, then ask again. If it happens often, checkpoints take longer than the "
        "schedule leaves them."
    ),
    FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING: (
        "Look whether the pipeline runs, and a continuous one whether its region does; start it, then ask again."
    ),
    FailureReason.CHECKPOINT_DECLINED: (
        "The message says which subtask declined and why. Remove the cause; the next checkpoint reads the same data "
        "again."
    ),
    FailureReason.CHECKPOINT_ASYNC_EXCEPTION: (
        "Look at the message and at the log of the snapshot: mostly checkpoint storage is full, unreachable or not "
        "writable. Then run the pipeline again."
    ),
    FailureReason.CHECKPOINT_EXPIRED: (
        "Look at the operators for the subtask that did not acknowledge, and at its log. If it was only slow, give it "
        "more time with CheckpointConfig.timeout, more parallelism, or less to read at once."
    ),
    FailureReason.CHECKPOINT_SUBSUMED: "Nothing: the newer checkpoint has its rows and its state too.",
    FailureReason.DECLINED_SUBSUMED: "Nothing: the newer checkpoint has what this one would have had.",
    FailureReason.DECLINED_ON_CANCELLATION_BARRIER: (
        "Look at the operators upstream of the one that declined: the first of them failed or was stopped."
    ),
    FailureReason.DECLINED_INPUT_END_OF_STREAM: (
        "Nothing: an input has just ended. The next checkpoint counts it as finished."
    ),
    FailureReason.ALIGNMENT_LIMIT_EXCEEDED: (
        "One input is much slower than another. Find the slow one by its alignment and start delay; give it more "
        "parallelism, raise the limit, or allow unaligned checkpoints."
    ),
    FailureReason.TASK_FAILURE: (
        "The task's log has the error. Remove the cause, then run the pipeline again: it reads the same data again."
    ),
    FailureReason.VALIDATION_FAILED: (
        "Look at the verdicts below for the rows that failed. Correct the data or the expectation, then run the "
        "pipeline again: what was staged is deleted and read anew."
    ),
    FailureReason.VALIDATION_REJECTED: (
        "The decision says who rejected it, and why. Correct the data or the expectation, then run the pipeline again: "
        "what was staged is deleted and read anew."
    ),
    FailureReason.HOLD_EXPIRED: (
        "Nobody decided in time. Run the pipeline again: it reads the same data, and is held again if that still "
        "breaks the rule. Give people more time with hold_for."
    ),
    FailureReason.FINALIZE_CHECKPOINT_FAILURE: (
        "The message says what was missing or could not be written. See that checkpoint storage and the database are "
        "well, then run the pipeline again."
    ),
    FailureReason.COORDINATOR_SUSPEND: (
        "Nothing, if it was meant: the next checkpoint takes the same data. If the pipeline was suspended or stopped, "
        "resume it to go on."
    ),
    FailureReason.COORDINATOR_SHUTDOWN: (
        "Nothing, if it was meant. A cancelled pipeline goes on only with a restore to a checkpoint that was kept."
    ),
    FailureReason.JOB_FAILOVER_REGION: (
        "Nothing: the region goes on from the latest completed checkpoint. If it fails again and again, its log says "
        "why."
    ),
}

"""Views for SQL readers: the checkpoint that each sink shows, and those that it has shown.

Readers of the views need no rights on the tables below. A sink's operator id is its name and `-sink`
(`protocol.facts.names`).
"""

#: A row for each sink and each checkpoint that has completed with it. `shown_at` is null until the sink was notified.
#: `left_behind_by` is the restore that has abandoned the checkpoint.
HISTORY = """\
CREATE VIEW tidegate.tidegate_history AS
    SELECT c.pipeline_id AS pipeline, left(o.operator_id, -5) AS sink, c.checkpoint_id, c.completed_at,
        CASE WHEN c.committed_sinks ? o.operator_id THEN c.completed_at ELSE c.notified_at END AS shown_at,
        c.committed_sinks ? o.operator_id AS in_the_commit, c.abandoned_by AS left_behind_by
    FROM tidegate.checkpoints c CROSS JOIN LATERAL jsonb_to_recordset(c.operators) AS o (operator_id text)
    WHERE c.completed_at IS NOT NULL AND right(o.operator_id, 5) = '-sink'"""

#: A row for each sink, with the newest checkpoint that it shows. `in_doubt`: the sink may show another one, because it
#: was not notified of a later one yet, or has not followed a restore yet.
CURRENT = """\
CREATE VIEW tidegate.tidegate_current AS
    SELECT e.pipeline_id AS pipeline, e.name AS sink, e.type, e.place, c.checkpoint_id, c.completed_at, c.shown_at,
        EXISTS (SELECT FROM tidegate.checkpoints d
            WHERE d.pipeline_id = e.pipeline_id AND d.completed_at IS NOT NULL AND d.notified_at IS NULL
                AND d.abandoned_by IS NULL AND NOT d.committed_sinks ? (e.name || '-sink'))
        OR NOT c.in_the_commit AND EXISTS (
            SELECT FROM tidegate.pipelines p JOIN tidegate.restores r
                ON r.pipeline_id = p.pipeline_id AND r.number = p.last_restore
            WHERE p.pipeline_id = e.pipeline_id AND r.rewound_at IS NULL) AS in_doubt
    FROM tidegate.endpoints e CROSS JOIN LATERAL (
        SELECT k.checkpoint_id, k.completed_at, k.committed_sinks ? (e.name || '-sink') AS in_the_commit,
            CASE WHEN k.committed_sinks ? (e.name || '-sink') THEN k.completed_at ELSE k.notified_at END AS shown_at
        FROM tidegate.checkpoints k
        WHERE k.pipeline_id = e.pipeline_id AND k.completed_at IS NOT NULL AND k.abandoned_by IS NULL
            AND (k.notified_at IS NOT NULL OR k.committed_sinks ? (e.name || '-sink'))
            AND k.operators @> jsonb_build_array(jsonb_build_object('operator_id', e.name || '-sink'))
        ORDER BY k.checkpoint_id DESC LIMIT 1) c
    WHERE e.role = 'SINK'"""

"""The steps of a DAG run, one after the other, and a judge where Great Expectations would be asked."""

from tidegate.protocol.names import Target
from tidegate.protocol.records import Verdict


def judge(monkeypatch, verdict):
    class Judge:
        asked = 0

        def validate(self, checkpoint, subtasks):
            Judge.asked += 1
            return [Verdict(Target.parse("sink:out"), "s", verdict, 1, 0 if verdict else 1)]

    monkeypatch.setattr("tidegate.assembly.open_validator", lambda region: Judge())
    return Judge


def complete(dag, run, run_id="r1", **arguments):
    for name in ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(dag.get_task(name), run_id, **arguments)
        assert ran.state == "success", (name, ran.error)
    return ran

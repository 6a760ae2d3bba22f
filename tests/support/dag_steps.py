"""The steps of a DAG run, one after the other, and a judge where Great Expectations would be asked."""

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import Verdict


def judge(monkeypatch, verdict, results=()):
    class Judge:
        asked = 0

        def validate(self, checkpoint, subtasks, settled=()):
            Judge.asked += 1
            target = Target.parse("sink:out")
            return [Verdict(target, "s", verdict, 1, 0 if verdict else 1, results, docs_path="p/chk-1.html")]

    monkeypatch.setattr("tidegate.assembly.open_validator", lambda *_: Judge())
    return Judge


def complete(dag, run, run_id="r1", **arguments):
    for name in ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(dag.get_task(name), run_id, **arguments)
        assert ran.state == "success", (name, ran.error)
    return ran

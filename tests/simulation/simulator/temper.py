"""What kind of trouble a seed brings: each kind is absent in about half of all runs,
so that others are met in peace."""

from dataclasses import dataclass, fields, replace
from random import Random

#: The most that is drawn for each; probabilities are per effect unless the name says otherwise.
WORST = {
    "crash": 0.03,
    "stall": 0.06,  # it stops for a long time and then goes on as if nothing had happened
    "store_unavailable": 0.02,
    "commit_unknown": 0.1,  # per transaction that changes something
    "storage_error": 0.03,
    "sink_error": 0.2,  # per commit of a sink
    "impatience": 0.2,  # per look at a running task: it is taken for dead and lives on
    "lost_report": 0.2,  # per report of a region
    "repeated_report": 0.3,  # the same
    "late_report": 0.3,  # the same
    "lost_write": 0.2,  # per staged file: the disk says that it is there in full, and it is not
    "decline": 0.3,  # per attempt
    "rejection": 0.4,  # per judgement
    "skew": 0.5,  # per process: its machine's clock is wrong by some seconds
    "leap": 0.02,  # per step: minutes pass at once
    "meddling": 0.1,  # per event: somebody looks, aborts or cleans by hand
    "rescale": 0.2,  # the same: the pipeline is deployed with another parallelism
    "restore": 0.1,  # the same: somebody takes the pipeline back to an earlier checkpoint, or undoes that
    "hang": 0.1,  # per step of a sink on its file system: it stops there, and goes on when others have overtaken it
    "clearing": 0.5,  # per DAG run that ended: it is cleared and runs again
}
#: Likewise what came later. It is drawn apart, and seldom, so that a seed without it stays the run that it was.
LATER = {
    "saving": 0.15,  # per event: somebody exports a savepoint, copies one, disposes of one, or restores from one
    "cleaning": 0.1,  # the same: somebody runs `tidegate clean`, and who is abandoned may come back after hours
    "changes": 0.05,  # the same: somebody changes the code, and asks for a plan first
}
#: And what came last, for the same reason. It is never drawn very small: a fork has a life of its own.
LAST = {
    "forking": 0.2,  # the same: somebody forks the pipeline, or does something with what was forked
}


@dataclass(frozen=True, slots=True)
class Temper:
    """Probabilities of everything that can go wrong, and how long a process keeps its turn."""

    crash: float = 0.0
    stall: float = 0.0
    store_unavailable: float = 0.0
    commit_unknown: float = 0.0
    storage_error: float = 0.0
    sink_error: float = 0.0
    impatience: float = 0.0
    lost_report: float = 0.0
    repeated_report: float = 0.0
    late_report: float = 0.0
    lost_write: float = 0.0
    decline: float = 0.0
    rejection: float = 0.0
    skew: float = 0.0
    leap: float = 0.0
    meddling: float = 0.0
    rescale: float = 0.0
    restore: float = 0.0
    hang: float = 0.0
    clearing: float = 0.0
    saving: float = 0.0
    cleaning: float = 0.0
    changes: float = 0.0
    forking: float = 0.0
    stickiness: float = 0.5  # probability that whoever has the turn keeps it

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {value:.2g}" for f in fields(self) if (value := getattr(self, f.name)))


CALM = Temper()


def draw_temper(random: Random, aside: Random, last: Random) -> Temper:
    drawn = {kind: random.uniform(0, worst) for kind, worst in WORST.items() if random.random() < 0.5}
    drawn |= {kind: aside.uniform(0, worst) for kind, worst in LATER.items() if aside.random() < 0.3}
    drawn |= {kind: last.uniform(worst / 4, worst) for kind, worst in LAST.items() if last.random() < 0.2}
    return replace(CALM, stickiness=random.choice([0.0, 0.5, 0.8, 0.95]), **drawn)

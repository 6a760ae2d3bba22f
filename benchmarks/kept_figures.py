"""What a bench measured before, as JSON in the repository, and what has become slower since.

Repetitions say how much a figure varies by itself. It has become slower if the middle half of its repetitions lies
above the middle half of those before; of fewer than five, all of them count. Fewer than three say nothing.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from machine_load import sentence

FIGURES = Path(__file__).parent / "figures"
#: Of each thing that is measured, by whom, and of what kind (seconds, processors, …), all repetitions. Less is better.
Series = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
#: Figures of machines that differ in these are not compared.
_MACHINE = ("cores", "processor", "memory")


@dataclass(frozen=True, slots=True)
class Slower:
    """A figure that has become slower by more than its repetitions vary."""

    what: str
    side: str
    kind: str
    before: Sequence[float]
    now: Sequence[float]

    def __str__(self) -> str:
        factor = median(self.now) / median(self.before)
        (low, high), (was_low, was_high) = middle(self.now), middle(self.before)
        return (
            f"{self.what}, {self.side}, {self.kind}: {factor:.2f} times as much, {median(self.now):.3g} "
            f"({low:.3g}–{high:.3g}) instead of {median(self.before):.3g} ({was_low:.3g}–{was_high:.3g})"
        )


def middle(values: Sequence[float]) -> tuple[float, float]:
    """Between which two values the middle half lies; of fewer than five, the smallest and the largest."""
    if len(values) < 5:
        return min(values), max(values)
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def slower(before: Series, now: Series) -> list[Slower]:
    """What both have, and has become slower."""
    return [
        Slower(what, side, kind, was, values)
        for what, side, kind, was, values in _common(before, now)
        if min(len(was), len(values)) >= 3 and middle(values)[0] > middle(was)[1]
    ]


def _common(before: Series, now: Series) -> Iterator[tuple[str, str, str, Sequence[float], Sequence[float]]]:
    for what, sides in now.items():
        for side, kinds in sides.items():
            for kind, values in kinds.items():
                if (was := before.get(what, {}).get(side, {}).get(kind)) is not None:
                    yield what, side, kind, was, values


def document(machine: Mapping[str, str], load: Mapping[str, float], policy: str, series: Series) -> dict[str, Any]:
    """`policy` says how it was measured: what was measured otherwise is not compared."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "commit": _commit(),
        "date": now,
        "machine": dict(machine),
        "load": dict(load),
        "policy": policy,
        "series": {what: {side: _rounded(kinds) for side, kinds in sides.items()} for what, sides in series.items()},
    }


def _rounded(kinds: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """A tenth of a millisecond is enough."""
    return {kind: [round(value, 4) for value in values] for kind, values in kinds.items()}


def compared(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """In words: what has become slower, or why nothing was compared."""
    if before is None:
        return ["No figures of before are kept. ARGS=--keep keeps these."]
    if other := [name for name in _MACHINE if before["machine"].get(name) != now["machine"].get(name)]:
        return [f"The figures that are kept are of another machine ({', '.join(other)}), and are not compared."]
    if before["policy"] != now["policy"]:
        return [f"The figures that are kept were measured otherwise ({before['policy']}), and are not compared."]
    when = f"commit {before['commit']} of {before['date'][:10]}, {sentence(before['load'])}"
    found = slower(before["series"], now["series"])
    if not found:
        return [f"Nothing has become slower by more than its repetitions vary since {when}."]
    return [f"Slower by more than its repetitions vary since {when}:", *(f"  {each}" for each in found)]


def read(name: str) -> dict[str, Any] | None:
    """What is kept of a bench; None if there is nothing."""
    path = FIGURES / f"{name}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def compare_and_keep(name: str, now: dict[str, Any], keep: bool) -> list[str]:
    """What is to be said about these figures, which are the ones of before from now on if they are to be kept."""
    said = [sentence(now["load"]), *compared(read(name), now)]
    if keep:
        FIGURES.mkdir(exist_ok=True)
        path = FIGURES / f"{name}.json"
        path.write_text(_text(now))
        said.append(f"Kept in {path}.")
    return said


def _text(document: Mapping[str, Any]) -> str:
    """JSON with a line for each thing that was measured, so that a change of it is one in git, too."""
    lines = [f"  {json.dumps(what)}: {json.dumps(sides)}" for what, sides in document["series"].items()]
    head = json.dumps({**document, "series": {}}, indent=1).removesuffix("{}\n}")
    return head + "{\n" + ",\n".join(lines) + "\n }\n}\n"


def _commit() -> str:
    """With a plus sign where files have been changed since."""

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", *arguments], cwd=FIGURES.parent, capture_output=True, text=True, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""

    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{commit}+" if git("status", "--porcelain", "--untracked-files=no", ":/include") else commit

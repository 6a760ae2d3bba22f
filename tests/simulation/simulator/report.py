"""What a person is shown of a run that went wrong: what, in which world, who did what before,
and how to see it again."""

from typing import Protocol


class Simulation(Protocol):
    seed: int

    def describe(self) -> list[str]:
        """The world, and the last of what happened in it."""
        ...


def failure(simulation: Simulation, error: BaseException) -> str:
    """A page about one failed seed."""
    headline = f"Seed {simulation.seed}: {type(error).__name__}: {error}"
    replay = f"Replay it with: make simulate SEED={simulation.seed}"
    return "\n".join([headline, "", *simulation.describe(), "", replay])

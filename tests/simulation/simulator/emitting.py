"""Which simulated pipelines have operators that emit."""

from random import Random

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the pipelines that they always drew.
_SALT = 36424


def emitting(seed: int) -> Random:
    """Draws of its own, so that the rest stays as it was drawn."""
    return Random(f"emitting {_SALT} {seed}")

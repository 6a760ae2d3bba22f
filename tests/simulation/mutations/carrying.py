"""Planted mistakes in which verdicts carry over."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.coordination.steps import validate as validations
from tidegate.protocol.steps import carried_verdicts


@mutation("a verdict carries over although the files have changed", (carried_verdicts, "basis_of"))
def _(original):
    return lambda judged, subtasks: original(judged, subtasks) and judged.definition


@mutation("a verdict carries over while there are as many files as before", (carried_verdicts, "basis_of"))
def _(original):
    def basis(judged, subtasks):
        return original(judged, subtasks) and f"{judged.definition} {len(carried_verdicts.files_of(judged, subtasks))}"

    return basis


@mutation("a verdict that carries over names the checkpoint before, which was not judged", (validations, "carry_over"))
def _(original):
    def carry_over(targets, subtasks, before, before_id):
        return [replace(each, carried_from=before_id) for each in original(targets, subtasks, before, before_id)]

    return carry_over

"""What a user's function returns where a DataFrame is expected, and what it raises."""

from tidegate.protocol.facts.errors import PipelineDefinitionError

#: What pyspark raises for a function that it cannot send to workers.
UNSENDABLE = "PicklingError"
#: Other libraries' frames and tables, which are called as Spark's are.
_LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb")


def require_frame(who: str, value: object) -> None:
    """Raise `PipelineDefinitionError`, which says `who` returned what, unless the value is a Spark DataFrame."""
    if not is_frame(value):
        raise PipelineDefinitionError(f"{who} returned {kind_of(value)} instead of a Spark DataFrame.{_way_out(value)}")


def raised(error: Exception) -> str:
    """An error of a user's function, for a message."""
    said = f"{type(error).__name__}: {error}"
    if type(error).__name__ == UNSENDABLE:
        said += (
            ". Spark sends a function to its workers with all that it refers to, and this cannot be sent. Open "
            "connections, sessions, locks and files inside the function, and take no DataFrame into it"
        )
    return said


def is_frame(value: object) -> bool:
    """Whether it is a DataFrame of Spark, classic or Connect."""
    return hasattr(value, "mapInArrow")


def kind_of(value: object) -> str:
    """A value's type, for a message."""
    name, library = type(value).__name__, type(value).__module__.partition(".")[0]
    if value is None:
        return "nothing"
    if library in _LIBRARIES:
        return f"a {library} {name}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _way_out(value: object) -> str:
    if value is None:
        return " Is a return missing?"
    if type(value).__module__.startswith("pandas"):
        return " Leave out toPandas(), or work on pandas inside mapInPandas or applyInPandas."
    return ""

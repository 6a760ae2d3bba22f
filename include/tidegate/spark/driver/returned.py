"""Checks of the values that a user's function returns instead of a DataFrame, and of the errors that it raises."""

from tidegate.protocol.facts.errors import PipelineDefinitionError

#: The error of pyspark for a function that it cannot send to workers.
UNSENDABLE = "PicklingError"
#: Other libraries whose frames and tables have the same names as Spark's.
_LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb")


def require_frame(who: str, value: object) -> None:
    """Raise `PipelineDefinitionError` unless the value is a Spark DataFrame. `who` names the function."""
    if not is_frame(value):
        raise PipelineDefinitionError(f"{who} returned {kind_of(value)} instead of a Spark DataFrame.{_way_out(value)}")


def raised(error: Exception) -> str:
    """Describe an error of a user's function, for a message."""
    text = f"{type(error).__name__}: {error}"
    if type(error).__name__ == UNSENDABLE:
        text += (
            ". Spark sends a function to its workers with all that it refers to, and this cannot be sent. Open "
            "connections, sessions, locks and files inside the function, and take no DataFrame into it"
        )
    return text


def is_frame(value: object) -> bool:
    """Return whether the value is a DataFrame of Spark, classic or Connect."""
    return hasattr(value, "mapInArrow")


def kind_of(value: object) -> str:
    """Describe a value's type, for a message."""
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

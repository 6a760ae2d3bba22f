"""Shortcuts: uses of private names of a library, each with a public alternative.

Each is declared next to its use, with the names that it needs. If the installed release lacks one of them, the public
alternative is used, and a warning is logged once. `TIDEGATE_SHORTCUTS` switches shortcuts off. A contract test checks
the names of each against the installed releases.
"""

import logging
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pkgutil import resolve_name

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import SHORTCUTS, Settings

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A shortcut. `word` is its name in `TIDEGATE_SHORTCUTS`. `names` are those of `library`, in the form of
    `pkgutil.resolve_name`; `module:Class().name` is an attribute that the constructor of the class sets. `instead`
    describes the alternative, as a clause."""

    word: str
    library: str
    names: tuple[str, ...]
    instead: str

    def is_taken(self) -> bool:
        """Whether the shortcut is used. Raises `ConfigurationError` if the setting names an unknown shortcut."""
        return self.word in _wanted() and not missing_names(self)


@lru_cache(maxsize=64)
def missing_names(shortcut: Shortcut) -> tuple[str, ...]:
    """Find the names that the installed release of the library lacks, and log them once."""
    missing = tuple(name for name in shortcut.names if not _is_there(name))
    if missing:
        installed = f"{shortcut.library} {version(shortcut.library)}"
        log.warning("%s has no %s any more, so %s.", installed, ", ".join(missing), shortcut.instead)
    return missing


def _wanted() -> frozenset[str]:
    wanted = Settings.from_environment().shortcuts
    if unknown := wanted - SHORTCUTS:
        raise ConfigurationError(
            f"TIDEGATE_SHORTCUTS names {', '.join(sorted(unknown))}, which is no shortcut. Name some of "
            f"{', '.join(sorted(SHORTCUTS))}, separated by commas, or none."
        )
    return wanted


def _is_there(name: str) -> bool:
    owner, _, attribute = name.partition("().")
    try:
        resolved = resolve_name(owner)
    except (ImportError, AttributeError):
        return False
    return not attribute or attribute in resolved.__init__.__code__.co_names

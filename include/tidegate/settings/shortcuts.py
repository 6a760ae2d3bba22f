"""Shortcuts: what rests on names that a library does not promise to keep, and has a public way beside it.

Each is declared where it is taken, with the names that it rests on. If the installed release lacks one of them, the
public way is taken, and the log says so once. `TIDEGATE_SHORTCUTS` takes the public way by hand. A contract test holds
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
    """`word` stands for it in `TIDEGATE_SHORTCUTS`. `names` are those of `library`, as `pkgutil.resolve_name` takes
    them; `module:Class().name` is an attribute that the class sets when it is made. `instead`: what happens otherwise,
    as a clause."""

    word: str
    library: str
    names: tuple[str, ...]
    instead: str

    def is_taken(self) -> bool:
        """Raises `ConfigurationError` if the setting names a shortcut that there is not."""
        return self.word in _wanted() and not missing_names(self)


@lru_cache(maxsize=64)
def missing_names(shortcut: Shortcut) -> tuple[str, ...]:
    """Those that the installed release of the library lacks. The log has a line of them, once."""
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
        found = resolve_name(owner)
    except (ImportError, AttributeError):
        return False
    return not attribute or attribute in found.__init__.__code__.co_names

"""What makes a directory trustworthy, tried with a second account where the tests run as root."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.state import private_directories
from tidegate.state.private_directories import private_directory, require_private, user_directory

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second account")


def as_somebody_else(*command: str) -> None:
    subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], check=True)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory as the system's temporary one: everybody writes, nobody replaces what others have made."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    for above in directory.parents:  # pytest's are closed, and the second account has to come by
        if above.stat().st_uid == os.geteuid() and above.is_relative_to(tmp_path.parents[2]):
            above.chmod(above.stat().st_mode | 0o111)
    return directory


@pytest.fixture
def machine(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose user has no cache yet."""
    monkeypatch.setattr(private_directories.tempfile, "gettempdir", lambda: str(shared))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(shared.parent / "home"))
    private_directories._user_directory.cache_clear()
    yield shared
    private_directories._user_directory.cache_clear()


def test_it_is_made_private_with_everything_on_the_way(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "a" / "b")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (made, made.parent)] == [0o700, 0o700]
    assert private_directory(made) == made


def test_one_that_others_can_only_look_into_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    private_directory(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o722, 0o1777])
def test_one_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(mode)
    with pytest.raises(
        ConfigurationError, match=r"a is not private: others can write to it \(mode .*Set TIDEGATE_CACHE"
    ):
        private_directory(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_one_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    private_directory(tmp_path / "open" / "a")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"others can write to .*open \(mode 777\) and so replace it"):
        require_private(tmp_path / "open" / "a")
    (tmp_path / "open").chmod(0o1777)  # as the system's temporary directory: only owners replace
    require_private(tmp_path / "open" / "a")


def test_links_of_ones_own_are_followed_and_each_step_is_looked_at(tmp_path: Path) -> None:
    private_directory(tmp_path / "there" / "a")
    (tmp_path / "link").symlink_to("there/../there")
    assert private_directory(tmp_path / "link" / "a").is_dir()
    (tmp_path / "there").chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"others can write to .*there"):
        private_directory(tmp_path / "link" / "a")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="Too many levels"):
        private_directory(tmp_path / "circle")


def test_a_file_is_no_directory_and_what_is_missing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        private_directory(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        require_private(tmp_path / "nothing")


@needs_root
def test_what_another_account_made_first_is_refused(shared: Path) -> None:
    as_somebody_else("mkdir", "-m", "700", str(shared / "a"))
    for path in (shared / "a", shared / "a" / "below"):
        with pytest.raises(ConfigurationError, match=f"belongs to the user with the number {NOBODY}"):
            private_directory(path)


@needs_root
def test_a_link_of_another_account_is_refused_wherever_it_leads(shared: Path) -> None:
    own = private_directory(shared.parent / "own")
    as_somebody_else("ln", "-s", str(own), str(shared / "link"))
    for path in (shared / "link", shared / "link" / "below"):
        with pytest.raises(ConfigurationError, match=f"link belongs to the user with the number {NOBODY}"):
            private_directory(path)


def test_the_users_own_is_below_the_cache_home(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_directory() == machine.parent / "home" / ".cache" / "tidegate"
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.parent / "xdg"))
    assert user_directory() == machine.parent / "xdg" / "tidegate"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/means/nothing")
    assert user_directory() == machine.parent / "home" / ".cache" / "tidegate"


@pytest.mark.parametrize("home", ["/proc/no/such/home", "", "~"])
def test_without_a_home_it_is_a_temporary_one_that_is_found_again(machine, monkeypatch, home: str) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/such/cache")
    found = user_directory()
    assert found.parent == machine
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    private_directories._user_directory.cache_clear()  # another process
    assert user_directory() == found


@needs_root
def test_temporary_ones_that_another_account_made_are_passed_over(machine: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/such/cache")
    planted = [machine / f"tidegate-cache-0-{name}" for name in ("0", "zzzzzzzzz")]
    as_somebody_else("mkdir", *map(str, planted))
    found = user_directory()
    assert found.parent == machine
    assert found not in planted
    assert found.stat().st_uid == 0

"""Runs a document as its reader would, from the first block to the last: `run_document.py FILE`,
in the reader's directory.

`python` blocks run one after the other in one namespace, and `save(FILE)`, from a block that is not shown, writes those
so far as a module. `console` blocks are typed into one shell: what a command prints must be what stands below it, where
`…` stands for anything. `sh` blocks are targets of make, which are looked up and not run: they run this. `bash`
blocks are run on a clean machine, by tests/acceptance/test_install.py.
"""

import doctest
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from sybil import Document, Example
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

LANGUAGES = ("python", "console", "sh", "bash", "text", "mermaid")
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_END = "--end-of-command--"


class Shell:
    """A shell that commands are typed into, so that directory, variables and jobs last from one to the next."""

    def __init__(self) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip

    def type(self, command: str) -> tuple[int, str]:
        """The exit code and all that was printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{_END} %s\\n' $?\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_END):
                return int(line.split()[1]), "".join(printed)
            printed.append(line)
        raise EOFError(f"The shell ended at: {command}")

    def close(self) -> None:
        """With whatever still runs in it."""
        assert self._bash.stdin is not None
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.stdin.close()
        self._bash.wait()


class Reader:
    """One document's evaluators, and what its blocks leave for the next."""

    def __init__(self, clone: Path) -> None:
        self._clone = clone
        self._shell = Shell()
        self._python = PythonEvaluator()
        self._sources: list[str] = []

    def run(self, path: str) -> int:
        """Evaluate every block and return their number. Raises what a block raises."""
        evaluators = {"python": self._python_block, "console": self._console, "sh": self._make}
        document = Document.parse(path, *(CodeBlockParser(name, each) for name, each in evaluators.items()))
        document.namespace.update(save=self._save, __name__="document")
        examples = list(document.examples())
        try:
            for example in examples:
                print(f"{Path(path).name}:{example.line}", flush=True)
                example.evaluate()
        finally:
            self._shell.close()
        return len(examples)

    def _python_block(self, example: Example) -> None:
        self._python(example)
        if "save(" not in example.parsed:
            self._sources.append(example.parsed)

    def _save(self, name: str) -> None:
        Path(name).write_text("\n".join(self._sources))

    def _console(self, example: Example) -> str | None:
        for command, expected in commands(example.parsed):
            code, printed = self._shell.type(command)
            if code != 0:
                return f"$ {command}\nended with {code}:\n{printed}"
            if not _same(expected, printed):
                return f"$ {command}\nprinted:\n{printed}\nwhere the document says:\n{expected}"
        return None

    def _make(self, example: Example) -> str | None:
        for line in example.parsed.splitlines():
            target = line.partition("#")[0].split()
            if target[:1] != ["make"]:
                return f"{line!r} is not a target of make; what is to be run belongs into a console block."
            known = subprocess.run([*target, "--dry-run"], cwd=self._clone, capture_output=True, text=True)
            if known.returncode != 0:
                return known.stderr
        return None


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it prints. A line that ends in a backslash goes on."""
    found: list[tuple[str, str]] = []
    for command, printed in re.findall(r"^\$ ((?:.*\\\n)*.*)\n?((?:(?!\$ ).*\n?)*)", block, re.MULTILINE):
        found.append((command, printed))
    return found


def _same(expected: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(expected.replace("…", "..."), printed, _SAME)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(-number))  # the shell is closed all the same
    print(f"{Reader(Path.cwd()).run(sys.argv[1])} blocks")

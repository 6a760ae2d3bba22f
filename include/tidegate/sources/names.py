"""Names that are never data: files that their writer has not finished, and files about other files.

One table, with the programs that write such names. file-source.md shows it. Programs that write under the final name
(`cp`, `scp`, `curl`, `wget`, most FTP and SFTP servers) are not in it: `FileSource.min_age` is for them.
"""

from typing import NamedTuple


class Names(NamedTuple):
    """Patterns with one star, in lower case, and the programs that write files of such names."""

    patterns: tuple[str, ...]
    written_by: str


NEVER_DATA = (
    Names(
        (".*", "_*"),
        "Spark, Hive and Hadoop (`_temporary`, `_SUCCESS`, `.name.crc`), Flink (`.part-0-0.inprogress.…`), rsync "
        "(`.name.XXXXXX`), ProFTPD, Pure-FTPd, lftp, azcopy, Syncthing, NFS, macOS, vim",
    ),
    Names(("*.tmp", "*.temp"), "many programs, such as MFT servers, Syncthing, Microsoft Office"),
    Names(("*.part", "*.partial"), "Firefox, KDE, Nextcloud, lftp, rclone, Internet Explorer"),
    Names(("*.filepart",), "WinSCP"),
    Names(("*.crdownload", "*.download", "*.opdownload"), "Chrome and Edge, Safari, Opera"),
    Names(("*.aria2", "*_.gstmp"), "aria2, gsutil"),
    Names(("*.inprogress", "*.in-progress", "*._copying_"), "Flink, `hdfs dfs -put`"),
    Names(("*.swp", "*.swo", "*.swx", "*~", "#*#", "~$*"), "vim, Emacs, nano, gedit, Microsoft Office"),
    Names(("*.lock", "*.lck"), "many programs"),
    Names(
        ("*.crc", "*.md5", "*.sha1", "*.sha256", "*.sha512", "*.md5sum", "*.sha256sum", "*.asc", "*.sig"),
        "checksums and signatures of files: Hadoop, `md5sum`, `sha256sum`, `gpg`",
    ),
    Names(("*.done", "*.ok", "*.ready", "*.complete", "*.finished"), "markers that say that another file is complete"),
    Names(("thumbs.db", "desktop.ini"), "Windows"),
)

_ALL = tuple(pattern for names in NEVER_DATA for pattern in names.patterns)
_BEGINNINGS = tuple(pattern[:-1] for pattern in _ALL if pattern.endswith("*"))
_ENDINGS = tuple(pattern[1:] for pattern in _ALL if pattern.startswith("*"))
_WHOLE = {pattern for pattern in _ALL if "*" not in pattern}
_AROUND = tuple(pattern.split("*") for pattern in _ALL if "*" in pattern[1:-1])
_HIDDEN = NEVER_DATA[0].patterns[0][:-1], NEVER_DATA[0].patterns[1][:-1]


def is_hidden(path: str) -> bool:
    """Whether a name on this relative path is that of a hidden file or directory."""
    return any(part.startswith(_HIDDEN) for part in path.split("/"))


def is_finished(path: str) -> bool:
    """Whether the file's name is one of complete data, and no directory on its relative path is hidden."""
    name = path.rpartition("/")[2].lower()
    if name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS) or name in _WHOLE:
        return False
    if any(name.startswith(begin) and name.endswith(end) for begin, end in _AROUND):
        return False
    return not is_hidden(path)

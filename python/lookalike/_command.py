"""The command `lookalike` for Python: where it is, and a run of its deduplication of files."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

_Path = str | PathLike[str]
_VARIABLE = "LOOKALIKE_BINARY"


class CommandNotFound(FileNotFoundError):
    """The command `lookalike` is not installed: `pip install 'lookalike[server]'` brings it."""


class CommandFailed(RuntimeError):
    """The command ended with an error, which the message has. `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return CommandFailed, (str(self), self.code)


@dataclass(frozen=True)
class FilesDeduplicated:
    """The counts of a run of `dedupe_files`.

    >>> import lookalike as la
    >>> la.FilesDeduplicated(read=9, kept=6, exact=1, near=2, invalid=0, summary="").dropped
    3
    """

    read: int
    """The documents that were read."""
    kept: int
    """Those that are in the output."""
    exact: int
    """Those that were dropped, whose text is that of a kept one."""
    near: int
    """Those that were dropped, and are near a kept one."""
    invalid: int
    """The records that could not be read, with `skip_invalid=True`."""
    summary: str
    """What the command prints: the counts, what was not read and why, and the largest groups."""

    @property
    def dropped(self) -> int:
        """All dropped documents."""
        return self.exact + self.near


def find_command() -> str:
    """The path of the command: LOOKALIKE_BINARY, or beside this Python, in its scripts, or on the PATH.

    Raises CommandNotFound, which names the remedy.
    """
    given = os.environ.get(_VARIABLE)
    if given:
        if not os.access(given, os.X_OK) or os.path.isdir(given):
            raise CommandNotFound(f"{_VARIABLE} names {given}, which is no program")
        return given
    name = "lookalike.exe" if os.name == "nt" else "lookalike"
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), user]
    found = shutil.which(name, path=os.pathsep.join(folders)) or shutil.which(name)
    if found is None:
        raise CommandNotFound(
            "the command lookalike is not installed: pip install 'lookalike[server]', or set "
            f"{_VARIABLE} to its path"
        )
    return found


def environment() -> dict[str, str]:
    """The variables for the command, which refuses those of its name that it does not know."""
    return {name: value for name, value in os.environ.items() if name != _VARIABLE}


def dedupe_files(
    inputs: _Path | Iterable[_Path],
    output: _Path,
    *,
    duplicates: _Path | None = None,
    report: _Path | None = None,
    evidence: _Path | None = None,
    review: _Path | None = None,
    review_pairs: int | None = None,
    annotate: bool = False,
    clusters_file: _Path | None = None,
    keep_ids: _Path | None = None,
    source_field: str | None = None,
    max_loss: float | None = None,
    spans: Literal["remove", "mask"] | None = None,
    span_tokens: int | None = None,
    spans_file: _Path | None = None,
    decontaminate: _Path | Iterable[_Path] = (),
    decontaminate_field: str | Iterable[str] = (),
    decontaminate_share: float | None = None,
    contaminated: _Path | None = None,
    keep: str | None = None,
    clusters: Literal["greedy", "linked"] | None = None,
    against: _Path | Iterable[_Path] = (),
    key: str | None = None,
    cacert: _Path | None = None,
    profile: str | None = None,
    profiles: _Path | None = None,
    k: int | None = None,
    threshold: float | None = None,
    check: float | None = None,
    contained_in: float | None = None,
    weights: _Path | None = None,
    save_weights: _Path | None = None,
    format: str | None = None,
    charset: str | None = None,
    text_field: str | None = None,
    id_field: str | None = None,
    hash_field: str | None = None,
    hash_format: str | None = None,
    image_field: str | None = None,
    min_quality: int | None = None,
    html: bool = False,
    page: Literal["main", "visible"] | None = None,
    skip_invalid: bool = False,
    force: bool = False,
    memory: str | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> FilesDeduplicated:
    """Copies files of documents without near-duplicates into a folder, by the command `lookalike dedupe`.

    `inputs` are files, folders or patterns, one or several, in the order in which they are read; `output` is
    the folder. Each argument is the option of its name of the command, whose defaults hold. `progress` shows
    its bars. The texts need not fit in memory. An interrupted run goes on if it is called again.

    Returns the counts. Raises CommandNotFound if the command is not installed, CommandFailed with all
    problems that it found, and KeyboardInterrupt on Ctrl+C, after the command has ended.

    >>> import lookalike as la
    >>> la.dedupe_files("corpus/*.jsonl", "unique/", report="r.html").kept
    2
    """
    options = dict(locals())
    for name in ("inputs", "output", "against", "key", "progress", "decontaminate", "decontaminate_field"):
        options.pop(name)
    arguments = ["dedupe", "--output", fspath(output)]
    for name, value in options.items():
        if value is True:
            arguments.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            arguments.append(f"--{name.replace('_', '-')}={value}")
    arguments += [f"--against={path}" for path in _paths(against)]
    arguments += [f"--decontaminate={path}" for path in _paths(decontaminate)]
    fields = [decontaminate_field] if isinstance(decontaminate_field, str) else decontaminate_field
    arguments += [f"--decontaminate-field={field}" for field in fields]
    # No shell expands patterns, and the command reads those that are left.
    arguments += ["--", *_paths(inputs)]
    # The list of processes does not show variables.
    more = {} if key is None else {"LOOKALIKE_KEY": key}
    return _counts(run(arguments, more, progress))


def _paths(given: _Path | Iterable[_Path]) -> list[str]:
    many: list[_Path] = [given] if isinstance(given, (str, PathLike)) else list(given)
    paths: list[str] = []
    for path in (fspath(own) for own in many):
        found = [] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        paths += found or [path]
    return paths


def run(arguments: list[str], variables: Mapping[str, str], progress: bool) -> str:
    """What the command prints. Raises CommandFailed if it fails; Ctrl+C ends it first."""
    command = [find_command(), *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=None if progress else subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        env={**environment(), **variables},
        # Its own group: a terminal sends Ctrl+C to all of a group, and this process passes it on.
        start_new_session=os.name != "nt" and not progress,
    ) as process:
        try:
            printed, told = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
            process.communicate()
            raise
    if process.returncode != 0:
        message = (told or printed or "").strip().removeprefix("lookalike: ")
        message = message or f"the command ended with code {process.returncode}; it printed the reason"
        raise CommandFailed(message, process.returncode)
    return printed


def _counts(printed: str) -> FilesDeduplicated:
    names = {
        "read": "read",
        "kept": "kept",
        "dropped, equal text": "exact",
        "dropped, near": "near",
        "invalid": "invalid",
    }
    counts: dict[str, int] = {}
    for line in printed.splitlines():
        count, _, name = line.strip().partition("  ")
        if name in names and names[name] not in counts:
            counts[names[name]] = int(count)
    if len(counts) < len(names):
        raise CommandFailed(f"the command prints no counts; is it of another version? {printed[:200]}", 0)
    return FilesDeduplicated(**counts, summary=printed)

"""The command from Python: where it is found, what it keeps, how it ends."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, lines_of, mixed_texts
from test_examples import run_examples

import lookalike as la
from lookalike import _command


@pytest.fixture
def installed(command, monkeypatch):
    """The command under test is the one that is found."""
    for name in [name for name in os.environ if name.startswith("LOOKALIKE_")]:
        if name != "LOOKALIKE_TEST_BINARY":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOOKALIKE_BINARY", os.environ["LOOKALIKE_TEST_BINARY"])
    monkeypatch.delenv("LOOKALIKE_TEST_BINARY")


def write(folder: Path, texts: list[str], files: int = 2) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        rows = ({"id": f"{number}-{at}", "text": text} for at, text in enumerate(texts[number::files]))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{number}.jsonl").write_text("".join(lines), encoding="utf-8")


def test_files_are_deduplicated_as_a_frame_is(installed, texts, tmp_path):
    write(tmp_path / "in", texts)
    rows = [row for file in sorted((tmp_path / "in").iterdir()) for row in lines_of(file)]
    frame = {name: [row[name] for row in rows] for name in ("id", "text")}
    expected = la.dedupe(frame, keep="longest")
    found = la.dedupe_files(
        f"{tmp_path}/in/*.jsonl",
        tmp_path / "out",
        report=tmp_path / "r.html",
        duplicates=tmp_path / "d",
        keep="longest",
        threads=2,
    )
    assert (found.read, found.kept, found.dropped) == (
        1_500,
        len(expected.kept_rows),
        len(lines_of(tmp_path / "d")),
    )
    assert found.exact == sum(expected.dropped["exact"]) and found.invalid == 0
    kept = [row["id"] for file in sorted((tmp_path / "out").iterdir()) for row in lines_of(file)]
    assert kept == expected.kept["id"]
    assert "<html" in (tmp_path / "r.html").read_text(encoding="utf-8") and "largest groups" in found.summary


def test_errors_of_the_command_are_exceptions(installed, tmp_path):
    write(tmp_path / "in", ["a text of some words"], 1)
    with pytest.raises(la.CommandFailed, match="missing.jsonl: No such file"):
        la.dedupe_files(tmp_path / "missing.jsonl", tmp_path / "out")
    la.dedupe_files(tmp_path / "in", tmp_path / "out", html=True, k=3, profile="copies-64")
    with pytest.raises(la.CommandFailed, match="exists; --force replaces it") as caught:
        la.dedupe_files([tmp_path / "in"], tmp_path / "out")
    assert caught.value.code == 1 and str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert la.dedupe_files([tmp_path / "in"], tmp_path / "out", force=True).kept == 1


def test_each_option_is_one_of_the_command(command):
    import inspect

    help_text = command("dedupe", "--help")
    names = set(inspect.signature(la.dedupe_files).parameters) - {"inputs", "output", "progress"}
    options = {word[2:] for word in help_text.split() if word.startswith("--") and word[2:].isascii()}
    options = {option.rstrip(".,;:)") for option in options}
    assert {name.replace("_", "-") for name in names} <= options
    ours = {"output", "help", "dry-run", "config", "data", "version"}
    missing = {line.strip().split()[0] for line in help_text.splitlines() if line.strip().startswith("--")}
    missing = {option.lstrip("-") for option in missing} - {name.replace("_", "-") for name in names} - ours
    assert missing == set()


def test_without_the_command_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LOOKALIKE_BINARY", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    with pytest.raises(la.CommandNotFound, match=r"pip install 'lookalike\[server\]'"):
        la.dedupe_files("a.jsonl", tmp_path / "out")
    program = tmp_path / "lookalike"
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert _command.find_command() == str(program)
    monkeypatch.setenv("LOOKALIKE_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(la.CommandNotFound, match="LOOKALIKE_BINARY names .* no program"):
        _command.find_command()


def test_the_module_is_the_command(command, tmp_path):
    program = [sys.executable, "-P", "-m", "lookalike"]
    own = ENVIRONMENT | {"LOOKALIKE_BINARY": os.environ["LOOKALIKE_TEST_BINARY"]}
    done = subprocess.run([*program, "--version"], capture_output=True, encoding="utf-8", env=own)
    assert (done.returncode, done.stdout) == (0, command("--version"))
    own = ENVIRONMENT | {"LOOKALIKE_BINARY": str(tmp_path)}
    done = subprocess.run([*program, "serve"], capture_output=True, encoding="utf-8", env=own)
    assert done.returncode == 127 and "which is no program" in done.stderr


def test_an_interrupt_ends_the_command(command, tmp_path):
    write(tmp_path / "in", mixed_texts(2_000) * 40)
    code = (
        "import lookalike as la\n"
        "print('ready', flush=True)\n"
        f"la.dedupe_files({str(tmp_path / 'in')!r}, {str(tmp_path / 'out')!r}, threads=1)\n"
    )
    own = ENVIRONMENT | {"LOOKALIKE_BINARY": os.environ["LOOKALIKE_TEST_BINARY"]}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=own,
    )
    assert process.stdout.readline() == "ready\n"
    until = time.monotonic() + 30
    while not (tmp_path / "out.partial").exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in told and process.returncode != 0
    assert not (tmp_path / "out").exists()


def test_its_example_runs(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "corpus", ["Please call me back", "please call me back!", "The ferry runs every hour"])
    run_examples("dedupe_files", la.dedupe_files)

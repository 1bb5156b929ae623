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


@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
def test_a_parquet_file_keeps_its_types_and_values(installed, texts, tmp_path, compression):
    """pyarrow is the twin: the output is the kept rows of the input, in the same schema and row groups."""
    from datetime import UTC, date, datetime, time
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = range(len(texts))
    fields = [
        ("id", pa.string(), [f"d{row}" for row in rows]),
        ("text", pa.large_string(), texts),
        ("price", pa.decimal128(20, 4), [Decimal(row * 12_345) / 10_000 for row in rows]),
        ("wide", pa.decimal256(60, 3), [None if row % 5 == 0 else Decimal(-row) * 10**40 for row in rows]),
        ("seen", pa.timestamp("us", "Asia/Tokyo"), [datetime.fromtimestamp(row * 1e5, UTC) for row in rows]),
        ("nanos", pa.timestamp("ns"), [row * 1_000_000_007 for row in rows]),
        ("day", pa.date32(), [date(1950 + row % 100, 2, 3) for row in rows]),
        ("at", pa.time64("us"), [time(row % 24, 59, 3, row) for row in rows]),
        ("half", pa.float16(), [row / 8 if row % 7 else None for row in rows]),
        ("bytes", pa.binary(4), [row.to_bytes(4, "big") for row in rows]),
        ("tags", pa.list_(pa.struct([("name", pa.string()), ("n", pa.uint16())])), [
            [{"name": f"t{at}", "n": at} for at in range(row % 3)] if row % 4 else None for row in rows
        ]),
        ("counts", pa.map_(pa.string(), pa.int8()), [[("a", row % 100)] for row in rows]),
        ("source", pa.dictionary(pa.int32(), pa.string()), [["web", "books"][row % 2] for row in rows]),
    ]
    schema = pa.schema([pa.field(name, kind) for name, kind, _ in fields], metadata={"origin": "a test"})
    columns = [pa.array(values, kind) for _, kind, values in fields]
    table = pa.Table.from_arrays(columns, schema=schema)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=400, compression=compression)
    la.dedupe_files(tmp_path / "a.parquet", tmp_path / "out", duplicates=tmp_path / "d")
    dropped = {line["id"] for line in lines_of(tmp_path / "d")}
    is_kept = [name not in dropped for name in table["id"].to_pylist()]
    source, made = (pq.ParquetFile(tmp_path / path) for path in ("a.parquet", "out/a.parquet"))
    found, expected = made.read(), source.read().filter(pa.array(is_kept))
    assert 0 < len(dropped) < len(texts) and found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist() and made.metadata.num_row_groups == 4
    chunks = (made.metadata.row_group(0).column(at) for at in range(made.metadata.num_columns))
    assert {chunk.compression for chunk in chunks} == {compression.upper().replace("NONE", "UNCOMPRESSED")}


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
    ours = {"output", "help", "dry-run", "config", "data", "version", "shard"}
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

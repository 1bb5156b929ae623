"""`dedupe` against the command, and every type of data in and out."""

import datetime
import json
import pickle
import subprocess
import sys
import textwrap

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import lines_of, mixed_texts

import lookalike as la

PROFILES = [
    ("minhash-copies", []),
    ("minhash-copies", ["--weights", "none", "--threshold", "0.7"]),
    ("minhash-copies", ["--keep", "longest"]),
    ("minhash-copies", ["--keep", "longest", "--contained-in", "0.6"]),
    ("minhash-copies", ["--keep", "max:votes", "--check", "0.3"]),
    ("minhash-copies", ["--keep", "central"]),
    ("copies-64", []),
    ("copies-64", ["--clusters", "linked", "--k", "5"]),
    ("copies-128", ["--keep", "oldest:date"]),
    ("copies-128", ["--k", "30", "--check", "0.4"]),
    ("short-128", ["--keep", "min:votes"]),
    ("minhash", []),
    ("keywords-zh", []),
    ("pairs-64", ["--k", "0"]),
    ("longest-sentences", []),
]


def rows_of(texts: list[str]) -> list[dict]:
    day = datetime.date(2026, 1, 1)
    return [
        {
            "id": f"d{row}",
            "text": text,
            "votes": row * 37 % 101,
            "date": str(day + datetime.timedelta(days=row * 17 % 90)),
        }
        for row, text in enumerate(texts)
    ]


def options_of(arguments: list[str]) -> dict:
    numbers = {"threshold": float, "check": float, "contained_in": float, "k": int}
    names = [name.strip("-").replace("-", "_") for name in arguments[::2]]
    return {name: numbers.get(name, str)(value) for name, value in zip(names, arguments[1::2], strict=True)}


@pytest.mark.parametrize(
    ("profile", "arguments"), PROFILES, ids=lambda own: " ".join([own] if isinstance(own, str) else own)
)
def test_keeps_what_the_command_keeps(command, texts, profile, arguments, tmp_path):
    rows = rows_of(texts)
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    command(
        "dedupe",
        file,
        "-o",
        tmp_path / "out",
        "--duplicates",
        tmp_path / "d",
        "--profile",
        profile,
        *arguments,
    )
    kept = [row["id"] for row in lines_of(tmp_path / "out" / "in.jsonl")]
    dropped = lines_of(tmp_path / "d")
    frame = {name: [row[name] for row in rows] for name in rows[0]}
    for threads in (1, 3):
        result = la.dedupe(frame, profile=profile, threads=threads, **options_of(arguments))
        assert result.kept["id"] == kept
        told = zip(
            *(result.dropped[name] for name in ("id", "replaced_by", "distance", "exact")), strict=True
        )
        expected = [(own["id"], own["replaced_by"]["id"], own["distance"], own["exact"]) for own in dropped]
        assert list(told) == expected and len(dropped) > 20
        assert result.dropped["similarity"] == [own.get("similarity") for own in dropped]


def test_saved_weights_are_those_of_the_command(command, texts, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command("dedupe", file, "-o", tmp_path / "out", "--save-weights", tmp_path / "theirs")
    result = la.dedupe(texts)
    result.save_weights(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert result.taught_by and result.taught_by > 100
    copied = pickle.loads(pickle.dumps(result))
    copied.save_weights(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert (copied.kept, copied.dropped, copied.k) == (result.kept, result.dropped, result.k)
    assert repr(copied) == repr(result) and f"{len(result.kept)} rows kept" in repr(result)
    again = la.dedupe(texts, weights=tmp_path / "theirs")
    assert again.kept_rows == result.kept_rows and again.dropped == result.dropped


@pytest.fixture(scope="module")
def some() -> dict:
    rows = rows_of(mixed_texts(300, seed=3))
    return {name: [row[name] for row in rows] for name in rows[0]}


def check_frame(result, plain, names, column) -> None:
    """Compares a result with that of a dict of the same columns."""
    for part, expected in ((result.kept, plain.kept), (result.dropped, plain.dropped)):
        assert list(names(part)) == list(expected)
        assert {name: list(column(part, name)) for name in names(part)} == expected
    assert (result.kept_rows, result.dropped_rows, result.k) == (
        plain.kept_rows,
        plain.dropped_rows,
        plain.k,
    )


def test_every_type_comes_out_as_it_came_in(some):
    plain = la.dedupe(some, keep="longest")
    assert list(plain.kept) == ["id", "text", "votes", "date"] and plain.dropped["id"]
    assert list(plain.dropped) == [*plain.kept, "replaced_by", "distance", "similarity", "exact", "contained"]
    table = pa.table(some)
    batch = table.to_batches()[0]
    frames = [
        (table, lambda own: own.schema.names, lambda own, name: own.column(name).to_pylist()),
        (batch, lambda own: own.schema.names, lambda own, name: own.column(name).to_pylist()),
        (pl.DataFrame(some), lambda own: own.columns, lambda own, name: own[name].to_list()),
        (pd.DataFrame(some), lambda own: own.columns, lambda own, name: own[name].tolist()),
        (datasets.Dataset.from_dict(some), lambda own: own.column_names, lambda own, name: own[name]),
    ]
    for frame, names, column in frames:
        result = la.dedupe(frame, keep="longest")
        assert type(result.kept) is type(result.dropped) is type(frame)
        check_frame(result, plain, names, column)


def test_columns_have_fixed_types_also_without_rows():
    for texts in (["one text of some words"], ["one text of some words"] * 2, []):
        frame = pa.table(
            {"text": pa.array(texts, pa.string()), "key": pa.array(range(len(texts)), pa.int16())}
        )
        for id, kind, own in ((None, pa.uint32(), pl.UInt32), ("key", pa.int16(), pl.Int16)):
            dropped = la.dedupe(frame, id=id).dropped
            assert [
                dropped.schema.field(name).type
                for name in ("replaced_by", "distance", "similarity", "exact", "contained")
            ] == [
                kind,
                pa.uint32(),
                pa.float64(),
                pa.bool_(),
                pa.float64(),
            ]
            dropped = la.dedupe(pl.from_arrow(frame), id=id).dropped
            assert dropped.schema["replaced_by"] == own and dropped.schema["similarity"] == pl.Float64
        assert (
            la.dedupe(frame, profile="copies-64", id=None).dropped["similarity"].null_count == len(texts) // 2
        )


def test_a_list_of_str_gives_strings_and_dicts(some):
    result = la.dedupe(some["text"])
    assert result.kept == [some["text"][row] for row in result.kept_rows]
    assert [own["row"] for own in result.dropped] == result.dropped_rows
    assert all(own["text"] == some["text"][own["row"]] for own in result.dropped)
    assert all(own["exact"] == (own["text"] == some["text"][own["replaced_by"]]) for own in result.dropped)
    assert la.dedupe([]).kept == [] == la.dedupe([]).dropped


def test_iterators_of_batches_are_one_corpus(some):
    whole = la.dedupe(pa.table(some), keep="longest")
    batches = pa.table(some).to_batches(max_chunksize=70)
    for data in (iter(batches), pa.RecordBatchReader.from_batches(batches[0].schema, batches)):
        result = la.dedupe(data, keep="longest")
        assert len(result.kept) == len(result.dropped) == len(batches) > 3
        assert pa.Table.from_batches(result.kept).equals(whole.kept.combine_chunks())
        assert pa.Table.from_batches(result.dropped).to_pylist() == whole.dropped.to_pylist()
    parts = (some["text"][at : at + 50] for at in range(0, 300, 50))
    result = la.dedupe(parts)
    assert sum(result.kept, []) == la.dedupe(some["text"]).kept
    assert [own["row"] for own in sum(result.dropped, [])] == result.dropped_rows
    assert la.dedupe(iter([])).kept == []


def test_views_and_labels_are_respected(some):
    shuffled = datasets.Dataset.from_dict(some).shuffle(seed=1).select(range(200))
    result = la.dedupe(shuffled)
    expected = la.dedupe({name: list(shuffled[name]) for name in shuffled.column_names})
    assert list(result.kept["id"]) == expected.kept["id"]
    frame = pd.DataFrame(some, index=[f"r{row}" for row in range(300)])
    assert list(la.dedupe(frame).kept.index) == [f"r{row}" for row in la.dedupe(some).kept_rows]
    times = [datetime.datetime(2026, 1, 1) + datetime.timedelta(days=row * 17 % 90) for row in range(300)]
    kept = la.dedupe(pl.DataFrame({**some, "time": times}), keep="newest:time").kept["id"].to_list()
    assert (
        kept == la.dedupe({**some, "time": [str(own.date()) for own in times]}, keep="newest:time").kept["id"]
    )


def test_errors_name_the_argument_and_the_way_out(some):
    frame = {"text": ["a b c", "d e f"], "id": [1, 1], "n": [1, None]}
    for data, options, kind, words in [
        (frame, {}, ValueError, "id: 1 is repeated, in rows 0 and 1: name another column, or give id=None"),
        (
            frame,
            {"text": "body"},
            ValueError,
            "text: there is no column 'body'; there are 'text', 'id', 'n'",
        ),
        (frame, {"id": "key"}, ValueError, "id: there is no column 'key'"),
        (frame, {"id": None, "keep": "max:n"}, ValueError, 'keep: max:n: row 1: "" is not a number'),
        (frame, {"id": None, "keep": "max:m"}, ValueError, "keep: there is no column 'm'"),
        (frame, {"id": None, "keep": "best"}, ValueError, "keep: the rules are first, longest"),
        (frame, {"id": None, "keep": "source:a"}, ValueError, 'keep: .*keep "min:COLUMN"'),
        ({"text": ["a", None]}, {}, ValueError, r"text: row 1 has no text \(null\)"),
        (pd.DataFrame({"text": ["a", None]}), {}, ValueError, r"text: row 1 has no text \(null\)"),
        ({"text": ["a"], "exact": [1]}, {}, ValueError, "data: the column 'exact' .* rename it first"),
        ({"text": ["a"], "n": [1, 2]}, {}, ValueError, "data: the columns have different lengths"),
        (["a", 1], {}, TypeError, "data: row 1 is int, not str"),
        (["a"], {"keep": "max:n"}, ValueError, "keep: a list of str has no column 'n': give a dict"),
        ("text", {}, TypeError, "data: builtins.str cannot be deduplicated; give a list of str"),
        (pl.LazyFrame(frame), {}, TypeError, r"collect\(\) it first"),
        (iter([frame["text"], frame]), {}, TypeError, "data: batch 1 is builtins.dict"),
        (iter([1]), {}, TypeError, "data: batch 0 is builtins.int"),
        (["a"], {"k": 201}, ValueError, "k: the largest distance of minhash-copies@1 is 200"),
        (["a"], {"k": 1, "threshold": 0.5}, ValueError, "threshold: k says the same"),
        (["a"], {"threshold": 1.5}, ValueError, "threshold: a similarity is a number from 0 to 1"),
        (
            ["a"],
            {"threshold": 0.5, "profile": "copies-64"},
            ValueError,
            "threshold: copies-64@1 makes hashes",
        ),
        (["a"], {"check": -1.0}, ValueError, "check: .*0 to 1"),
        (["a"], {"contained_in": 0.8}, ValueError, 'contained_in: it needs keep="longest"'),
        (["a"], {"contained_in": 2.0, "keep": "longest"}, ValueError, "contained_in: a share .* 0 to 1"),
        (["a"], {"contained_in": 0.8, "keep": "longest", "k": 9}, ValueError, "contained_in: parts of texts"),
        (["a"], {"weights": "learned"}, ValueError, "weights: 1 different texts .* at least 100"),
        (["a"], {"weights": "learned", "profile": "copies-64"}, ValueError, "weights: .*takes no weights"),
        (["a"], {"weights": "no such file"}, OSError, "weights: no such file"),
        (["a"], {"weights": __file__}, ValueError, "weights: .*begins with lookidf2"),
        (["a"], {"clusters": "all"}, ValueError, "clusters: .*greedy, linked"),
        (["a"], {"profile": "hashes-64"}, ValueError, "profile: .*takes no text"),
        (["a"], {"threads": 2_000}, ValueError, "threads: 2000 is not from 1 to 1024"),
    ]:
        with pytest.raises(kind, match=words):
            la.dedupe(data, **options)


def test_an_interrupt_ends_the_work():
    # A tenth of the work says how long all of it would take. A shell may have told this process to ignore the
    # signal, which the child inherits.
    script = textwrap.dedent("""
        import os, signal, threading, time
        import lookalike as la
        signal.signal(signal.SIGINT, signal.default_int_handler)
        texts = [" ".join(f"word{row * 7 + at}" for at in range(400)) for row in range(40_000)]
        start = time.monotonic()
        la.dedupe(texts[:4_000], threads=2)
        tenth = time.monotonic() - start
        threading.Timer(tenth, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            la.dedupe(texts, threads=2)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 6 * tenth)
    """)
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "True"], (done.stdout, done.stderr[-500:])


def test_other_threads_run_meanwhile(texts):
    import threading

    ticks = 0
    is_done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    la.dedupe(texts * 3, threads=1)
    is_done.set()
    thread.join()
    assert ticks > 20


def test_progress_counts_every_text(texts):
    tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed: it shows the progress")
    import io
    from contextlib import redirect_stderr

    told = io.StringIO()
    with redirect_stderr(told):
        la.dedupe(texts, progress=True)
    assert tqdm and f"{len(texts)}/{len(texts)}" in told.getvalue()


@pytest.mark.parametrize("profile", ["minhash-copies", "copies-64"])
def test_contained_is_a_share_of_the_features_that_compare_counts(texts, profile):
    result = la.dedupe(texts[:300], profile=profile)
    assert any(0 < own["contained"] < 1 for own in result.dropped)
    for own in result.dropped[:40]:
        of_both = la.compare(own["text"], texts[own["replaced_by"]], profile=profile)
        own_features = la.compare(own["text"], own["text"], profile=profile).distinct
        assert own["contained"] == of_both.shared / own_features
    # A text that was copied into a longer one is in it, whatever their similarity is.
    pair = ["The ferry runs every hour until noon"]
    pair.append(f"{pair[0]} and more of the same")
    (own,) = la.dedupe(pair, keep="longest", threshold=0.2, weights="none").dropped
    assert own["contained"] > own["similarity"] and own["contained"] >= 0.9
    without = la.dedupe(texts[:300], profile=profile, contained=False)
    assert without.dropped_rows == result.dropped_rows
    assert "contained" not in without.dropped[0]

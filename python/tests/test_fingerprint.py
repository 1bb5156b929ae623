"""Hashes: of other programs, of the command, in every form, from every kind of column."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import lines_of

import lookalike as la


@pytest.mark.parametrize("profile", ["python-simhash", "shingle-md5-128"])
def test_hashes_are_those_of_other_programs(golden, profile):
    lines = lines_of(golden / f"{profile}.jsonl")
    # Of a text without features the other programs hash something, and ours is zero.
    lines = [line for line in lines if la.fingerprint(line["text"], profile=profile)]
    assert len(lines) > 40
    found = la.fingerprint([line["text"] for line in lines], profile=profile, form="hex")
    assert found == [line["hash"] for line in lines]


def test_keywords_are_those_of_cppjieba(golden):
    lines = lines_of(golden / "cppjieba-5.6.7.jsonl")
    found = la.fingerprint([line["text"] for line in lines], profile="cppjieba", form="hex")
    assert found == [line["hashes"]["20"]["hash"] for line in lines]


@pytest.mark.parametrize("profile", [profile.name for profile in la.profiles() if profile.takes_texts])
def test_hashes_are_those_of_the_command(command, texts, profile, tmp_path):
    files = []
    for number, text in enumerate(texts[:40]):
        files.append(tmp_path / f"{number:02}.txt")
        files[-1].write_text(text, encoding="utf-8")
    printed = command("fingerprint", "--profile", profile, *files).splitlines()
    expected = [line.split("  ")[0] for line in printed]
    for threads in (1, 3):
        assert la.fingerprint(texts[:40], profile=profile, form="hex", threads=threads) == expected


@pytest.mark.parametrize(("profile", "size"), [("copies-64", 8), ("copies-128", 16)])
def test_every_form_has_the_same_bits(texts, profile, size):
    texts = texts[:300]
    numbers = la.fingerprint(texts, profile=profile)
    assert la.fingerprint(texts[7], profile=profile) == numbers[7]
    as_bytes = la.fingerprint(texts, profile=profile, form="bytes")
    assert as_bytes == [number.to_bytes(size, "big") for number in numbers]
    assert la.fingerprint(texts, profile=profile, form="hex") == [own.hex() for own in as_bytes]
    array = la.fingerprint(texts, profile=profile, form="numpy")
    if size == 8:
        assert array.dtype == np.uint64 and array.tolist() == numbers
    else:
        assert array.dtype == np.uint8 and array.shape == (300, 16)
        assert [bytes(row) for row in array] == as_bytes
    hashes = la.fingerprint(texts, profile=profile, form="arrow")
    assert pa.array(hashes).type == pa.binary(size)
    assert pa.array(hashes).to_pylist() == as_bytes
    assert (hashes.tolist(), hashes.hex(), list(hashes)) == (
        numbers,
        [own.hex() for own in as_bytes],
        numbers,
    )
    assert (len(hashes), hashes[-1], hashes.bits) == (300, numbers[-1], size * 8)
    assert pickle.loads(pickle.dumps(hashes)) == hashes == la.Hashes(size * 8, b"".join(as_bytes))
    with pytest.raises(IndexError, match="there are 300 hashes"):
        hashes[300]


def test_columns_of_every_library_give_the_same_hashes(texts):
    texts = texts[:200]
    expected = la.fingerprint(texts)
    chunks = pa.chunked_array([texts[:30], [], texts[30:]], type=pa.string())
    columns = [
        pa.array(texts),
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
        pa.array([None, *texts]).slice(1),
        chunks,
        pl.Series(texts),
        pl.DataFrame({"text": texts})["text"],
        pd.Series(texts),
        pd.Series(texts, dtype=object),
        np.array(texts, dtype=object),
        tuple(texts),
        iter(texts),
    ]
    for column in columns:
        assert la.fingerprint(column) == expected, type(column)
    assert la.fingerprint([]) == la.fingerprint(pa.array([], pa.string())) == []


def test_errors_name_the_argument_and_the_way_out():
    for arguments, kind, words in [
        ((["a", 7],), TypeError, r"texts: row 1 is int, not str; convert it with str\(\)"),
        ((["a", None],), ValueError, r"texts: row 1 has no text \(null\): leave such rows out"),
        ((pa.array(["a", "b", None]),), ValueError, "texts: row 2 has no text"),
        ((pa.array([1, 2]),), TypeError, "texts: the column has the Arrow type Int64.*cast it to string"),
        ((["a", "\ud800"],), ValueError, "texts: row 1 is not Unicode"),
        ((7,), TypeError, "texts: texts are a list of str .* not int"),
        ((b"text",), TypeError, "not bytes"),
        (({"text": 1},), TypeError, "not dict"),
    ]:
        with pytest.raises(kind, match=words):
            la.fingerprint(*arguments)
    for options, words in [
        ({"profile": "copies"}, 'profile: there is no profile "copies"; there are copies-64@1'),
        ({"profile": "hashes-64"}, "profile: .*takes no text"),
        ({"form": "hexadecimal"}, "form: .* is none of int, hex, bytes, numpy, arrow"),
        ({"threads": 0}, "threads: 0 is not from 1 to 1024; None is one for each processor"),
    ]:
        with pytest.raises(ValueError, match=words):
            la.fingerprint(["text"], **options)
    with pytest.raises(ValueError, match="form: one text has one hash"):
        la.fingerprint("text", form="numpy")


def test_profiles_have_what_calls_need():
    by_name = {profile.name: profile for profile in la.profiles()}
    assert by_name["copies-128"].id == "copies-128@1" and by_name["copies-128"].version == 1
    assert by_name["minhash-copies"].threshold == 0.5 and by_name["copies-64"].threshold is None
    assert by_name["hashes-256"].bits == 256 and not by_name["hashes-256"].takes_texts
    assert all(profile.summary for profile in by_name.values())
    assert "copies-64@1" in repr(by_name["copies-64"])

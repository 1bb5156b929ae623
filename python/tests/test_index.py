"""The index against a scan in Python, with hashes in every form, under threads, saved and pickled."""

import pickle
import random
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import lookalike as la


def hashes_of(bits: int, count: int = 400) -> list[int]:
    """Distinct hashes, of which many are near others."""
    chance = random.Random(bits)
    hashes: list[int] = []
    while len(hashes) < count:
        own = chance.getrandbits(bits)
        hashes.append(own)
        for _ in range(chance.randrange(4)):
            own ^= 1 << chance.randrange(bits)
            hashes.append(own)
    return sorted(set(hashes))


def scan(hashes: list[int], query: int, k: int) -> list[tuple[int, int]]:
    near = [(own, (own ^ query).bit_count()) for own in hashes]
    return sorted((pair for pair in near if pair[1] <= k), key=lambda pair: (pair[1], pair[0]))


@pytest.mark.parametrize("bits", [64, 128, 256])
def test_answers_equal_a_scan_for_every_k(bits):
    hashes = hashes_of(bits)
    index = la.Index(bits=bits)
    assert index.add(hashes) == len(hashes) == len(index)
    removed = hashes[::5]
    assert index.remove(removed) == len(removed)
    stored = [own for own in hashes if own not in set(removed)]
    assert index.hashes().tolist() == stored
    queries = hashes[:30]
    for k in [0, 1, 3, 9, bits // 2, bits]:
        expected = [scan(stored, query, k) for query in queries]
        assert [index.within(query, k) for query in queries] == expected
        for threads in (1, 3):
            assert index.within_many(queries, k, threads=threads) == expected
        numbers, found, distances = index.within_many(queries, k, form="numpy")
        rows = [(number, *near) for number, own in enumerate(expected) for near in own]
        assert numbers.tolist() == [row[0] for row in rows] and distances.tolist() == [
            row[2] for row in rows
        ]
        found = found.tolist() if bits == 64 else [int.from_bytes(bytes(row), "big") for row in found]
        assert found == [row[1] for row in rows]
    for k in [0, 2, 9]:
        pairs = [(a, b, (a ^ b).bit_count()) for at, a in enumerate(stored) for b in stored[at + 1 :]]
        expected = [pair for pair in pairs if pair[2] <= k]
        assert index.pairs(k) == expected
        assert index.pairs(k, form="numpy")[2].tolist() == [pair[2] for pair in expected]


@pytest.mark.parametrize("bits", [64, 128, 256])
def test_hashes_of_every_form_are_the_same(bits):
    numbers = hashes_of(bits)[:50]
    size = bits // 8
    blocks = [own.to_bytes(size, "big") for own in numbers]
    forms = [
        numbers,
        tuple(numbers),
        iter(numbers),
        [own.hex() for own in blocks],
        blocks,
        la.Hashes(bits, b"".join(blocks)),
        pa.array(blocks, pa.binary(size)),
        pa.chunked_array([blocks[:9], blocks[9:]], type=pa.binary(size)),
        np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, size),
        np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, size)[::-1],
    ]
    if bits == 64:
        forms += [
            np.array(numbers, np.uint64),
            np.array(numbers, np.uint64)[::-1],
            list(np.array(numbers, np.uint64)),
            pa.array(numbers, pa.uint64()),
            pl.Series(numbers, dtype=pl.UInt64),
        ]
    for form in forms:
        index = la.Index(bits=bits)
        assert index.add(form) == 50, type(form)
        assert index.hashes().tolist() == numbers
        assert all(own in index for own in (numbers[3], blocks[3], blocks[3].hex()))


def test_fingerprints_go_in_without_conversion(texts):
    index = la.Index(bits=128)
    added = index.add(la.fingerprint(texts, form="arrow"))
    assert added == len(set(la.fingerprint(texts)))
    assert index.within(la.fingerprint(texts[3]), k=23)[0][1] == 0


def test_a_saved_and_a_pickled_index_are_the_same(tmp_path):
    for bits in (64, 128, 256):
        index = la.Index(bits)
        index.add(hashes_of(bits))
        path = tmp_path / f"{bits}.index"
        index.save(path)
        for other in (la.Index.load(path), la.Index.load(str(path)), pickle.loads(pickle.dumps(index))):
            assert other.bits == bits and other.hashes() == index.hashes()
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(OSError, match="damaged"):
            la.Index.load(path)
    with pytest.raises(OSError, match="no such file or directory|No such file"):
        index.save(tmp_path / "missing" / "file")


def test_threads_may_read_and_write_at_once():
    index = la.Index(bits=64)
    hashes = hashes_of(64, 4_000)
    parts = [hashes[at::4] for at in range(4)]

    def work(part: list[int]) -> int:
        added = sum(index.add(own) for own in part)
        assert all(index.within(own, 0) == [(own, 0)] for own in part)
        return added

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, parts)) == len(hashes) == len(index)


def test_errors_name_the_argument_and_the_limit():
    index = la.Index(bits=64)
    for call, kind, words in [
        (lambda: la.Index(bits=65), ValueError, "bits: 65 is none of 64, 128 and 256"),
        (
            lambda: index.add(2**64),
            ValueError,
            r"hashes: 18446744073709551616 is not from 0 to 2\*\*64 - 1",
        ),
        (lambda: index.add([-1]), ValueError, "hashes: -1 is not"),
        (lambda: index.add("00ff"), ValueError, "hashes: .*4"),
        (lambda: index.add("0" * 32), ValueError, "has 128 bits, and 64 are wanted"),
        (lambda: index.add(b"123"), ValueError, "hashes: 3 bytes are no hash of 64 bits"),
        (lambda: index.add([1.5]), TypeError, "hashes: hashes of 64 bits are int, .* not float"),
        (lambda: index.add(None), TypeError, "not NoneType"),
        (lambda: index.add(np.array([1.5])), TypeError, "an array of uint64"),
        (lambda: index.add(np.zeros((2, 9), np.uint8)), ValueError, r"not \(n, 8\)"),
        (lambda: index.add(pa.array([1, None], pa.uint64())), ValueError, "nulls"),
        (lambda: index.add(pa.array(["a"])), TypeError, r"FixedSizeBinary\(8\)"),
        (lambda: index.add(la.Hashes(128, bytes(16))), ValueError, "have 128 bits, and 64 are wanted"),
        (lambda: la.Index(128).add(2**128), ValueError, r"2\*\*128 - 1"),
        (lambda: la.Hashes(64, b"1234567"), ValueError, "data: 7 bytes are not a whole number"),
        (lambda: index.within(1, 65), ValueError, "k: 65 is larger than 64, the largest distance"),
        (lambda: index.within([1], 3), ValueError, "hash: within takes one hash; within_many takes many"),
        (lambda: index.within_many([1], 3, form="dict"), ValueError, "form: .* is none of list, numpy"),
        (lambda: [1] in index, ValueError, "ask for each"),
    ]:
        with pytest.raises(kind, match=words):
            call()


def test_an_interrupt_ends_a_long_call():
    # A tenth of the work says how long all of it would take.
    script = textwrap.dedent("""
        import os, random, signal, threading, time
        import lookalike as la
        signal.signal(signal.SIGINT, signal.default_int_handler)
        chance = random.Random(1)
        hashes = la.Hashes(64, chance.randbytes(8 * 3_000_000))
        tenth = la.Hashes(64, chance.randbytes(8 * 300_000))
        for name in ("remove", "add"):
            index = la.Index(64)
            if name == "remove":
                index.add(hashes)
                tenth = la.Hashes(64, bytes(hashes.numpy()[:300_000].byteswap().tobytes()))
            start = time.monotonic()
            getattr(index, name)(tenth)
            taken = time.monotonic() - start
            threading.Timer(taken / 2, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            try:
                getattr(index, name)(hashes)
                # A fast machine may end the work before a signal is handled.
                print(name, "completed", taken > 0.5)
                time.sleep(taken)
            except KeyboardInterrupt:
                print(name, "interrupted", time.monotonic() - start < 8 * taken + 1, len(index) > 0)
    """)
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "remove interrupted True True", done.stdout

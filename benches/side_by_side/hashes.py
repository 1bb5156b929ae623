"""`lookalike.Index` and hammingbird on the same hashes of 64 bits, one thread: seconds of processor time of
all pairs within k, and microseconds of a lookup, alone and among many at once.

    target/side_by_side/bin/pip install hammingbird==0.5.0 numpy target/wheels/lookalike-*.whl
    target/side_by_side/bin/python benches/side_by_side/hashes.py

Options: --count N (1,000,000), --k K (3), --rounds N (3), in turns; the table has the medians. A tenth of the
hashes are copies of others with 1 to K bits changed, and a tenth of the queries are hashes that are stored.
The answers of both must be equal, pair by pair.
"""

import argparse
import statistics
import time

import hammingbird
import lookalike
import numpy

BITS = 64


def data(count, k):
    random = numpy.random.default_rng(7)
    hashes = random.integers(0, 2**BITS, size=count, dtype=numpy.uint64)
    copies = count // 10
    for n in range(copies):
        bits = random.choice(BITS, size=1 + n % k, replace=False)
        hashes[n] = hashes[count - 1 - n] ^ numpy.uint64(sum(1 << int(bit) for bit in bits))
    # No hash twice: lookalike keeps one of each.
    hashes = numpy.unique(hashes)
    random.shuffle(hashes)
    queries = random.integers(0, 2**BITS, size=20_000, dtype=numpy.uint64)
    queries[::10] = hashes[:2_000]
    return hashes, queries


def rows(hashes):
    """What hammingbird takes: a row of eight bytes for each hash."""
    return numpy.ascontiguousarray(hashes.astype(">u8").view(numpy.uint8).reshape(-1, BITS // 8))


def timed(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def pairs_of_ours(index, k):
    first, second, _ = index.pairs(k, form="numpy")
    return first, second


def ordered(first, second):
    pairs = numpy.stack([numpy.minimum(first, second), numpy.maximum(first, second)], axis=1)
    return pairs[numpy.lexsort((pairs[:, 1], pairs[:, 0]))]


def one_round(hashes, queries, k):
    """The seconds of each kind of work: ours and theirs."""
    cells, cells_of_queries = rows(hashes), rows(queries)
    ours, theirs = lookalike.Index(BITS), hammingbird.Index(BITS // 8, k)
    seconds = {"all stored": [timed(lambda: ours.add(hashes))[0], timed(lambda: theirs.add_batch(cells))[0]]}
    own, our_pairs = timed(lambda: pairs_of_ours(ours, k))
    other, their_pairs = timed(lambda: hammingbird.find_pairs_self(cells, k))
    seconds["all pairs"] = [own, other]
    numbers = numpy.array([(a, b) for a, b, *_ in their_pairs], dtype=numpy.int64)
    same = numpy.array_equal(ordered(*our_pairs), ordered(hashes[numbers[:, 0]], hashes[numbers[:, 1]]))
    assert same, "the pairs differ"
    listed = queries.tolist()
    own, found = timed(lambda: [ours.within(query, k) for query in listed])
    other, their_found = timed(lambda: [theirs.query(row) for row in cells_of_queries])
    seconds["a lookup alone"] = [own, other]
    for near, others in zip(found, their_found, strict=True):
        assert sorted(hash for hash, _ in near) == sorted(int(hashes[at]) for at, _ in others)
    own, _ = timed(lambda: ours.within_many(queries, k))
    other, _ = timed(lambda: theirs.query_batch(cells_of_queries))
    seconds["a lookup among 20,000 at once"] = [own, other]
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    hashes, queries = data(options.count, options.k)
    rounds = [one_round(hashes, queries, options.k) for _ in range(options.rounds)]
    print(f"{len(hashes):,} hashes of {BITS} bits, k = {options.k}; medians of {options.rounds} rounds\n")
    print("| | lookalike | hammingbird | hammingbird ÷ lookalike |\n|---|---|---|---|")
    for name in rounds[0]:
        ours, theirs = (statistics.median(one[name][side] for one in rounds) for side in (0, 1))
        scale, unit = (1e6 / len(queries), "µs") if "lookup" in name else (1, "s")
        print(f"| {name} | {ours * scale:.2f} {unit} | {theirs * scale:.2f} {unit} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()

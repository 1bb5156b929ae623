"""A binary index of faiss as a peer: reads orders from standard input, says how long they took.

Arguments: a file of hashes, the bits of a hash, and the index: `flat`, which compares all; `multi` with a
number of maps, each of 16 bits, where flipping k // maps bits of each finds everything within k; `hash` with
a number of bits, where two of them are flipped, which does not find everything. Orders: a distance and a
file of queries, a line each. Answers: nanoseconds for all of them and how many hashes were found.
"""

import sys
import time

import faiss
import numpy

path, bits, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
number = int(sys.argv[4])


def words(path):
    return numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, bits // 8)


faiss.omp_set_num_threads(1)
if kind == "flat":
    index = faiss.IndexBinaryFlat(bits)
elif kind == "multi":
    index = faiss.IndexBinaryMultiHash(bits, number, 16)
else:
    index = faiss.IndexBinaryHash(bits, number)
    index.nflip = 2
index.add(words(path))
print("ready", flush=True)
for line in sys.stdin:
    k, path = line.rstrip("\n").split(" ", 1)
    if kind == "multi":
        index.nflip = int(k) // number
    queries = words(path)
    start = time.perf_counter_ns()
    limits, _, _ = index.range_search(queries, int(k) + 1)
    print(time.perf_counter_ns() - start, int(limits[-1]), flush=True)

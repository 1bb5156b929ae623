"""faiss' IndexBinaryMultiHash as a peer: reads orders from standard input, says how long they took.

Argument: a file of hashes, eight bytes each. Orders: a distance and a file of queries, a line each. Answers:
nanoseconds for all of them and how many hashes were found. Four maps of 16 bits; flipping k // 4 bits of
each finds everything within k.
"""

import sys
import time

import faiss
import numpy

BITS, MAPS = 64, 4


def words(path):
    return numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, BITS // 8)


faiss.omp_set_num_threads(1)
index = faiss.IndexBinaryMultiHash(BITS, MAPS, BITS // MAPS)
index.add(words(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    k, path = line.rstrip("\n").split(" ", 1)
    index.nflip = int(k) // MAPS
    queries = words(path)
    start = time.perf_counter_ns()
    limits, _, _ = index.range_search(queries, int(k) + 1)
    print(time.perf_counter_ns() - start, int(limits[-1]), flush=True)

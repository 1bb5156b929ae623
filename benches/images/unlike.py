"""How many pairs of unlike images are near: python3 unlike.py PROGRAM IMAGES [PARTS]

Each image is cut into PARTS × PARTS parts (7), of which each is an image. Pairs of one file are left out.
The pairs of files with most near parts are named: look at them, since files may be copies of each other.
"""

import collections
import io
import pathlib
import subprocess
import sys
import tempfile

import numpy

from originals import files, opened, parts


def main():
    program, source = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    names, lines = [], []
    for path in files(source, 100 * count):
        with tempfile.TemporaryDirectory() as scratch:
            paths = []
            for number, part in enumerate(parts(opened(path), count)):
                content = io.BytesIO()
                part.save(content, "JPEG", quality=95)
                paths.append(pathlib.Path(scratch) / str(number))
                paths[-1].write_bytes(content.getvalue())
            done = subprocess.run([program, *map(str, paths)], capture_output=True, text=True, check=True)
        lines += [line.split() for line in done.stdout.splitlines()]
        names += [str(path.relative_to(source))] * len(paths)
    hashes = numpy.frombuffer(b"".join(bytes.fromhex(line[0]) for line in lines), ">u8").reshape(-1, 4)
    hashes = hashes.astype(numpy.uint64)
    small = numpy.array([int(line[2], 16) for line in lines], numpy.uint64)
    file_of = numpy.unique(names, return_inverse=True)[1]
    good = numpy.array([int(line[1]) >= 50 for line in lines])
    for name, chosen in (("quality 50 and more", numpy.nonzero(good)[0]), ("all", numpy.arange(len(lines)))):
        pairs, near, near_64, of_files = 0, 0, 0, collections.Counter()
        for place, at in enumerate(chosen):
            rest = chosen[place + 1 :]
            rest = rest[file_of[rest] != file_of[at]]
            pairs += len(rest)
            distances = numpy.bitwise_count(hashes[rest] ^ hashes[at]).sum(axis=1)
            found = rest[distances <= 31]
            near += len(found)
            near_64 += int((numpy.bitwise_count(small[rest] ^ small[at]) <= 8).sum())
            of_files.update((names[at], names[other]) for other in found)
        print(f"{name}: {len(chosen)} images, {pairs} pairs")
        print(f"{near} within 31 of 256, {near_64} within 8 of 64")
        for (one, other), number in of_files.most_common(25):
            print("   ", number, one, other)


main()

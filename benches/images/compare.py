"""Compares the hashes of the example `pdq` with those of PyPI's pdqhash: pip install pdqhash pillow numpy.

    python3 compare.py PROGRAM FOLDER

PROGRAM is the built example. Each image of FOLDER is decoded by Pillow, alpha over white, hashed by pdqhash,
and stored as PNG for PROGRAM: so both hash the same pixels. Then PROGRAM gets the file itself, where decoders
differ by rounding. Files that Pillow cannot read are counted.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pdqhash
from PIL import Image, ImageOps

Image.MAX_IMAGE_PIXELS = None


def pixels(path):
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I;16") or image.mode == "I":
        wide = numpy.asarray(image).astype(numpy.uint32)
        image = Image.fromarray((wide >> 8).astype(numpy.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def ours(program, paths):
    out = []
    for at in range(0, len(paths), 50):
        command = [program, *map(str, paths[at : at + 50])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        out += [line.split()[:2] for line in done.stdout.splitlines()]
    return out


def main():
    program, folder = sys.argv[1:]
    names, theirs, unread = [], [], 0
    with tempfile.TemporaryDirectory() as scratch:
        stored = []
        for path in sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file()):
            try:
                image = pixels(path)
            except Exception as error:
                unread += 1
                print("not read:", path, error)
                continue
            bits, quality = pdqhash.compute(numpy.asarray(image))
            theirs.append((int("".join(map(str, bits)), 2), quality))
            names.append(path)
            stored.append(pathlib.Path(scratch) / f"{len(names)}.png")
            image.save(stored[-1], compress_level=1)
        for what, paths in (("the same pixels", stored), ("the files", names)):
            distances, qualities = collections.Counter(), collections.Counter()
            for name, reference, (hash_, quality) in zip(names, theirs, ours(program, paths)):
                theirs_hash, theirs_quality = reference
                try:
                    distance = (int(hash_, 16) ^ theirs_hash).bit_count()
                    qualities[abs(int(quality) - theirs_quality)] += 1
                except ValueError:
                    distance = "refused"
                distances[distance] += 1
                if distance == "refused" or distance > 2:
                    print("   ", name, distance, theirs_quality)
            print(f"{what}: images by bits that differ {sorted(distances.items(), key=str)}")
            print(f"{what}: images by difference of quality {sorted(qualities.items())}")
    print(f"{len(names)} images, {unread} not read by Pillow")


main()

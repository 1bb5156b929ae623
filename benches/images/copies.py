"""How many edited copies are within 31: python3 copies.py PROGRAM IMAGES

Each image is cut into nine parts, of which each is an image. A copy is found if its hash is within 31 of that
of the image; images below quality 50 are left out and counted. The same is done with pdqhash.
"""

import io
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pdqhash
from PIL import Image, ImageDraw, ImageEnhance

from originals import files, opened, parts


def jpeg(image, quality=90):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def captioned(image):
    image = image.copy()
    width, height = image.size
    box = (int(width * 0.6), int(height * 0.85), width, height)
    draw = ImageDraw.Draw(image)
    draw.rectangle(box, fill="white")
    draw.text(box[:2], "breaking news", fill="black", font_size=max(10, height // 14))
    return image


def cropped(image, share):
    width, height = image.size
    dx, dy = int(width * share / 2), int(height * share / 2)
    return image.crop((dx, dy, width - dx, height - dy))


EDITS = {
    "JPEG quality 30": lambda image: jpeg(image, 30),
    "half size": lambda image: jpeg(image.resize((image.width // 2, image.height // 2))),
    "a tenth of each side cut off": lambda image: jpeg(cropped(image, 0.1)),
    "text over a corner": lambda image: jpeg(captioned(image)),
    "grey": lambda image: jpeg(image.convert("L")),
    "a fifth brighter": lambda image: jpeg(ImageEnhance.Brightness(image).enhance(1.2)),
}


def ours(program, contents):
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for number, content in enumerate(contents):
            paths.append(pathlib.Path(scratch) / str(number))
            paths[-1].write_bytes(content)
        done = subprocess.run([program, *map(str, paths)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(int(line[0], 16), int(line[1]), int(line[2], 16)) for line in lines]


def theirs(content):
    bits, quality = pdqhash.compute(numpy.asarray(Image.open(io.BytesIO(content)).convert("RGB")))
    return int("".join(map(str, bits)), 2), quality


def main():
    program, source = sys.argv[1:]
    images = []
    for path in files(source):
        for part in parts(opened(path), 3):
            images.append(jpeg(part, 95))
    of_ours, of_theirs = ours(program, images), [theirs(image) for image in images]
    good = [at for at, (_, quality, _) in enumerate(of_ours) if quality >= 50]
    print(f"{len(images)} images, {len(good)} of quality 50 and more")
    for name, edit in EDITS.items():
        copies = [edit(Image.open(io.BytesIO(images[at]))) for at in good]
        found = [0, 0, 0]
        for at, copy, mine in zip(good, copies, ours(program, copies)):
            found[0] += (mine[0] ^ of_ours[at][0]).bit_count() <= 31
            found[1] += (theirs(copy)[0] ^ of_theirs[at][0]).bit_count() <= 31
            found[2] += (mine[2] ^ of_ours[at][2]).bit_count() <= 8
        shares = [count / len(good) for count in found]
        print("| {} | {:.3f} | {:.3f} | {:.3f} |".format(name, *shares))


main()

"""Makes a set of images in every format that is read: python3 make.py IMAGES SET [MOST]"""

import pathlib
import random
import shutil
import sys

import numpy
from PIL import Image, ImageDraw

from originals import files, opened, parts


def oriented(image, path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(path, quality=90, exif=exif)


def with_alpha(image):
    width, height = image.size
    ramp = numpy.linspace(0, 255, width)[None, :] * numpy.ones((height, 1))
    return Image.merge("RGBA", (*image.split(), Image.fromarray(ramp.astype(numpy.uint8))))


def wide(image):
    grey = numpy.asarray(image.convert("L")).astype(numpy.uint16) * 257 + 3
    return Image.fromarray(numpy.minimum(grey, 65535).astype(numpy.uint16))


KINDS = [
    ("jpg", lambda image, path: image.save(path, quality=90)),
    ("jpg", lambda image, path: image.save(path, quality=75, progressive=True)),
    ("jpg", lambda image, path: image.save(path, quality=95, subsampling=0)),
    ("jpg", lambda image, path: image.save(path, quality=85, subsampling=1, restart_marker_rows=2)),
    ("jpg", lambda image, path: image.convert("L").save(path)),
    ("jpg", lambda image, path: image.convert("CMYK").save(path, quality=90)),
    ("png", lambda image, path: image.save(path)),
    ("png", lambda image, path: image.quantize(64).save(path)),
    ("png", lambda image, path: image.quantize(16).save(path, bits=4)),
    ("png", lambda image, path: wide(image).save(path)),
    ("png", lambda image, path: with_alpha(image).save(path)),
    ("png", lambda image, path: with_alpha(image).convert("LA").save(path)),
    ("png", lambda image, path: image.convert("1").save(path)),
    ("png", lambda image, path: image.save(path, save_all=True, append_images=[image.rotate(90)])),
    ("webp", lambda image, path: image.save(path, quality=80)),
    ("webp", lambda image, path: image.save(path, lossless=True)),
    ("webp", lambda image, path: with_alpha(image).save(path, quality=80)),
    ("webp", lambda image, path: image.save(path, save_all=True, append_images=[image.rotate(90)])),
    ("gif", lambda image, path: image.save(path)),
    ("gif", lambda image, path: image.save(path, save_all=True, append_images=[image.rotate(90)])),
    *(("jpg", lambda image, path, way=way: oriented(image, path, way)) for way in range(2, 9)),
    ("webp", lambda image, path: oriented(image, path, 6)),
]


def generated(rng, number):
    width, height = rng.randrange(70, 900), rng.randrange(70, 900)
    match number % 4:
        case 0:
            noise = numpy.random.default_rng(number).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3))
            return Image.fromarray(noise.astype(numpy.uint8)).resize((width, height))
        case 1:
            y, x = numpy.mgrid[0:height, 0:width]
            waves = numpy.sin(x / rng.uniform(3, 90)) + numpy.cos(y / rng.uniform(3, 90) + x / 200)
            return Image.fromarray(((waves + 2) * 63).astype(numpy.uint8)).convert("RGB")
        case 2:
            image = Image.new("RGB", (width, height), tuple(rng.randrange(256) for _ in range(3)))
            draw = ImageDraw.Draw(image)
            for _ in range(rng.randrange(2, 60)):
                at = [rng.randrange(width), rng.randrange(height)]
                color = tuple(rng.randrange(256) for _ in range(3))
                draw.ellipse(at + [at[0] + rng.randrange(5, 200), at[1] + rng.randrange(5, 200)], fill=color)
            return image
        case _:
            image = Image.new("RGB", (width, height), "white")
            for line in range(10, height, 16):
                text = " ".join("%x" % rng.randrange(1 << 24) for _ in range(12))
                ImageDraw.Draw(image).text((8, line), text, fill="black")
            return image


def main():
    source, target = sys.argv[1:3]
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    rng = random.Random(1)
    out = pathlib.Path(target)
    out.mkdir(parents=True)
    images, count = [], 0
    for path in files(source):
        if count < most // 3:
            shutil.copy(path, out / f"{count:03}-whole{path.suffix}")
            count += 1
        images += list(parts(opened(path), 2))
    rng.shuffle(images)
    images = images[: most - most // 10 - count] + [generated(rng, number) for number in range(most // 10)]
    for number, image in enumerate(images):
        ending, save = KINDS[number % len(KINDS)]
        save(image, out / f"{count + number:03}-kind{number % len(KINDS)}.{ending}")
    print(len(list(out.iterdir())), "files")


main()

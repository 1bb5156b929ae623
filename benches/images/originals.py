"""The images of a folder, each content once, and parts of them."""

import hashlib
import pathlib

from PIL import Image, ImageOps

Image.MAX_IMAGE_PIXELS = None
ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".gif"}


def files(folder, least=200):
    """The distinct image files whose sides have `least` pixels."""
    seen = set()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.suffix.lower() in ENDINGS and path.is_file() and not path.is_symlink():
            digest = hashlib.md5(path.read_bytes()).digest()
            if digest not in seen and min(Image.open(path).size) >= least:
                seen.add(digest)
                yield path


def opened(path):
    """Its pixels over white."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def parts(image, count, side=1000):
    """Cuts an image into `count` × `count` parts, each at most `side` pixels wide."""
    width, height = image.width // count, image.height // count
    for row in range(count):
        for column in range(count):
            box = (column * width, row * height, (column + 1) * width, (row + 1) * height)
            part = image.crop(box)
            part.thumbnail((side, side))
            yield part

"""Images a second of one thread, decoding included, of a photograph scaled to 1,000 × 1,000, in one run:
python3 speed.py PROGRAM PHOTO [TIMES]"""

import io
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import pdqhash
from PIL import Image


def main():
    program, photo = sys.argv[1:3]
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    content = io.BytesIO()
    Image.open(photo).convert("RGB").resize((1000, 1000)).save(content, "JPEG", quality=90)
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        pathlib.Path(file.name).write_bytes(content.getvalue())
        for _ in range(3):
            command = [program, "--times", str(times), file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            started = time.thread_time()
            for _ in range(times):
                image = numpy.asarray(Image.open(io.BytesIO(content.getvalue())).convert("RGB"))
                pdqhash.compute(image)
            rate = times / (time.thread_time() - started)
            print(f"ours {done.stdout.strip()}, pdqhash with Pillow {rate:.1f} files/s")


main()

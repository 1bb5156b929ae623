"""Images: bytes of files, images of Pillow, columns of data sets, and what the command does with the same."""

import base64
import json
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lookalike as la

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates/images/testdata"
NAMES = ["color.jpg", "progress.jpg", "rings.png", "alpha.png", "still.gif", "turned.jpg", "palette.png"]
FILES = [(FOLDER / name).read_bytes() for name in NAMES]
FLAT = (FOLDER / "flat.gif").read_bytes()
MANY = [*FILES, FILES[0], FLAT, FLAT]


def opened(name: str) -> Image.Image:
    with Image.open(FOLDER / name) as image:
        return image.copy()


@pytest.mark.parametrize("profile", ["pdq", "phash-64"])
def test_every_way_in_gives_one_hash(profile):
    expected = [la.fingerprint(file, profile=profile) for file in FILES]
    assert len(set(expected)) > 3
    structs = pa.array([{"bytes": file, "path": "a"} for file in FILES])
    large = pa.array(FILES, pa.large_binary())
    columns: list[Any] = [FILES, pa.array(FILES), large, structs, structs.to_pylist()]
    for column in columns:
        assert la.fingerprint(column, profile=profile) == expected, type(column)
    # Decoders of JPEG round differently; those of the others do not.
    for name, own in zip(NAMES, expected):
        of_pillow = la.fingerprint(opened(name), profile=profile)
        assert (of_pillow ^ own).bit_count() <= (2 if name.endswith("jpg") else 0), name
    grey = opened("grey.jpg")
    wide = Image.frombytes("I;16", grey.size, b"".join(bytes([9, value]) for value in grey.tobytes()))
    assert la.fingerprint([wide, grey], profile=profile, form="hex")[0] == la.fingerprint(
        grey, profile=profile, form="hex"
    )


def test_dedupe_and_the_map_keep_the_same():
    images = MANY
    result = la.dedupe(images, profile="pdq")
    assert (result.k, result.without_features) == (31, 2)
    assert result.dropped_rows == [1, 6, 7] and result.kept_rows[-2:] == [8, 9]
    exact = {row["row"]: row["exact"] for row in result.dropped}
    assert exact == {1: False, 6: False, 7: True} and set(result.dropped[0]) > {"image", "replaced_by"}
    assert la.dedupe(images, profile="pdq", min_quality=0).dropped_rows == [1, 6, 7, 9]
    near = la.NearMap("pdq")
    assert [bool(near.insert_if_novel(str(row), image)) for row, image in enumerate(images)] == [
        row in result.dropped_rows for row in range(len(images))
    ]
    assert near.find(opened("color.jpg"))[0].id == "0"

    of_frame = la.dedupe({"image": images}, profile="pdq")
    assert of_frame.kept_rows == result.kept_rows and "contained" not in of_frame.dropped


def test_the_command_keeps_the_same(tmp_path, command):
    images, result = MANY, la.dedupe(MANY, profile="pdq")
    ids = [str(row) for row in range(len(images))]
    table = pa.table({"id": ids, "image": [{"bytes": image} for image in images]})
    of_table = la.dedupe(table, profile="pdq")
    assert of_table.kept["id"].to_pylist() == [str(row) for row in result.kept_rows]
    assert "contained" not in of_table.dropped.column_names
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": table["id"], "image": images}), tmp_path / "b.parquet")
    with pa.OSFile(str(tmp_path / "c.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "b.parquet", "c.arrow"):
        out = tmp_path / f"unique-{name}"
        command("dedupe", tmp_path / name, "-o", out, "--profile", "pdq")
        kept = pq.read_table(out / name) if "parquet" in name else pa.ipc.open_file(out / name).read_all()
        assert kept["id"].to_pylist() == [str(row) for row in result.kept_rows], name
    lines = [json.dumps({"id": i, "image": base64.b64encode(own).decode()}) for i, own in enumerate(images)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines) + "\n")
    command("dedupe", tmp_path / "d.jsonl", "-o", tmp_path / "unique-d", "--profile", "pdq")
    kept_lines = (tmp_path / "unique-d" / "d.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in kept_lines] == result.kept_rows


def test_compare_says_which_bits_differ():
    found = la.compare(FILES[0], FILES[1], profile="pdq")
    assert found.match and found.quality == (100, 100) and len(found.bits) == found.distance > 0
    a, b = found.hashes
    assert [bit for bit in range(256) if (a ^ b) >> bit & 1] == found.bits
    other = la.compare(FILES[0], opened("rings.png"), profile="phash-64", k=3)
    assert not other.match and other.k == 3 and "do not match" in repr(other)


def test_errors_name_the_argument_and_the_row():
    for call, words in [
        (lambda: la.fingerprint([FILES[0], b"words"], profile="pdq"), "texts: row 1: the bytes are no image"),
        (lambda: la.fingerprint(b"\0\0\0\x18ftypheic", profile="pdq"), "texts: HEIC is not read: convert"),
        (lambda: la.fingerprint(["words"], profile="pdq"), "texts: row 0 is str, not the bytes of an image"),
        (lambda: la.fingerprint("words", profile="pdq"), "texts: images are a list of bytes"),
        (lambda: la.dedupe(FILES, profile="pdq", check=0.5), "check: it is for texts"),
        (lambda: la.dedupe(FILES, profile="pdq", keep="longest"), 'keep: "longest" is for texts'),
        (lambda: la.dedupe({"text": FILES}, profile="pdq"), "text: there is no column 'image'"),
        (lambda: la.compare(FILES[0], FILES[1], profile="pdq", k=257), "k: 257 is larger than 256"),
        (lambda: la.NearMap("pdq").insert_if_novel("a", "words"), "text: row 0 is str"),
    ]:
        with pytest.raises((ValueError, TypeError)) as error:
            call()
        assert str(error.value).startswith(words), error.value

"""Writes N texts as JSON lines (id, text), as long as those of the sets in ../shared/data, but at most 40
sentences: half are new texts of the sentences of a set, half edited copies of texts before them. Equal
arguments give equal bytes.

    python3 benches/side_by_side/texts.py 1000000 > target/million.jsonl

An edited copy has 0 to 15 % of its words (of Chinese: its characters) deleted, replaced or doubled, and in
three of 16 cases also a line of boilerplate, a cut end, or other numbers.
"""

import gzip
import json
import os
import random
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("LOOKALIKE_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))
SETS = ["zh_edits", "zh_revisions", "en_reuters", "en_abstracts"]
SENTENCE = re.compile(r"[^。！？.!?\n]+[。！？.!?\n]*\s*")
# The earlier texts that copies are made of: every text has the same chance to be among them.
REMEMBERED = 100_000


def sources():
    """For each set: its sentences, the number of sentences of each text, and whether words have no spaces."""
    for name in SETS:
        with gzip.open(os.path.join(DATA, name, "docs.jsonl.gz"), "rt", encoding="utf-8") as file:
            texts = [SENTENCE.findall(json.loads(line)["text"]) for line in file]
        sentences = sorted({sentence for text in texts for sentence in text if len(sentence) > 5})
        yield sentences, [min(40, len(text)) for text in texts if text], name.startswith("zh")


def edited(text, is_chinese, rng):
    words, apart = (list(text), "") if is_chinese else (text.split(" "), " ")
    for _ in range(int(len(words) * rng.choice([0, 0.01, 0.03, 0.05, 0.1, 0.15]))):
        at = rng.randrange(len(words))
        words[at] = rng.choice(["", rng.choice(words), words[at] + apart + words[at]])
    text = apart.join(words)
    match rng.randrange(16):
        case 0:
            text = "Share this article | Print | All rights reserved 2026\n" + text
        case 1:
            text = text[: len(text) * 9 // 10]
        case 2:
            text = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text)
    return text


def main():
    count, rng = int(sys.argv[1]), random.Random(2026)
    sets, earlier = list(sources()), []
    for number in range(count):
        if earlier and rng.random() < 0.5:
            text, is_chinese = rng.choice(earlier)
            text = edited(text, is_chinese, rng)
        else:
            sentences, lengths, is_chinese = rng.choice(sets)
            text = "".join(rng.choice(sentences) for _ in range(rng.choice(lengths)))
        if len(earlier) < REMEMBERED:
            earlier.append((text, is_chinese))
        elif (at := rng.randrange(number)) < REMEMBERED:
            earlier[at] = (text, is_chinese)
        print(json.dumps({"id": number, "text": text}, ensure_ascii=False))


if __name__ == "__main__":
    main()

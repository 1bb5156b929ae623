"""What several tests need: texts in several languages with copies, the command, and the shared data."""

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# The command refuses variables of its name that it does not know.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LOOKALIKE_")}
DATA = REPOSITORY.parent / "shared" / "data"

WORDS = {
    "en": "harbour ferry council ticket summer festival morning library station engineer bridge".split(),
    "zh": "市政府 宣布 新的 地铁 线路 将于 下月 开通 图书馆 延长 周末 开放 时间 读者 学生 工程师".split(),
    "ja": "図書館 は 来月 から 週末 の 開館 時間 を 延長 する と 発表 した 学生 駅".split(),
    "ko": "도서관은 다음 달부터 주말 개관 시간을 연장한다고 밝혔다 학생 역 시장".split(),
    "ru": "библиотека объявила продлит время работы выходные читатели студенты станция рынок мост".split(),
    "th": "ห้องสมุด ประกาศ ขยาย เวลา เปิด วัน หยุด ตั้งแต่ เดือน หน้า นักเรียน สถานี".split(),
}


def mixed_texts(count: int, seed: int = 46) -> list[str]:
    """Texts of one or two languages. A third of them are copies of earlier ones: equal, or with edits."""
    chance = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        if texts and chance.random() < 1 / 3:
            words = chance.choice(texts).split(" ")
            for _ in range(chance.choice([0, 1, 1, 3])):
                words[chance.randrange(len(words))] = chance.choice(WORDS["en"])
            texts.append(" ".join(words))
            continue
        languages = chance.sample(sorted(WORDS), chance.choice([1, 1, 2]))
        words = [
            chance.choice(WORDS[language]) for language in languages for _ in range(chance.randrange(60))
        ]
        # Numbers make texts of few different words differ.
        texts.append(" ".join(f"{word}{chance.choice(['', '', chance.randrange(99)])}" for word in words))
    return texts


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return mixed_texts(1_500)


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Runs the command `lookalike` with these arguments, and returns what it prints."""
    path = os.environ.get("LOOKALIKE_TEST_BINARY")
    if not path:
        pytest.skip("LOOKALIKE_TEST_BINARY is not set: it names the command that results are compared with")

    def run(*arguments: object, input: str | None = None) -> str:
        done = subprocess.run(
            [path, *map(str, arguments)],
            capture_output=True,
            input=input,
            encoding="utf-8",
            env=ENVIRONMENT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def lines_of(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder with what other programs answer."""
    folder = DATA / "golden"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: it has the hashes that other programs make")
    return folder

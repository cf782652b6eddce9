"""The operations guide says what the code does."""

import re
from pathlib import Path

from pipeline.bus.topics import Topics
from pipeline.settings import Settings

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md").read_text("utf-8")
DAY_MS = 24 * 60 * 60 * 1000


def kept(config: dict[str, str]) -> str:
    if config["cleanup.policy"] == "compact":
        return "compacted"
    days = int(config["retention.ms"]) // DAY_MS
    return f"{days} day{'s' if days > 1 else ''}"


def test_its_table_of_topics_is_that_of_the_code():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| `video.*$", GUIDE, re.M)]
    clock = {"LogAppendTime": "the broker's", None: "the producer's"}
    assert rows == [
        [
            f"`{topic.name}`",
            str(topic.partitions),
            kept(dict(topic.config)),
            clock[topic.config.get("message.timestamp.type")],
            topic.purpose,
        ]
        for topic in Topics().all()
    ]


def test_the_settings_it_names_exist():
    named = {name.lower() for name in re.findall(r"HALFSECOND_([A-Z0-9_]+)", GUIDE)}
    assert named <= set(Settings.model_fields)

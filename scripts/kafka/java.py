"""The Java that a broker runs on."""

import re
import shutil
import subprocess

from scripts.kafka.errors import KafkaUnavailable

OLDEST = 17
ADVICE = "apt-get install default-jre-headless"


def java() -> str:
    """Return the path of a Java that is new enough. Raises ``KafkaUnavailable``."""
    path = shutil.which("java")
    if path is None:
        raise KafkaUnavailable(f"Apache Kafka runs on Java {OLDEST} or newer, and there is no java: {ADVICE}")
    answer = subprocess.run([path, "-version"], check=False, capture_output=True, text=True)
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None or int(version[1]) < OLDEST:
        found = answer.stderr.strip().partition("\n")[0]
        raise KafkaUnavailable(f"Apache Kafka runs on Java {OLDEST} or newer, and {path} is {found!r}: {ADVICE}")
    return path

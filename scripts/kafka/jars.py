"""The jars that a broker is made of, from Maven Central, each checked against ``jars.sha256``."""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.kafka.errors import BrokerFailed, KafkaUnavailable

POM = Path(__file__).with_name("pom.xml")
CHECKSUMS = Path(__file__).with_name("jars.sha256")
CACHE = Path(__file__).resolve().parents[2] / "build" / "kafka"
MAVEN_S = 600.0
"""44 MB at 100 kB/s, and the plug-in that copies them."""


def fetched(cache: Path = CACHE) -> Path:
    """Return the folder of the jars; the first call downloads them. Safe to call from several processes at once.

    Raises ``KafkaUnavailable`` when they cannot be had here, ``BrokerFailed`` when they are not what they should be.
    """
    libs = cache / "libs"
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / "lock"):
        if wrong_files(libs):
            _download(libs)
    return libs


def wrong_files(libs: Path) -> list[str]:
    """Return the names of jars that are missing, damaged or not ours."""
    present = {path.name: _sha256(path) for path in libs.glob("*.jar")}
    return sorted(name for name, _ in present.items() ^ _checksums().items())


def _checksums() -> dict[str, str]:
    lines = (line.split() for line in CHECKSUMS.read_text("ascii").splitlines())
    return {name: checksum for checksum, name in lines}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(libs: Path) -> None:
    """Replace ``libs`` at the end, and only by the right jars, so that nothing half done is ever found."""
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix="download-") as folder:
        fresh = Path(folder) / "libs"
        _run_maven(fresh)
        if wrong := set(wrong_files(fresh)):
            raise BrokerFailed(f"Maven brought jars that are not those of {CHECKSUMS.name}: {', '.join(sorted(wrong))}")
        shutil.rmtree(libs, ignore_errors=True)
        fresh.rename(libs)


def _run_maven(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("Apache Kafka's jars come through Maven, and there is no mvn: apt-get install maven")
    command = [maven, "--quiet", "--batch-mode", "--file", str(POM), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=MAVEN_S, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        raise KafkaUnavailable(f"Maven could not bring Apache Kafka's jars:\n{error.stdout[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"Maven did not bring Apache Kafka's jars within {MAVEN_S:.0f} s") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time in."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

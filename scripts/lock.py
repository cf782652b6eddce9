"""Renew the lock files: one for the core, one for development, one for each supported extra.

Hashes of every artefact, no address of any index. Needs uv (``pip install uv``).
"""

import subprocess
import sys

LOCKS = {
    "core": ["pyproject.toml", "requirements/build.in"],
    "dev": ["pyproject.toml", "requirements/build.in", "--extra", "dev"],
    "whisper": ["pyproject.toml", "requirements/build.in", "--extra", "whisper"],
}


def main() -> None:
    """Write requirements/<name>.txt for every lock."""
    for name, inputs in LOCKS.items():
        target = f"requirements/{name}.txt"
        command = ["uv", "pip", "compile", *inputs, "--output-file", target, "--quiet", "--generate-hashes"]
        command += ["--no-emit-index-url", "--python-version", "3.11", "--universal"]
        command += ["--custom-compile-command", "make lock"]
        subprocess.run([sys.executable, "-m", *command], check=True)
        print("wrote", target)


if __name__ == "__main__":
    main()

"""``make contract``: writes ``docs/asyncapi.yaml`` and ``docs/schemas/`` from the code."""

from pathlib import Path

from pipeline.contract import documents

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Write every document; take away schemas that are no more."""
    texts = documents()
    for stale in (DOCS / "schemas").glob("*.json"):
        if f"schemas/{stale.name}" not in texts:
            stale.unlink()
    for name, text in texts.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()

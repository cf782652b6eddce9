"""The catalogues that ship, and catalogues that are wrong."""

import pytest

from pipeline.weights.catalog import Catalog, Kind, join, load_catalog, parse
from pipeline.weights.errors import BadCatalog, UnknownEntry
from pipeline.weights.store import State, WeightStore

GOOD = """
[[model]]
name = "ear"
title = "Ear"
used_for = "listening"
licence = "MIT"
kind = "registry"
packages = [{ pin = "tiny-ear==1.0", bytes = 10 }]
[[model.files]]
name = "model.bin"
bytes = 3
sha256 = "SHA"
parts = [{ package = "tiny-ear==1.0", member = "tiny_ear/model.bin" }]
""".replace("SHA", "0" * 64)


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog()


def test_every_shipped_model_has_a_permissive_licence(shipped: Catalog) -> None:
    assert {entry.licence for entry in shipped} <= {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause"}


def test_every_file_we_fetch_is_pinned_by_size_and_hash(shipped: Catalog) -> None:
    files = [file for entry in shipped if entry.kind is not Kind.EXTERNAL for file in entry.files]
    assert files
    assert all(file.pinned for file in files)


def test_files_inside_packages_are_the_pinned_ones(shipped: Catalog, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = WeightStore(tmp_path_factory.mktemp("none"), catalog=shipped)
    inside = [entry for entry in shipped if entry.kind in (Kind.BUNDLED, Kind.INSTALLED)]
    assert {entry.name: store.state(entry) for entry in inside} == {entry.name: State.PRESENT for entry in inside}


def test_a_good_catalogue_is_read() -> None:
    (entry,) = parse(GOOD, origin="here")
    assert (entry.source, entry.size_bytes, entry.file("model.bin").bytes) == ("tiny-ear==1.0", 3, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('licence = "MIT"', 'license = "MIT"'),
        ("bytes = 3", ""),
        ("bytes = 3", 'bytes = "3"'),
        ("0" * 64, "0" * 63),
        ('"tiny_ear/model.bin"', '"tiny_ear/../model.bin"'),
        ('"tiny_ear/model.bin"', '"/etc/passwd"'),
        ('name = "model.bin"', 'name = "../model.bin"'),
        ('name = "ear"', 'name = ".ear"'),
        ("tiny-ear==1.0", "tiny-ear>=1.0"),
        ("tiny-ear==1.0", "tiny-ear"),
        ('pin = "tiny-ear==1.0"', 'pin = "other==1.0"'),
        ('kind = "registry"', 'kind = "magic"'),
        ('"ear"', '"ear'),
    ],
)
def test_a_mistake_in_a_catalogue_is_named_with_its_file(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(BadCatalog, match=r"^MODEL_MISSING: here: "):
        parse(GOOD.replace(old, new), origin="here")


CONVERSION = f'conversion = {{ to = "q8_0", bytes = 2, sha256 = "{"1" * 64}" }}'


def test_a_converted_file_has_its_own_size_and_that_of_its_origin() -> None:
    (entry,) = parse(f"{GOOD}{CONVERSION}", origin="here")
    assert (entry.size_bytes, entry.converted_bytes, entry.files[0].joined_bytes) == (3, 2, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q8_0", "q9_9"),
        ("bytes = 2", ""),
        ("1" * 64, "1"),
        ('kind = "registry"\npackages = [{ pin = "tiny-ear==1.0", bytes = 10 }]', 'kind = "installed"'),
    ],
)
def test_a_mistake_in_a_conversion_is_named(old: str, new: str) -> None:
    text = f"{GOOD}{CONVERSION}"
    assert old in text
    with pytest.raises(BadCatalog, match=r"^MODEL_MISSING: here: "):
        parse(text.replace(old, new), origin="here")


def test_a_name_may_occur_once_only() -> None:
    with pytest.raises(BadCatalog, match="twice: ear"):
        join([parse(GOOD, origin="a"), parse(GOOD, origin="b")])


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownEntry, match="'nose'; there are: ear"):
        join([parse(GOOD, origin="a")]).entry("nose")

"""The accuracy report: how objects and scenes are scored."""

from benchmarks.media import load_clips, media_root
from benchmarks.sights import ListedObject, ObjectTruth, is_sensible, load_object_truth, score_objects
from schemas.result import Label, ObjectSummary
from stages.vocabulary import Coco


def seen(label: str, t_start_s: float = 0.0, t_end_s: float = 10.0) -> ObjectSummary:
    return ObjectSummary(label=label, max_count=1, t_start_s=t_start_s, t_end_s=t_end_s, score=0.5)


def test_a_listed_object_is_found_by_its_label() -> None:
    score = score_objects(ObjectTruth((ListedObject("person"), ListedObject("tv"))), [seen("person")])
    assert score.found == ("person",)
    assert score.missed == ("tv",)


def test_an_object_seen_at_another_time_is_missed() -> None:
    truth = ObjectTruth((ListedObject("car", 1.0, 4.0),))
    assert score_objects(truth, [seen("car", 4.6, 6.0)]).missed == ("car",)
    assert score_objects(truth, [seen("car", 3.5, 6.0)]).found == ("car",)


def test_other_labels_are_false_only_where_the_list_is_complete() -> None:
    listed = (ListedObject("bottle"),)
    sightings = [seen("bottle"), seen("vase"), seen("person")]
    complete = ObjectTruth(listed, allowed=frozenset({"person"}), complete=True)
    assert score_objects(complete, sightings).false == ("vase",)
    assert score_objects(ObjectTruth(listed), sightings).false is None


def test_the_scene_is_judged_by_its_best_label() -> None:
    sensible = frozenset({"office", "shop"})
    assert is_sensible(sensible, (Label(label="shop", score=0.4), Label(label="kitchen", score=0.2)))
    assert not is_sensible(sensible, (Label(label="kitchen", score=0.4), Label(label="shop", score=0.2)))
    assert not is_sensible(sensible, ())


def test_the_truth_speaks_of_every_clip_with_pictures_in_coco_words() -> None:
    truth = load_object_truth()
    assert {clip.name for clip in load_clips(media_root()) if clip.has_video} <= truth.keys()
    coco = set(Coco.load().labels)
    for name, entry in truth.items():
        assert {thing.label for thing in entry.listed} | entry.allowed <= coco, name

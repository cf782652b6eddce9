"""Rectangles, in fractions of a picture or in any other unit."""

from schemas.result import BoxFractions


def area(box: BoxFractions) -> float:
    """Return the area, never negative."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def overlap(a: BoxFractions, b: BoxFractions) -> float:
    """Return intersection over union, in [0, 1]; 0 for two boxes without area."""
    common = area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    union = area(a) + area(b) - common
    return common / union if union > 0 else 0.0

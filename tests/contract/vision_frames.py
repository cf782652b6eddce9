"""Frames of real clips for the vision stages' tests, decoded here and now without the decode pool."""

from pathlib import Path

import av
import numpy as np

from schemas.media import Frame

HARD = "hard"
MAX_SIDE_PX = 640


def sampled(clip: Path, count: int) -> list[Frame]:
    """Return the frames nearest to the middles of ``count`` equal parts of ``clip``, scaled down."""
    with av.open(str(clip)) as container:
        stream = container.streams.best("video")
        pictures = [(float(f.pts * f.time_base), f) for f in container.decode(stream) if f.pts is not None]
    pictures.sort(key=lambda picture: picture[0])
    begin_s, end_s = pictures[0][0], pictures[-1][0]
    wanted = [begin_s + (i + 0.5) * (end_s - begin_s) / count for i in range(count)]
    chosen = [min(pictures, key=lambda picture, t=t: abs(picture[0] - t)) for t in wanted]
    return [_frame(index, t_s - begin_s, picture) for index, (t_s, picture) in enumerate(chosen)]


def _frame(index: int, t_s: float, picture: av.VideoFrame) -> Frame:
    scale = min(1.0, MAX_SIDE_PX / max(picture.width, picture.height))
    size = {"width": round(picture.width * scale), "height": round(picture.height * scale)}
    image = np.ascontiguousarray(picture.to_ndarray(format="rgb24", **size))
    return Frame(index, t_s, image, picture.width, picture.height)

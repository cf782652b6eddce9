"""The composition root: the only place where parts are made and put together."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import as_file
from pathlib import Path

from llm_engine.backends.embedding import EmbeddingEngine
from llm_engine.backends.use import UseEncoder
from llm_engine.keywords import KeywordFinder
from llm_engine.labels import load_vocabulary
from llm_engine.offload import Offload
from llm_engine.understanding import Reader
from pipeline.allocator import give_back, use_few_arenas
from pipeline.analyze import Analyzer
from pipeline.forecast import PRIORS_MS
from pipeline.job_run import Workshop
from pipeline.language_model import open_language_model
from pipeline.latency import LatencyBook
from pipeline.latency_file import LatencyFile
from pipeline.offload import SlotOffload
from pipeline.settings import Settings, instruction_set_limits
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from pipeline.warm_up import warm_up
from pipeline.weights.catalog import load_catalog
from pipeline.weights.store import WeightStore
from schemas.deadline import Deadline
from schemas.job import Lane, Source, VideoJob
from stages.backends.efficientnet import EfficientNetLite
from stages.backends.onnx import open_session
from stages.backends.open_nsfw import OpenNsfw
from stages.backends.rapid_ocr import RapidOcr
from stages.backends.ssd import SsdMobileNet
from stages.backends.whisper_ct2 import Ctranslate2Whisper
from stages.backends.yolox import Yolox
from stages.base import Compute
from stages.confirm import Confirmer
from stages.detect import Detector, ObjectModel
from stages.media.limits import MediaLimits
from stages.ocr import TextReader
from stages.scene import SceneClassifier
from stages.sentiment import Sentiment
from stages.speech_sample import sample_file
from stages.text_language import TextLanguage
from stages.transcribe import Transcriber
from stages.unsafe import UnsafeClassifier
from stages.vad import Vad
from stages.whisper import Whisper
from stages.workers import DecodePool


@asynccontextmanager
async def open_analyzer(settings: Settings, *, for_patient: int | None = None) -> AsyncIterator[Analyzer]:
    """Load every model, start the decoders, run each once, and yield the analyzer. Closes all of it afterwards.

    ``for_patient``: CPU slots for clips without a deadline where others may come; None: all of them.

    Raises ``ConfigurationError`` when weights are missing or a setting cannot be met.
    """
    use_few_arenas()
    async with AsyncExitStack() as stack:
        slots = CpuSlots(settings.cpu_slots, clock=time.monotonic, for_patient=for_patient)
        stack.callback(slots.close)
        latencies = LatencyBook(PRIORS_MS)
        costs = LatencyFile(
            settings.cache_dir / "latencies", cores=settings.cpu_slots, held_to=instruction_set_limits()
        )
        measured = costs.load_into(latencies)
        weights = WeightStore(settings.cache_dir / "weights", catalog=load_catalog())
        text, llm = (
            SlotOffload(slots, latencies, key=key, rank=rank)
            for key, rank in (("text", Rank.CHAIN), ("llm", Rank.EXTRA))
        )
        tools, language_model = await asyncio.gather(
            asyncio.to_thread(_load_tools, settings, weights, text),
            open_language_model(settings, weights, offload=llm),
        )
        if language_model is not None:
            stack.push_async_callback(language_model.close)
            tools = replace(tools, reader=replace(tools.reader, llm=language_model))
        decoders = await stack.enter_async_context(
            DecodePool(workers=settings.decode_workers, limits=_media_limits(settings))
        )
        await warm_up(tools, slots=slots, latencies=latencies, measured=measured)
        analyzer = Analyzer(Workshop(tools, decoders, slots, latencies), clock=time.monotonic)
        await _rehearse(analyzer)
        costs.save(latencies)
        stack.callback(costs.save, latencies)
        give_back()
        yield analyzer


async def _rehearse(analyzer: Analyzer) -> None:
    """Let one clip go all the way: the first one through decoders and fusion pays for what is lazy there."""
    with as_file(sample_file("en")) as path:
        job = VideoJob(video_id="rehearsal", source=Source(uri="file:///rehearsal"), lane=Lane.BACKFILL)
        await analyzer.analyze(job, path, deadline=Deadline.never())
    analyzer.workshop.latencies.forget("fuse")


def _media_limits(settings: Settings) -> MediaLimits:
    return MediaLimits(
        max_bytes=settings.max_file_bytes,
        max_duration_s=settings.max_duration_s,
        max_pixels=settings.max_pixels,
        memory_bytes=settings.decoder_memory_bytes,
    )


def _load_tools(settings: Settings, weights: WeightStore, offload: Offload) -> Toolbox:
    """Load all models, side by side: most of the time is reading files and building graphs, outside the GIL."""
    compute = Compute(providers=settings.providers, threads=1)
    with ThreadPoolExecutor(thread_name_prefix="load") as pool:
        detector = pool.submit(_object_model, settings, weights, compute)
        classifier = pool.submit(EfficientNetLite.shipped, compute)
        unsafe = pool.submit(OpenNsfw, weights.path("open-nsfw", "open-nsfw.onnx"), compute=compute)
        ocr = pool.submit(_text_reader, weights, compute)
        vad = pool.submit(Vad, weights.path("silero-vad", "silero_vad_16k_sequence.onnx"), compute)
        transcriber = pool.submit(_transcriber, settings, weights, compute)
        reader = pool.submit(_reader, weights, offload)
        language = pool.submit(TextLanguage)
        return Toolbox(
            detect=Detector(detector.result()),
            confirm=Confirmer(classifier.result()),
            scene=SceneClassifier(classifier.result()),
            unsafe=UnsafeClassifier(unsafe.result()),
            ocr=ocr.result(),
            vad=vad.result(),
            transcribe=transcriber.result(),
            sentiment=Sentiment(),
            text_language=language.result(),
            reader=reader.result(),
        )


def _object_model(settings: Settings, weights: WeightStore, compute: Compute) -> ObjectModel:
    if settings.detector == "yolox":
        return Yolox(
            open_session(settings.yolox_path or weights.path("yolox-nano", "yolox_nano.onnx"), compute=compute)
        )
    network, anchors, labels = (
        weights.path("ssd-mobilenet-v3", f"ssd_mobilenet_v3.{ending}")
        for ending in ("onnx", "anchors.npy", "labels.txt")
    )
    return SsdMobileNet(network, anchors=anchors, labels=labels, compute=compute)


def _text_reader(weights: WeightStore, compute: Compute) -> TextReader:
    detector, recogniser = (weights.path("pp-ocrv6-small", f"PP-OCRv6_{part}_small.onnx") for part in ("det", "rec"))
    return TextReader(RapidOcr(detector, recogniser, compute=compute))


def _transcriber(settings: Settings, weights: WeightStore, compute: Compute) -> Transcriber:
    load = partial(_whisper, settings=settings, compute=compute)
    transcriber = Transcriber(
        english=load(weights.folder("whisper-tiny.en")), multilingual=load(weights.folder("whisper-base"))
    )
    transcriber.warm()
    return transcriber


def _whisper(folder: Path, *, settings: Settings, compute: Compute) -> Whisper:
    if settings.asr_backend == "openai":
        from stages.backends.whisper_openai import OpenaiWhisper  # brings torch

        return OpenaiWhisper(folder, compute=compute, device=settings.asr_device)
    return Ctranslate2Whisper(folder, compute=compute, parallel=settings.cpu_slots)


def _reader(weights: WeightStore, offload: Offload) -> Reader:
    encoder = UseEncoder(
        weights=weights.path("use-multilingual-v3", "weights.npz"),
        vocabulary=weights.path("use-multilingual-v3", "sp.model"),
        threads=1,
    )
    return Reader(EmbeddingEngine(encoder, offload=offload), load_vocabulary(), KeywordFinder())

"""``python -m benchmarks.service_fifo``: the same analyzer behind the loop that anybody would write first.

One clip after another in the order they come, each with the whole budget from when it is taken up.
"""

import asyncio
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import kafka

from pipeline.app import open_analyzer
from pipeline.bus.topics import Topics
from pipeline.settings import load_settings
from schemas.deadline import Deadline
from schemas.job import VideoJob

BUDGET_S = 0.5


async def main() -> None:
    """Answer jobs until killed."""
    settings = load_settings()
    topics, servers = Topics(settings.topic_prefix), settings.kafka_bootstrap
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    consumer = kafka.KafkaConsumer(
        topics.realtime,
        bootstrap_servers=servers,
        group_id=os.environ["HALFSECOND_GROUP_ID"],
        auto_offset_reset="earliest",
    )
    async with open_analyzer(settings) as analyzer:
        for record in consumer:
            job = VideoJob.model_validate_json(record.value)
            path = Path(unquote(urlsplit(job.source.uri).path))
            analysis = await analyzer.analyze(job, path, deadline=Deadline.after(BUDGET_S))
            producer.send(topics.results, key=job.video_id.encode(), value=analysis.result.model_dump_json().encode())


if __name__ == "__main__":
    asyncio.run(main())

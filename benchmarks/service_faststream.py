"""``python -m benchmarks.service_faststream``: the work of part "orchestration" as a FastStream program.

At its defaults, over confluent-kafka, but for ``max_workers``: with one, it waits for each answer to be stored before
it looks at the next job.
"""

import asyncio
import os

from faststream import FastStream
from faststream.confluent import KafkaBroker, KafkaResponse

from benchmarks.service_pure import answer

AT_ONCE = 64


def main() -> None:
    """Answer jobs until told to stop."""
    prefix = os.environ["HALFSECOND_TOPIC_PREFIX"]
    broker = KafkaBroker(os.environ["HALFSECOND_KAFKA_BOOTSTRAP"])

    @broker.subscriber(
        f"{prefix}video.jobs.realtime",
        group_id=os.environ["HALFSECOND_GROUP_ID"],
        auto_offset_reset="earliest",
        max_workers=AT_ONCE,
        decoder=lambda message: message.body,
    )
    @broker.publisher(f"{prefix}video.results")
    async def handle(message: bytes) -> KafkaResponse:
        key, result = answer(message)
        return KafkaResponse(result, key=key.encode())

    asyncio.run(FastStream(broker).run(log_level=30))


if __name__ == "__main__":
    main()

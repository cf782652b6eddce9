"""``python -m benchmarks.service_quix``: the work of part "orchestration" as a Quix Streams program, all defaults."""

import os

from quixstreams import Application

from benchmarks.service_pure import answer


def main() -> None:
    """Answer jobs until told to stop."""
    prefix = os.environ["HALFSECOND_TOPIC_PREFIX"]
    app = Application(
        broker_address=os.environ["HALFSECOND_KAFKA_BOOTSTRAP"],
        consumer_group=os.environ["HALFSECOND_GROUP_ID"],
        auto_offset_reset="earliest",
        auto_create_topics=False,
        loglevel="WARNING",
    )
    jobs = app.topic(f"{prefix}video.jobs.realtime", value_deserializer="bytes")
    results = app.topic(f"{prefix}video.results", value_serializer="bytes")
    app.dataframe(jobs).apply(lambda message: answer(message)[1]).to_topic(results)  # keyed as the job is: by its video
    app.run()


if __name__ == "__main__":
    main()

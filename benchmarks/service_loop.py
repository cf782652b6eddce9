"""``python -m benchmarks.service_loop``: the work of part "orchestration" as the shortest loop over our Kafka client.

What reading, checking and answering costs when nobody keeps deadlines, order of commits, or an eye on anything.
"""

import os

import kafka

from benchmarks.service_pure import answer


def main() -> None:
    """Answer jobs until killed."""
    prefix, servers = os.environ["HALFSECOND_TOPIC_PREFIX"], os.environ["HALFSECOND_KAFKA_BOOTSTRAP"]
    producer = kafka.KafkaProducer(bootstrap_servers=servers, metrics_enabled=False)
    consumer = kafka.KafkaConsumer(
        f"{prefix}video.jobs.realtime",
        bootstrap_servers=servers,
        group_id=os.environ["HALFSECOND_GROUP_ID"],
        auto_offset_reset="earliest",
        metrics_enabled=False,
    )
    for record in consumer:
        key, result = answer(record.value)
        producer.send(f"{prefix}video.results", key=key.encode(), value=result)


if __name__ == "__main__":
    main()

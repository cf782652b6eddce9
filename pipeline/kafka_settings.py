"""How the settings say to reach Kafka."""

from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.settings import Settings


def kafka_connection(settings: Settings) -> KafkaConnection:
    """Return how to reach the broker."""
    password = settings.kafka_password
    return KafkaConnection(
        bootstrap=settings.kafka_bootstrap,
        security=settings.kafka_security,
        mechanism=settings.kafka_mechanism,
        username=settings.kafka_username,
        password=None if password is None else password.get_secret_value(),
        ca_file=settings.kafka_ca_file,
    )

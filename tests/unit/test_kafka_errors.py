"""What kafka-python raises becomes one error that says what failed, where, and what to check."""

import pytest
from kafka import errors

from pipeline.bus.errors import BusError, Fenced, StaleMember
from pipeline.bus.kafka_connection import KafkaConnection, bus_error, bus_errors

PLAIN = KafkaConnection("broker:9092")
WITH_PASSWORD = KafkaConnection("broker:9092", security="SASL_SSL", username="u", password="secret")
UNREACHABLE = errors.KafkaTimeoutError("Unable to bootstrap from ['broker:9092']")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (UNREACHABLE, BusError, True),
        (errors.ProducerFencedError(), Fenced, False),
        (errors.InvalidProducerEpochError(), Fenced, False),
        (errors.CommitFailedError(), StaleMember, False),
        (errors.IllegalGenerationError(), StaleMember, False),
        (errors.UnknownMemberIdError(), StaleMember, False),
        (errors.RebalanceInProgressError(), BusError, True),
        (errors.KafkaConnectionError("gone"), BusError, True),
        (errors.NotEnoughReplicasError(), BusError, True),
        (errors.UnknownTopicOrPartitionError(), BusError, True),
        (errors.SaslAuthenticationFailedError(), BusError, False),
        (errors.TopicAuthorizationFailedError({"t"}), BusError, False),
        (errors.MessageSizeTooLargeError(), BusError, False),
    ],
)
def test_errors_are_sorted_by_what_can_be_done_about_them(
    error: Exception, kind: type[BusError], retryable: bool
) -> None:
    found = bus_error(error, doing="could not do it", connection=PLAIN)
    assert type(found) is kind
    assert found.retryable is retryable
    assert found.message.startswith("could not do it (broker:9092): ")


@pytest.mark.parametrize(
    ("connection", "error", "hint"),
    [
        (PLAIN, UNREACHABLE, "check that it runs"),
        (PLAIN, UNREACHABLE, "plain connection"),
        (WITH_PASSWORD, UNREACHABLE, "user name, password and mechanism (SCRAM-SHA-512)"),
        (KafkaConnection("broker:9092", security="SSL"), UNREACHABLE, "certificate"),
        (WITH_PASSWORD, errors.SaslAuthenticationFailedError(), "authentication failed"),
        (PLAIN, errors.TopicAuthorizationFailedError({"t"}), "ACL"),
        (PLAIN, errors.UnknownTopicOrPartitionError(), "no such topic"),
    ],
)
def test_messages_say_what_to_check(connection: KafkaConnection, error: Exception, hint: str) -> None:
    message = bus_error(error, doing="x", connection=connection).message
    assert hint in message
    assert "secret" not in message


def test_the_password_is_in_no_representation() -> None:
    assert "secret" not in repr(WITH_PASSWORD)


@pytest.mark.parametrize("error", [ValueError("wrong option"), RuntimeError("closed"), OSError("no such host")])
def test_other_errors_of_the_client_are_bus_errors_too(error: Exception) -> None:
    with pytest.raises(BusError, match=str(error)), bus_errors("could not do it", PLAIN):
        raise error

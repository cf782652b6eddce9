"""How to reach the broker, and what to tell people when it cannot be reached."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import errors

from pipeline.bus.errors import BusError, Fenced, StaleMember

CONNECT_TIMEOUT_S = 5.0
"""How long a new client waits for a broker. A person or a supervisor waits: rather an error now than hope."""

_FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.FencedInstanceIdError)
_STALE = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
    errors.FencedMemberEpochError,
)
_NO_LOGIN = (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError)
_PASSES = (errors.RetriableError, errors.RebalanceInProgressError, errors.BrokerNotAvailableError)


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Addresses and credentials. ``bootstrap``: ``host:port``, several with commas. ``security``: Kafka's own names."""

    bootstrap: str
    security: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str | None = None
    password: str | None = None
    ca_file: Path | None = None

    def __repr__(self) -> str:
        return f"KafkaConnection({self.bootstrap!r}, {self.security})"  # never the password

    def options(self) -> dict[str, Any]:
        """Return what every kafka-python client is given."""
        options: dict[str, Any] = {
            "bootstrap_servers": [server.strip() for server in self.bootstrap.split(",") if server.strip()],
            "bootstrap_timeout_ms": int(CONNECT_TIMEOUT_S * 1000),
            "reconnect_backoff_max_ms": 1000,  # a broker that restarts is back in seconds, and so are we
            "security_protocol": self.security,
            "ssl_cafile": None if self.ca_file is None else str(self.ca_file),
        }
        if self.security.startswith("SASL"):
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return options


@contextmanager
def bus_errors(doing: str, connection: KafkaConnection) -> Iterator[None]:
    """Turn kafka-python's errors into ``BusError`` that says what failed, where, and what to check."""
    try:
        yield
    except errors.KafkaError as error:
        raise bus_error(error, doing=doing, connection=connection) from error
    except (ValueError, RuntimeError, OSError) as error:  # a wrong option, a client that was closed, no such host
        raise BusError(f"{doing}: {error}", retryable=isinstance(error, OSError)) from error


def bus_error(error: BaseException, *, doing: str, connection: KafkaConnection) -> BusError:
    """Return what ``error`` means for us."""
    text = f"{doing} ({connection.bootstrap}): {_reason(error, connection)}"
    if isinstance(error, _FENCED):
        return Fenced(text)
    if isinstance(error, _STALE):
        return StaleMember(text)
    return BusError(text, retryable=isinstance(error, _PASSES) and not isinstance(error, _NO_LOGIN))


def _reason(error: BaseException, connection: KafkaConnection) -> str:
    if isinstance(error, _NO_LOGIN):
        return f"authentication failed; check user name, password and mechanism ({connection.mechanism})"
    if isinstance(error, errors.AuthorizationError):
        return f"this user has not the right to do that ({_words(error)}); check the broker's ACLs"
    if isinstance(error, errors.MessageSizeTooLargeError):
        return "the message is larger than the broker takes"
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return "there is no such topic; create it first"
    if isinstance(error, errors.KafkaTimeoutError) and "bootstrap" in str(error):
        return _unreachable(connection)
    return _words(error)


def _unreachable(connection: KafkaConnection) -> str:
    hint = "no broker answers there; check that it runs and that address and port are right"
    if connection.security == "PLAINTEXT":
        return f"{hint}, and whether it wants TLS or a password (this was a plain connection)"
    if connection.security.startswith("SASL"):
        return f"{hint}, and that user name, password and mechanism ({connection.mechanism}) are right"
    return f"{hint}, and that its certificate is signed by the CA given"


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__

"""Why there is no broker."""


class KafkaUnavailable(Exception):
    """Raised when this machine lacks what a broker is made of. The message says what to do about it."""


class BrokerFailed(Exception):
    """Raised when a broker that should run does not. The message ends with the end of its log."""


class PortTaken(BrokerFailed):
    """Raised when somebody else listens on the broker's port."""

"""A clock that stands still until a test moves it."""


class ManualClock:
    """Begins at 100 s."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_ms(self, ms: float) -> None:
        """Move it on."""
        self.now_s += ms / 1e3

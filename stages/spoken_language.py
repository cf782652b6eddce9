"""Which language each stretch of speech is in, asking the model as seldom as possible."""

from collections.abc import Callable, Mapping, Sequence

from schemas.perception import SpeechSpan

Probabilities = Mapping[str, float]
"""Probability by ISO 639-1 code."""

Listen = Callable[[SpeechSpan], Probabilities]
"""Asks a model what language a stretch is in. Costs some 30 ms."""

LANGUAGES = "ar ca cs da de el en es fi fr he hi hu id it ja ko ms nl no pl pt ro ru sv ta th tr uk ur vi zh"
"""Those with more than 100 hours of transcribed speech in Whisper's training set (appendix E of its paper), and Hindi.
The others cannot be transcribed by a small model; left in, they win on mumbled English (Welsh, Hawaiian, Maori)."""

MIN_LISTEN_S = 1.5
"""Shorter stretches are not asked about: one in three is misjudged."""

SURE = 0.7
"""Probability at which a stretch may differ from the others. English and Mandarin speech mostly reaches 0.9."""

MAX_UNHEARD_S = 8.0
"""As much speech between two stretches of one language is taken to be in that language too."""

HINT_WEIGHT = 3.0
"""How much likelier the hinted language is before anything is heard."""


def languages_of(spans: Sequence[SpeechSpan], *, listen: Listen, hint: str | None = None) -> list[str]:
    """Return the language of every span.

    Listens to the first and the last one that is long enough. When they differ and both are sure, the change is
    searched by halving; when one is unsure, both are in the language that they speak for together. Long speech is
    listened to in between. Spans that nobody listened to go with the one before.
    """
    search = _Search(spans, listen=listen, hint=hint)
    first, last = search.long[0], search.long[-1]
    found = {first: search.best(first), last: search.best(last)}
    if not (search.sure(first) and search.sure(last)):
        found = dict.fromkeys((first, last), search.best(first, last))
    search.settle(0, len(search.long) - 1, found)
    languages: list[str] = []
    for index in range(len(spans)):
        languages.append(found.get(index, languages[-1] if languages else found[first]))
    return languages


def weighted(heard: Probabilities, *, hint: str | None) -> dict[str, float]:
    """Return the probabilities of ``LANGUAGES``, the hinted one made likelier, adding up to 1."""
    weights = {k: heard.get(k, 0.0) * (HINT_WEIGHT if k == hint else 1.0) for k in LANGUAGES.split()}
    total = sum(weights.values()) or 1.0
    return {language: weight / total for language, weight in weights.items()}


class _Search:
    """Remembers what was heard. Spans are named by their index."""

    def __init__(self, spans: Sequence[SpeechSpan], *, listen: Listen, hint: str | None) -> None:
        self._lengths_s = [span.end_s - span.start_s for span in spans]
        self.long = [i for i, length_s in enumerate(self._lengths_s) if length_s >= MIN_LISTEN_S]
        self.long = self.long or [max(range(len(spans)), key=self._lengths_s.__getitem__)]
        self._spans = spans
        self._listen = listen
        self._hint = hint
        self._heard: dict[int, Probabilities] = {}

    def best(self, *indices: int) -> str:
        """Return the likeliest language of some spans taken together."""
        heard = [self._hear(index) for index in indices]
        return max(heard[0], key=lambda language: sum(h[language] for h in heard))

    def sure(self, index: int) -> bool:
        """Whether the span may have a language of its own."""
        return max(self._hear(index).values()) >= SURE

    def settle(self, low: int, high: int, found: dict[int, str]) -> None:
        """Fill ``found`` between two positions of ``long`` whose languages are in it."""
        between = self.long[low + 1 : high]
        before, after = found[self.long[low]], found[self.long[high]]
        if before == after and sum(map(self._lengths_s.__getitem__, between)) <= MAX_UNHEARD_S:
            found.update(dict.fromkeys(between, before))
        elif between:
            middle = (low + high) // 2
            index = self.long[middle]
            likelier = max(before, after, key=self._hear(index).__getitem__)
            found[index] = self.best(index) if self.sure(index) else likelier
            self.settle(low, middle, found)
            self.settle(middle, high, found)

    def _hear(self, index: int) -> Probabilities:
        if index not in self._heard:
            self._heard[index] = weighted(self._listen(self._spans[index]), hint=self._hint)
        return self._heard[index]

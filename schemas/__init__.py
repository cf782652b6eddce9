"""The shared vocabulary: what every other package speaks, without any I/O.

Wire types are pydantic models (frozen, extra fields refused). In-process types are frozen dataclasses.
"""

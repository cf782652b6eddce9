"""Backends: the only files that import a model runtime."""

"""Engine backends: the only files that import a runtime."""

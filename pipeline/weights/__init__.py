"""The pinned weights: what there is (catalog), what lies on disk (store), how it gets there (pull, sources)."""

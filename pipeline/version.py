"""The version of the pipeline, part of every result."""

PIPELINE_VERSION = "0.1.0"

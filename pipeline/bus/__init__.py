"""Kafka behind a small interface: records in, records out, offsets committed."""

"""A real Apache Kafka on this machine: one broker, for trying things out and for the tests."""

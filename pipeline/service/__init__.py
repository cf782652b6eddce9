"""The realtime service: records in, one answer each out, within the deadline, through crashes and overload."""

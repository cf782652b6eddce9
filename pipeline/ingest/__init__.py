"""From a record on the bus to a job with its deadline. Pure; everything that comes in is hostile."""

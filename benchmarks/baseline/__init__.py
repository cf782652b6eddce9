"""What a user would otherwise script for the same outputs. Runs in its own environment and imports nothing of ours."""

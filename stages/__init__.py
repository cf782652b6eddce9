"""The perception stages: one file each, over interchangeable backends. No stage knows of another."""

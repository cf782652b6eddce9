"""Orchestration: the deadline, the plan, the fusion, and the ways in and out."""

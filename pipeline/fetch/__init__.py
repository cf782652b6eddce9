"""From a claim check to bytes on this machine: a job names where its clip lies, and this package brings it here.

``Fetcher`` (``fetcher.py``) is the door. Whatever a job says is hostile: see ``docs/SECURITY.md`` for what is checked
where.
"""

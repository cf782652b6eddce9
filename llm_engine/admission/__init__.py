"""What stands in front of any engine: seats, deadlines, forecasts, a result cache, routes, replicas, idleness.

Every front is an ``LLMEngine`` before another. ``admit`` puts them together; a ``Router`` joins several of these.
"""

from llm_engine.admission.breaker import BreakerSettings
from llm_engine.admission.replicas import ProbeSettings
from llm_engine.admission.result_cache import StoreLimits
from llm_engine.admission.router import Router, RouteTable
from llm_engine.admission.stack import AdmissionPolicy, admit

__all__ = ["AdmissionPolicy", "BreakerSettings", "ProbeSettings", "RouteTable", "Router", "StoreLimits", "admit"]

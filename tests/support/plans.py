"""Plans of requests and facts that a test makes up."""

from __future__ import annotations

from xpubuild.engine.model import Plan
from xpubuild.install.planner import make_context, make_plan
from xpubuild.install.request import Facts, Request


def plan_of(request: Request, facts: Facts) -> Plan:
    """Return the plan of a request on a host with these facts."""
    return make_plan(make_context(request, facts))

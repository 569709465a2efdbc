"""From options to a plan, and from a plan to a workspace: target, plan, apply, receipt, lock, fetch."""

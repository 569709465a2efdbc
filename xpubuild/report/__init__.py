"""The report of a workspace: what its files tell of the builds in it, as one document and as a trace."""

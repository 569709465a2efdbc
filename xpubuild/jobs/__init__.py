"""Jobs for a batch system: plans become a folder of plain scripts; then what became of its jobs."""

"""Configuration files of sites, users and projects: one format, one order, one place for settings."""

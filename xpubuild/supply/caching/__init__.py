"""Compile caches (ccache, sccache): which one a build uses and how, and what it hit."""

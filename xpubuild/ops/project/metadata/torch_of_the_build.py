"""Names the torch that the library is built against, as a requirement of the wheel.

The library links against this torch and its C++ ABI; with another one it may not load, or compute nonsense.
"""

from importlib.metadata import version


def dynamic_metadata(*_):
    """Return the field of ``[project]`` that only the build knows; scikit-build-core calls this."""
    return {"dependencies": [f"torch=={version('torch')}"]}

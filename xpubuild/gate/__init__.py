"""The XPU gate, which stops a build that has lost XPU support, and the checks after each step."""

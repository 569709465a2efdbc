"""Archives that a build would download itself, such as triton's LLVM: found, hashed, unpacked, proved."""

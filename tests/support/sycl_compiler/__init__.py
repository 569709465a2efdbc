"""Intel's front end with a stand-in driver: compiles SYCL in tests, where no icpx can be had.

Device code is compiled by Intel's own front end, which the package intel-sycl-rt has in libsycl-jit.so from
2025.2 on; host code by g++, with the integration header in between, as with ``-fsycl-host-compiler``. Native
images are made by ocloc. Options, order of steps, linking and registration are this stand-in's: what it
shows about them holds for no icpx. What it ignores it says in ``--version``. It does not do specialization
constants and code shared between translation units, and takes no device code out of archives. Without
``-fsycl``, and as ``icx``, it is GCC with the macro by which CMake knows Intel's compiler.
"""

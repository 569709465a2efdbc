# Finds the static MKL (packages mkl-static and mkl-include, or an oneAPI root) through CMAKE_PREFIX_PATH.
#
# Result: MKLStatic_VERSION (2026.2.0), MKLStatic_INCLUDE_DIR, MKLStatic_LIBRARIES. A list and not a target: CMake
# puts what an interface target stands for behind the libraries that are named directly, and MKL has to precede
# libtorch_cpu, which exports parts of its own MKL. The linker takes the first definition that it meets.
#
# The layer is `sequential` on purpose. gnu_thread would start MKL's own teams inside a process whose torch
# already runs one OpenMP pool, and intel_thread would bring a second OpenMP runtime. The caller splits the
# work over torch's threads instead and each slice calls MKL on its own.
find_path(MKLStatic_INCLUDE_DIR mkl_cblas.h PATH_SUFFIXES include include/mkl)
foreach(_mkl_part intel_lp64 sequential core)
  find_library(MKLStatic_${_mkl_part}_LIBRARY "libmkl_${_mkl_part}.a" PATH_SUFFIXES lib lib/intel64)
  mark_as_advanced(MKLStatic_${_mkl_part}_LIBRARY)
endforeach()
mark_as_advanced(MKLStatic_INCLUDE_DIR)

if(MKLStatic_INCLUDE_DIR AND EXISTS "${MKLStatic_INCLUDE_DIR}/mkl_version.h")
  file(STRINGS "${MKLStatic_INCLUDE_DIR}/mkl_version.h" _mkl_lines REGEX "define +INTEL_MKL_VERSION +[0-9]+")
  string(REGEX REPLACE ".*VERSION +([0-9][0-9][0-9][0-9])([0-9][0-9])([0-9][0-9]).*" "\\1;\\2;\\3"
    _mkl_numbers "${_mkl_lines}")
  list(TRANSFORM _mkl_numbers REPLACE "^0([0-9])" "\\1")
  list(JOIN _mkl_numbers "." MKLStatic_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MKLStatic
  REQUIRED_VARS MKLStatic_INCLUDE_DIR MKLStatic_intel_lp64_LIBRARY MKLStatic_sequential_LIBRARY
                MKLStatic_core_LIBRARY
  VERSION_VAR MKLStatic_VERSION
  REASON_FAILURE_MESSAGE "Put the environment that holds mkl-static and mkl-include on CMAKE_PREFIX_PATH.")

if(MKLStatic_FOUND)
  find_package(Threads REQUIRED)
  set(MKLStatic_LIBRARIES
    -Wl,--start-group
    "${MKLStatic_intel_lp64_LIBRARY}" "${MKLStatic_sequential_LIBRARY}" "${MKLStatic_core_LIBRARY}"
    -Wl,--end-group
    Threads::Threads m ${CMAKE_DL_LIBS})
endif()

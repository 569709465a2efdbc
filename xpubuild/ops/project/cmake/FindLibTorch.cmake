# Finds the torch of the building interpreter by its files.
#
# Not through torch's own TorchConfig.cmake: that one repeats the dependency search of the machine which built
# the wheel and can ask for MKL, CUDA languages or oneAPI packages that an extension does not need.
#
# Input:   LibTorch_ROOT (folder of the Python package `torch`), or Python_EXECUTABLE that can find it.
# Result:  LibTorch_ROOT, LibTorch_VERSION (2.13.0), LibTorch_FULL_VERSION (2.13.0+cpu), LibTorch_INCLUDE_DIRS,
#          LibTorch_LIBRARY_DIR; targets torch::cpu, torch::openmp and, where it has XPU, torch::xpu.
if(NOT LibTorch_ROOT)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util as u; s = u.find_spec('torch'); print(next(iter(s.submodule_search_locations)) if s else '')"
    OUTPUT_VARIABLE LibTorch_ROOT
    ERROR_VARIABLE _torch_error
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT LibTorch_ROOT)
    set(LibTorch_NOT_FOUND_MESSAGE "${Python_EXECUTABLE} has no package torch. ${_torch_error}")
  endif()
endif()

if(LibTorch_ROOT AND EXISTS "${LibTorch_ROOT}/version.py")
  file(STRINGS "${LibTorch_ROOT}/version.py" _torch_line REGEX "^__version__ *=")
  string(REGEX REPLACE ".*['\"]([^'\"]+)['\"].*" "\\1" LibTorch_FULL_VERSION "${_torch_line}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+(\\.[0-9]+)?" LibTorch_VERSION "${LibTorch_FULL_VERSION}")
endif()

set(LibTorch_LIBRARY_DIR "${LibTorch_ROOT}/lib")
set(LibTorch_INCLUDE_DIRS "${LibTorch_ROOT}/include" "${LibTorch_ROOT}/include/torch/csrc/api/include")
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${LibTorch_LIBRARY_DIR}" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${LibTorch_LIBRARY_DIR}" NO_DEFAULT_PATH)
find_library(LibTorch_C10_XPU_LIBRARY c10_xpu PATHS "${LibTorch_LIBRARY_DIR}" NO_DEFAULT_PATH)
find_path(LibTorch_HEADER torch/library.h PATHS "${LibTorch_ROOT}/include" NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_C10_XPU_LIBRARY LibTorch_HEADER)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_HEADER
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${LibTorch_NOT_FOUND_MESSAGE}")

if(LibTorch_FOUND AND NOT TARGET torch::cpu)
  add_library(torch::c10 SHARED IMPORTED)
  set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_LIBRARY}")
  target_include_directories(torch::c10 SYSTEM INTERFACE ${LibTorch_INCLUDE_DIRS})

  add_library(torch::cpu SHARED IMPORTED)
  set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION "${LibTorch_CPU_LIBRARY}")
  target_link_libraries(torch::cpu INTERFACE torch::c10)

  # at::parallel_for is an inline function around `#pragma omp parallel`: units that use it are compiled with
  # -fopenmp, and must run in the thread pool of torch. Wheels bring their own libgomp, at times under a
  # name of their own; linking that very file keeps a second OpenMP runtime out of the process.
  add_library(torch::openmp INTERFACE IMPORTED)
  target_compile_options(torch::openmp INTERFACE -fopenmp)
  file(GLOB _torch_gomp "${LibTorch_LIBRARY_DIR}/libgomp*.so*")
  if(_torch_gomp)
    list(GET _torch_gomp 0 _torch_gomp)
    target_link_libraries(torch::openmp INTERFACE "${_torch_gomp}")
  else()
    target_link_options(torch::openmp INTERFACE -fopenmp)
  endif()

  if(LibTorch_C10_XPU_LIBRARY)
    add_library(torch::xpu SHARED IMPORTED)
    set_target_properties(torch::xpu PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_XPU_LIBRARY}")
    target_link_libraries(torch::xpu INTERFACE torch::cpu)
  endif()
endif()

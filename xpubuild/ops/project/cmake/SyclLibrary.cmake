# add_sycl_library(NAME SOURCES ... INCLUDES ... DESTINATION DIR): one shared library, compiled, device-linked and
# linked by the SYCL compiler. Host units stay with the compiler that torch's own host code was built with.
#
# Input: OPS_SYCL_COMPILER (default: icpx, then clang++, on PATH), OPS_XPU_ARCH (ahead-of-time targets such as
# `pvc`; empty or `none`: the driver compiles the kernels at run time).
find_program(OPS_SYCL_COMPILER NAMES icpx clang++ DOC "Compiler that accepts -fsycl")
set(OPS_XPU_ARCH "$ENV{TORCH_XPU_ARCH_LIST}" CACHE STRING "Devices to compile SYCL kernels for, comma separated")

include("${CMAKE_CURRENT_LIST_DIR}/TorchSyclFlags.cmake")

function(_require_sycl_compiler)
  if(NOT OPS_SYCL_COMPILER)
    message(FATAL_ERROR
      "OPS_USE_XPU is on and no SYCL compiler was found (looked for icpx and clang++ on PATH).\n"
      "Enter the oneAPI compiler's environment, or set -DOPS_SYCL_COMPILER=/path/to/icpx.")
  endif()
  set(probe "${CMAKE_CURRENT_BINARY_DIR}/sycl_probe")
  file(WRITE "${probe}.cpp"
    "#include <sycl/sycl.hpp>\nint main() { sycl::queue q; q.single_task<class Probe>([] {}); q.wait(); }\n")
  execute_process(
    COMMAND "${OPS_SYCL_COMPILER}" -fsycl -c "${probe}.cpp" -o "${probe}.o"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR
      "OPS_USE_XPU is on and ${OPS_SYCL_COMPILER} does not compile a SYCL program with -fsycl.\n"
      "Set -DOPS_SYCL_COMPILER to a DPC++ compiler (icpx of oneAPI). It said:\n${output}")
  endif()
endfunction()

function(add_sycl_library name)
  cmake_parse_arguments(ARG "" "DESTINATION" "SOURCES;INCLUDES" ${ARGN})
  _require_sycl_compiler()
  if(NOT TARGET torch::xpu)
    message(FATAL_ERROR
      "OPS_USE_XPU is on, but torch ${LibTorch_FULL_VERSION} in ${LibTorch_ROOT} was built without XPU "
      "(no libc10_xpu.so). Install a torch with XPU, or set -DOPS_USE_XPU=OFF.")
  endif()

  set(sources)
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    list(APPEND sources "${source}")
  endforeach()
  set(includes)
  foreach(folder IN LISTS ARG_INCLUDES)
    list(APPEND includes "-I${folder}")
  endforeach()
  foreach(folder IN LISTS LibTorch_INCLUDE_DIRS)
    list(APPEND includes -isystem "${folder}")
  endforeach()
  set(targets)
  if(OPS_XPU_ARCH AND NOT OPS_XPU_ARCH STREQUAL "none")
    set(targets -fsycl-targets=spir64_gen,spir64 -Xsycl-target-backend=spir64_gen "-device ${OPS_XPU_ARCH}")
  endif()

  torch_sycl_flags(flags_of_torch)
  set(library "${CMAKE_CURRENT_BINARY_DIR}/lib${name}.so")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS third_party/*.h src/*.h)
  # icpx defaults to fast floating point; the kernel is checked against a reference, so it has to be precise.
  # A code object per kernel keeps the fp64 kernels away from devices without fp64.
  add_custom_command(
    OUTPUT "${library}"
    COMMAND "${OPS_SYCL_COMPILER}" -fsycl ${flags_of_torch} ${targets} -fsycl-device-code-split=per_kernel
      -std=c++${CMAKE_CXX_STANDARD} -O2 -ffp-model=precise -fPIC -fvisibility=hidden -shared
      -D_GLIBCXX_USE_CXX11_ABI=${OPS_CXX11_ABI} ${OPS_PREFIX_MAPS} ${includes} ${sources} -o "${library}"
      "${LibTorch_C10_XPU_LIBRARY}" "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}"
      "-Wl,-rpath,${OPS_RPATH}" -Wl,--enable-new-dtags -Wl,--build-id=sha1 -Wl,-z,now
    DEPENDS ${sources} ${headers}
    COMMENT "Building SYCL library lib${name}.so"
    VERBATIM)
  add_custom_target(${name} ALL DEPENDS "${library}")
  install(PROGRAMS "${library}" DESTINATION "${ARG_DESTINATION}")
endfunction()

# torch_sycl_flags(RESULT): the options by which torch chose its SYCL runtime and the declarations that its kernels see.
#
# An extension shares queues and events with torch, so it is compiled as that torch was, whatever the C++ ABI:
# - Library: torch 2.5 and later link libsycl-preview with compilers up to 2024, and libsycl with newer ones; 2.4
#   always libsycl (FindSYCLToolkit.cmake of the torch wheels). What libc10_xpu.so needs is the one that it was.
# - Kernels: torch-xpu-ops 2.5 to 2.7 define __INTEL_PREVIEW_BREAKING_CHANGES with either library, 2.4 and 2.8 and
#   later with neither (cmake/BuildFlags.cmake of its release branches).
function(torch_sycl_flags result)
  set(flags)
  file(STRINGS "${LibTorch_C10_XPU_LIBRARY}" runtimes REGEX "^libsycl(-preview)?\\.so\\.[0-9]+$")
  if(runtimes MATCHES "libsycl-preview")
    # icpx then links libsycl-preview and defines the macro itself.
    list(APPEND flags -fpreview-breaking-changes)
  endif()
  if(LibTorch_VERSION VERSION_GREATER_EQUAL 2.5 AND LibTorch_VERSION VERSION_LESS 2.8)
    list(APPEND flags -D__INTEL_PREVIEW_BREAKING_CHANGES)
  endif()
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

# require_submodule(PATH): stop where a submodule was not checked out.
function(require_submodule path)
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${path}/CMakeLists.txt")
    message(FATAL_ERROR
      "The submodule ${path} is missing: ${CMAKE_CURRENT_SOURCE_DIR}/${path} has no CMakeLists.txt.\n"
      "Check it out with: git submodule update --init --recursive")
  endif()
endfunction()

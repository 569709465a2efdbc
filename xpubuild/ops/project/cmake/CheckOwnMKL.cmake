# cmake -DNM=... -DLIBRARY=... -P CheckOwnMKL.cmake: stop where the library would use the MKL of another one.
execute_process(
  COMMAND "${NM}" --dynamic --undefined-only "${LIBRARY}"
  OUTPUT_VARIABLE symbols
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${NM} could not read ${LIBRARY} (status ${status}).")
endif()
string(REGEX MATCHALL "[^ \n]*([Mm][Kk][Ll]_|cblas_|sgemm)[^ \n]*" foreign "${symbols}")
if(foreign)
  list(JOIN foreign ", " foreign)
  message(FATAL_ERROR
    "${LIBRARY} takes MKL symbols from another library (${foreign}).\n"
    "The static MKL has to precede libtorch_cpu on the link line.")
endif()

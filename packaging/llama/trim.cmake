# Read by CMake at llama-cpp-python's project() call (CMAKE_PROJECT_llama_cpp_INCLUDE).
# llama-cpp-python forces these ON in the cache; a normal variable set here shadows the cache,
# and leaves out 53 of 127 compile steps that the bindings never call.
set(LLAMA_BUILD_COMMON OFF)
set(LLAMA_BUILD_TOOLS OFF)
set(LLAMA_BUILD_EXAMPLES OFF)
set(LLAMA_BUILD_TESTS OFF)
set(LLAMA_BUILD_SERVER OFF)

if(SPECCHAT_AMX_HEADER)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-include${SPECCHAT_AMX_HEADER}>")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/../../engine/kernels/kernels.cmake")

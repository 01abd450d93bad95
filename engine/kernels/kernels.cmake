# Adds the kernels to ggml's CPU backend: its one library, or each variant's of a portable build.
# Which instructions they use follows from the flags of each; where there is nothing to use, the
# sources are empty.
set(SPECCHAT_KERNELS "${CMAKE_CURRENT_LIST_DIR}")

function(specchat_add_kernels)
  file(GLOB sources CONFIGURE_DEPENDS "${SPECCHAT_KERNELS}/*.cpp" "${SPECCHAT_KERNELS}/types/*.cpp")
  find_package(Threads REQUIRED)
  get_target_property(folder ggml SOURCE_DIR)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    if(target MATCHES "^ggml-cpu(-.*)?$" AND NOT target MATCHES "-feats$")
      target_sources(${target} PRIVATE ${sources})
      target_link_libraries(${target} PRIVATE Threads::Threads)
    endif()
  endforeach()
  # Multiplications and additions are only fused where the source says so: the same everywhere.
  if(NOT MSVC)
    set(flags -ffp-contract=off)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC 12 takes its own intrinsics for uses of uninitialized variables.
      list(APPEND flags -Wno-maybe-uninitialized -Wno-uninitialized)
    endif()
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(flags /clang:-ffp-contract=off)
  else()
    set(flags /fp:precise)
  endif()
  set_source_files_properties(
    ${sources} DIRECTORY "${folder}" PROPERTIES COMPILE_OPTIONS "${flags}")
endfunction()

# Its targets are there once the whole project has been read.
cmake_language(DEFER DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" CALL specchat_add_kernels)

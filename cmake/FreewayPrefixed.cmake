# SPDX-License-Identifier: MIT
#
# libfreeway-prefixed.a (Freeway::freeway_prefixed): Freeway beside the program's malloc. It has the freeway_ functions and
# neither malloc's names nor operator new nor vfork. What does not define such names is compiled once for all forms.
set(freeway_naming_sources
  "${PROJECT_SOURCE_DIR}/src/malloc/${freeway_arch}/fast_path.S" "${PROJECT_SOURCE_DIR}/src/malloc/${freeway_arch}/vfork.S"
  "${PROJECT_SOURCE_DIR}/src/abi/malloc.cc" "${PROJECT_SOURCE_DIR}/src/abi/extension.cc")
set(freeway_nameless_objects "$<FILTER:${freeway_core_objects},EXCLUDE,/(fast_path|new|vfork)[.]S[.]o$>")

add_library(freeway_prefixed STATIC
  ${freeway_nameless_objects} ${freeway_abi_objects} ${freeway_naming_sources})
target_compile_definitions(freeway_prefixed PRIVATE FREEWAY_PREFIXED=1)
target_link_libraries(freeway_prefixed PRIVATE $<BUILD_INTERFACE:freeway_library_flags>)
set_target_properties(freeway_prefixed PROPERTIES
  OUTPUT_NAME freeway-prefixed
  POSITION_INDEPENDENT_CODE ON
  LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(freeway_prefixed PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(Freeway::freeway_prefixed ALIAS freeway_prefixed)

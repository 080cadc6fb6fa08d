# SPDX-License-Identifier: MIT
#
#   freeway_add_engine(<engine> [VARIANT <name>] [DEFINES X=Y ...])
#     builds libfreeway-<engine>[-<variant>].so (target freeway_<engine>[_<variant>]) from papers/<engine>/*.cc, its
#     assembly for this processor, the front and the C interface. Variants exist for comparison: they are built on
#     request (or by what needs them) and not installed. Each library also appears as libfreeway.so.0 in a folder of its
#     own, <build>/engines/<engine>[-<variant>], so that LD_LIBRARY_PATH puts it in the flagship's place in programs that
#     link libfreeway.so.
#
# An engine may have a file variants.cmake in its folder, with more calls of this function.

# What the papers stand on: files of src that were compiled for Freeway, and the table of the papers' options. A static
# library: each takes the files that it needs; so does the command.
set(freeway_substrate_files "src/(os|pages|guard|look|profile)/")
add_library(freeway_substrate STATIC "${PROJECT_SOURCE_DIR}/papers/front/options.cc"
  "$<FILTER:${freeway_core_objects},INCLUDE,${freeway_substrate_files}>")
set_target_properties(freeway_substrate PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(freeway_substrate PRIVATE freeway_library_flags)
# The same for libraries that compile them with other flags.
set(freeway_substrate_sources ${freeway_core_sources} "${PROJECT_SOURCE_DIR}/papers/front/options.cc")
list(FILTER freeway_substrate_sources INCLUDE REGEX "${freeway_substrate_files}|papers/front/options[.]cc")

# The malloc family of a paper's library, in that of Freeway's place.
set(freeway_paper_family "${PROJECT_SOURCE_DIR}/papers/front/family.cc")

function(freeway_add_engine engine)
  cmake_parse_arguments(PARSE_ARGV 1 E "" "VARIANT" "DEFINES")
  set(name ${engine})
  if(E_VARIANT)
    set(name ${engine}-${E_VARIANT})
  endif()
  string(REPLACE "-" "_" target "freeway_${name}")
  set(folder "${PROJECT_SOURCE_DIR}/papers/${engine}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc" "${folder}/${freeway_arch}/*.S")
  add_library(${target} SHARED ${sources} ${freeway_paper_family} ${freeway_common_objects} ${freeway_loader_objects})
  if(E_VARIANT)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_compile_definitions(${target} PRIVATE ${E_DEFINES} "FREEWAY_PAPER=\"papers/${engine}/engine.h\"")
  target_link_libraries(${target} PRIVATE freeway_library_flags freeway_substrate freeway_shared_link_flags)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME freeway-${name}
    SKIP_BUILD_RPATH ON
    VERSION ${PROJECT_VERSION}
    SOVERSION 0
    LINKER_LANGUAGE CXX
    POSITION_INDEPENDENT_CODE ON
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/src/abi/freeway.map")
  set(place "${PROJECT_BINARY_DIR}/engines/${name}")
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E make_directory "${place}"
    COMMAND ${CMAKE_COMMAND} -E create_symlink "../../libfreeway-${name}.so.0" "${place}/libfreeway.so.0"
    VERBATIM)
endfunction()

# The engines whose folders have code, and those among them that promise to be lock-free on every path.
set(freeway_engines)
set(freeway_lock_free_engines michael lfmalloc nbbs)
foreach(engine michael lfmalloc streamflow hmalloc nbbs)
  if(FREEWAY_BUILD_ENGINES AND EXISTS "${PROJECT_SOURCE_DIR}/papers/${engine}/engine.h")
    list(APPEND freeway_engines ${engine})
    freeway_add_engine(${engine})
    include("${PROJECT_SOURCE_DIR}/papers/${engine}/variants.cmake" OPTIONAL)
  endif()
endforeach()
add_custom_target(freeway_papers)
foreach(engine ${freeway_engines})
  add_dependencies(freeway_papers freeway_${engine})
endforeach()

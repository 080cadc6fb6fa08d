# SPDX-License-Identifier: MIT
#
#   freeway_add_engine(<engine> [VARIANT <name>] [DEFINES X=Y ...] [SOURCES files ...])
#     builds libfreeway-<engine>[-<variant>].so (target freeway_<engine>[_<variant>]) from papers/<engine>/*.cc, its
#     assembly for this processor, the front and the C interface. Variants exist for comparison: they are built on
#     request (or by what needs them) and not installed. Each library also appears as libfreeway.so.0 in a folder of its
#     own, <build>/engines/<engine>[-<variant>], so that LD_LIBRARY_PATH puts it in the flagship's place in programs that
#     link libfreeway.so.
#
# An engine may have a file variants.cmake in its folder, with more calls of this function.

# What engines share, compiled once. A static library: each engine takes the files that it needs.
file(GLOB freeway_substrate_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/os/*.cc" "${PROJECT_SOURCE_DIR}/src/shared/*.cc" "${PROJECT_SOURCE_DIR}/src/guard/*.cc" "${PROJECT_SOURCE_DIR}/src/profile/*.cc"
  "${PROJECT_SOURCE_DIR}/src/front/*.cc")
add_library(freeway_substrate STATIC ${freeway_substrate_sources})
set_target_properties(freeway_substrate PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(freeway_substrate PRIVATE freeway_library_flags)

# Writes the header that makes src/abi an engine's, and returns the folder to put on the include path.
function(freeway_select_engine header folder_variable)
  string(REPLACE "/" "-" folder "${header}")
  set(folder "${PROJECT_BINARY_DIR}/selected/${folder}")
  file(CONFIGURE OUTPUT "${folder}/engine/selected.h" CONTENT
    "// Written by the build: the engine of this library.\n#pragma once\n#include \"${header}\"\n")
  set(${folder_variable} "${folder}" PARENT_SCOPE)
endfunction()

function(freeway_add_engine engine)
  cmake_parse_arguments(PARSE_ARGV 1 E "" "VARIANT" "DEFINES;SOURCES")
  set(name ${engine})
  if(E_VARIANT)
    set(name ${engine}-${E_VARIANT})
  endif()
  string(REPLACE "-" "_" target "freeway_${name}")
  set(folder "${PROJECT_SOURCE_DIR}/papers/${engine}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc" "${folder}/${freeway_arch}/*.S")
  file(GLOB abi CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/abi/*.cc")
  freeway_select_engine("papers/${engine}/engine.h" selected)

  add_library(${target} SHARED ${sources} ${abi} ${freeway_loader_sources} ${E_SOURCES})
  if(E_VARIANT)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_include_directories(${target} BEFORE PRIVATE "${selected}")
  target_compile_definitions(${target} PRIVATE ${E_DEFINES})
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

# SPDX-License-Identifier: MIT
#
#   freeway_add_engine(<engine> [VARIANT <name>] [DEFINES X=Y ...])
#     builds libfreeway-<engine>[-<variant>].so (target freeway_<engine>[_<variant>]) from papers/<engine>/*.cc, its
#     assembly for this processor, the front and the C interface. Variants exist for comparison: they are built on
#     request (or by what needs them) and not installed. Each library also appears as libfreeway.so.0 in a folder of its
#     own, <build>/engines/<engine>[-<variant>], so that LD_LIBRARY_PATH puts it in the flagship's place in programs that
#     link libfreeway.so.
#
# An engine may have a file variants.cmake in its folder, with more calls of this function: for forms that differ by a
# constant in the address arithmetic of malloc and free. Other forms are options of the one library (papers/front/options.h).

# What the papers stand on: files of src that were compiled for Freeway, and the table of the papers' options. A static
# library: each takes the files that it needs; so does the command. freeway_add_substrate(<target> <form> <flags>...) makes
# it of what freeway_compile(<form> <flags>...) compiled.
function(freeway_add_substrate target form)
  add_library(${target} STATIC "${PROJECT_SOURCE_DIR}/papers/front/options.cc"
    "$<FILTER:$<TARGET_OBJECTS:freeway_core_${form}>,INCLUDE,(src/|unity_)(arch|os|pages|harden|look|profile)[/_]>")
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE ${ARGN})
endfunction()
freeway_add_substrate(freeway_substrate compiled freeway_library_flags)

# freeway_engine_sources(<variable> <engine>): what an engine is made of above that, the malloc family included;
# freeway_engine_definitions(<target> <engine>) tells this which engine it is.
function(freeway_engine_sources variable engine)
  set(folder "${PROJECT_SOURCE_DIR}/papers/${engine}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc" "${folder}/${freeway_arch}/*.S")
  set(${variable} ${sources} "${PROJECT_SOURCE_DIR}/papers/front/family.cc" PARENT_SCOPE)
endfunction()
function(freeway_engine_definitions target engine)
  target_compile_definitions(${target} PRIVATE "FREEWAY_PAPER=\"papers/${engine}/engine.h\"")
endfunction()

function(freeway_add_engine engine)
  cmake_parse_arguments(PARSE_ARGV 1 E "" "VARIANT" "DEFINES")
  set(name ${engine})
  if(E_VARIANT)
    set(name ${engine}-${E_VARIANT})
  endif()
  string(REPLACE "-" "_" target "freeway_${name}")
  freeway_engine_sources(sources ${engine})
  add_library(${target} SHARED ${sources} ${freeway_common_objects} ${freeway_loader_objects})
  if(E_VARIANT)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  freeway_engine_definitions(${target} ${engine})
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
add_custom_target(freeway_papers)
foreach(engine ${freeway_engines})
  add_dependencies(freeway_papers freeway_${engine})
endforeach()

# SPDX-License-Identifier: MIT
#
# libfreeway-shared: the heap that processes share (freeway/shared.h), beside whatever malloc a process has. It needs nothing but
# the C library, and of src/os some files that were compiled for Freeway.
file(GLOB freeway_shared_heap_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/shared/*.cc")
add_library(freeway_shared_heap_compiled OBJECT ${freeway_shared_heap_sources})
set_target_properties(freeway_shared_heap_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(freeway_shared_heap_compiled PRIVATE freeway_library_flags)

add_library(freeway_shared_heap SHARED $<TARGET_OBJECTS:freeway_shared_heap_compiled>)
set_target_properties(freeway_shared_heap PROPERTIES
  SKIP_BUILD_RPATH ON
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/shared/shared.map")
target_link_libraries(freeway_shared_heap PRIVATE freeway_library_flags freeway_core freeway_link_flags)
target_link_options(freeway_shared_heap PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/shared/shared.map")

add_library(freeway_shared_heap_static STATIC
  $<TARGET_OBJECTS:freeway_shared_heap_compiled> "$<FILTER:${freeway_core_objects},INCLUDE,src/os/>")

foreach(form "" _static)
  set(library freeway_shared_heap${form})
  set_target_properties(${library} PROPERTIES
    OUTPUT_NAME freeway-shared
    EXPORT_NAME shared_heap${form}
    LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(Freeway::shared_heap${form} ALIAS ${library})
endforeach()

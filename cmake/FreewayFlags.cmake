# SPDX-License-Identifier: MIT
#
# The flags, as interface targets that the real targets link:
#   freeway_common_flags       language, warnings, include paths
#   freeway_library_flags      how code of the library is compiled
#   freeway_link_flags         how shared libraries are linked
#   freeway_shared_link_flags  libfreeway.so, and the papers': with its names
#   freeway_program_flags      programs: the command and the tests
# A user's own CFLAGS and CXXFLAGS come before these.
add_library(freeway_common_flags INTERFACE)
target_compile_features(freeway_common_flags INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
target_compile_options(freeway_common_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  # A compiler that knows malloc removes calls whose result is unused: in the library that breaks calloc and realloc,
  # in the tests it removes the very calls under test.
  $<$<COMPILE_LANGUAGE:C,CXX>:-fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free>)
if(FREEWAY_WERROR)
  target_compile_options(freeway_common_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(FREEWAY_SANITIZE)
  target_compile_options(freeway_common_flags INTERFACE -fsanitize=${FREEWAY_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(freeway_common_flags INTERFACE -fsanitize=${FREEWAY_SANITIZE})
endif()
if(FREEWAY_SANITIZE STREQUAL "address")
  # Undefined behaviour ends a test as a bad access does. The library has no type information, so no vptr check; functions
  # in assembly have none of their signature.
  set(undefined -fsanitize=undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_compile_options(freeway_common_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${undefined}>)
  target_link_options(freeway_common_flags INTERFACE -fsanitize=undefined)
endif()
if(FREEWAY_FUZZ)
  target_compile_options(freeway_common_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
endif()

add_library(freeway_library_flags INTERFACE)
target_link_libraries(freeway_library_flags INTERFACE freeway_common_flags)
target_include_directories(freeway_library_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
target_compile_definitions(freeway_library_flags INTERFACE FREEWAY_CHECKS=${FREEWAY_CHECKS})
target_compile_options(freeway_library_flags INTERFACE
  # Distributions define it for all that they build: calls of functions that glibc 2.17 has, but musl not.
  $<$<COMPILE_LANGUAGE:C,CXX>:-U_FORTIFY_SOURCE>
  # No run-time support is linked in, so none may be called.
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
  $<$<COMPILE_LANGUAGE:C,CXX>:-fno-stack-protector>
  # With lazily allocated thread-local storage the first access would call malloc.
  $<$<COMPILE_LANGUAGE:C,CXX>:-ftls-model=initial-exec>
  $<$<COMPILE_LANGUAGE:C,CXX>:-fvisibility=hidden -fno-plt -fno-semantic-interposition>
  # Profiles follow the program's stack by frame pointers, through us (src/profile/stack_walk.h).
  $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
  # Signal handlers and unwinders may look at any instruction.
  $<$<COMPILE_LANGUAGE:C,CXX>:-fasynchronous-unwind-tables>
  # An exported name goes on to its part by a jump: the return address that the part sees is in the program. -Og makes no such jumps.
  $<$<COMPILE_LANGUAGE:C,CXX>:-foptimize-sibling-calls>
  $<$<AND:$<CONFIG:Debug>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>
  # So that the linker leaves out what nothing calls: members of templates that are compiled once, as a whole.
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections>
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wno-sign-conversion -Wundef -Wvla>)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  # Part of a project that chose no build type, which would mean no optimisation.
  target_compile_options(freeway_library_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-O2> -g)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Under FREEWAY_SANITIZE clang reports this for flags that only matter when linking.
  target_compile_options(freeway_library_flags INTERFACE -Wno-unused-command-line-argument)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  target_compile_options(freeway_library_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fcf-protection=none>)
else()
  # Else GCC calls helpers in libgcc that look at the processor at run time.
  target_compile_options(freeway_library_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-mno-outline-atomics>)
endif()
if(FREEWAY_SANITIZE)
  # Two allocators under the standard names do not get along with a sanitizer: only freeway_malloc and its like exist.
  target_compile_definitions(freeway_library_flags INTERFACE FREEWAY_PREFIXED=1)
else()
  # Signal handlers run on small stacks, and any of our functions may run in one.
  target_compile_options(freeway_library_flags INTERFACE
    $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-Wframe-larger-than=1280>)
endif()

# Flags of single sources of src/; for each folder with targets that compile these. Sources with flags of their own are not
# compiled together with others: then (TRUE) those for speed and size are left out.
function(freeway_set_source_flags together)
  # It says where the words of other classes are, private ones, too.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/malloc/describe.cc" PROPERTIES
    COMPILE_OPTIONS -fno-access-control)
  if(together)
    # It declares what a header declares for another Env than its own (tests/whole/stall/stepping).
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/os/vm.cc" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    foreach(source ${freeway_core_sources} ${freeway_abi_sources})
      cmake_path(GET source PARENT_PATH room)
      cmake_path(GET room FILENAME room)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${room}")
    endforeach()
    return()
  endif()
  # The whole way of malloc and free where there is no rseq, which a frame would make longer.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/malloc/spare_path.cc" PROPERTIES
    COMPILE_OPTIONS -fomit-frame-pointer)
  # For size: a call of malloc or free that has memory at hand goes through the others alone
  # (docs/decisions/051-rooms.md has the figures).
  if(NOT FREEWAY_SANITIZE)
    set(hot "/malloc/(small|slabs|heaps|entry|realloc)[.]cc$|/heap/own_heap[.]cc$")
    set(cold ${freeway_core_sources} ${freeway_abi_sources} ${freeway_common_sources})
    list(FILTER cold INCLUDE REGEX "[.]cc$")
    set(warm ${cold})
    list(FILTER warm INCLUDE REGEX "${hot}")
    list(FILTER cold EXCLUDE REGEX "${hot}|/malloc/(spare_path|describe)[.]cc$|/abi/malloc[.]cc$")
    set(for_size -Os)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A function of a template that has one caller goes into it; the copy for other sources is not linked.
      list(APPEND for_size --param=comdat-sharing-probability=0)
      # Room before the targets of jumps would be 4 KB; in small.cc it is 0.02 to 0.03 of the time of the frees of `spill`.
      list(FILTER warm EXCLUDE REGEX "/malloc/small[.]cc$")
      set_source_files_properties(${warm} PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-fno-align-jumps>)
    endif()
    set_source_files_properties(${cold} PROPERTIES COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:${for_size}>")
  endif()
endfunction()

add_library(freeway_link_flags INTERFACE)
target_link_options(freeway_link_flags INTERFACE
  # Thread-local state and rseq sections may be in use until the last instruction of the process.
  -Wl,-z,nodelete
  -Wl,-z,now -Wl,-z,relro)
if(FREEWAY_SANITIZE)
  target_link_libraries(freeway_link_flags INTERFACE freeway_common_flags)
else()
  target_link_options(freeway_link_flags INTERFACE -nodefaultlibs -Wl,--no-undefined)
  # libgcc here is the static archive: plain functions such as 128-bit division, no run-time dependency.
  target_link_libraries(freeway_link_flags INTERFACE freeway_old_glibc -lgcc)
endif()
add_library(freeway_shared_link_flags INTERFACE)
target_link_libraries(freeway_shared_link_flags INTERFACE freeway_link_flags)
target_link_options(freeway_shared_link_flags INTERFACE
  -Wl,--gc-sections
  # Symbols and constants in one mapping with the code: then one window of 64 KiB that the kernel maps has them all.
  -Wl,-z,noseparate-code
  "-Wl,--version-script=${PROJECT_SOURCE_DIR}/src/abi/freeway.map")

# libfreeway.so's functions in the order in which programs need them, with a linker that adds to its script (GNU's).
include(CheckLinkerFlag)
set(freeway_order "-Wl,-T,${PROJECT_SOURCE_DIR}/src/order.ld")
check_linker_flag(CXX "${freeway_order}" FREEWAY_LINKER_TAKES_ORDER)
if(FREEWAY_SANITIZE OR NOT FREEWAY_LINKER_TAKES_ORDER)
  set(freeway_order "")
endif()

add_library(freeway_program_flags INTERFACE)
target_link_libraries(freeway_program_flags INTERFACE freeway_common_flags)

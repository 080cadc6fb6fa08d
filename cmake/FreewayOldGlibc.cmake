# SPDX-License-Identifier: MIT
#
# libfreeway.so loads with every glibc from 2.17 on, and with musl, wherever it was built. The linker gives an undefined
# symbol the version that it finds in the libraries it links: those here, which stand in for glibc's, have just what
# Freeway needs, under the versions that glibc 2.17 has. They hold no code and are not installed. What a newer glibc
# offers besides is referred to weakly; it is not in them, so those references bear no version and may stay null.
#
#   freeway_old_glibc     libc.so.6 (musl takes that name for its own)
#
# A new function of libc in the library's code goes into the list, with its first version on x86-64 (`objdump -T` of an
# old libc.so.6); aarch64 began with 2.17. One that came after 2.17 is referred to weakly.
set(freeway_glibc_functions
  abort:2.2.5 __cxa_finalize:2.2.5 __errno_location:2.2.5 fprintf:2.2.5 memcmp:2.2.5 memmove:2.2.5 memset:2.2.5 strcmp:2.2.5 strlen:2.2.5
  strncmp:2.2.5 memcpy:2.14 getauxval:2.16 clock_gettime:2.17)
set(freeway_glibc_variables environ:2.2.5 program_invocation_short_name:2.2.5)

# Appends to `code` and `map` of the caller what defines these symbols.
macro(freeway_stand_in type size)
  foreach(entry ${ARGN})
    string(REPLACE ":" ";" entry "${entry}")
    list(GET entry 0 symbol)
    list(GET entry 1 version)
    if(freeway_arch STREQUAL "aarch64")
      set(version 2.17)
    endif()
    string(APPEND code ".globl ${symbol}\n.type ${symbol}, %${type}\n.size ${symbol}, ${size}\n"
      "${symbol}: .skip ${size}\n")
    string(APPEND map_${version} "${symbol}; ")
    list(APPEND versions ${version})
  endforeach()
endmacro()

# freeway_add_old_library(<target> <soname> FUNCTIONS f:version ... VARIABLES v:version ...)
function(freeway_add_old_library target soname)
  cmake_parse_arguments(PARSE_ARGV 2 L "" "" "FUNCTIONS;VARIABLES")
  set(code ".text\n")
  set(versions)
  freeway_stand_in(function 4 ${L_FUNCTIONS})
  string(APPEND code ".bss\n.balign 8\n")
  freeway_stand_in(object 8 ${L_VARIABLES})
  string(APPEND code ".section .note.GNU-stack,\"\",%progbits\n")
  list(REMOVE_DUPLICATES versions)
  set(map)
  foreach(version ${versions})
    string(APPEND map "GLIBC_${version} { global: ${map_${version}}};\n")
  endforeach()
  set(folder "${PROJECT_BINARY_DIR}/old_glibc")
  file(CONFIGURE OUTPUT "${folder}/${target}.S" CONTENT "${code}" @ONLY)
  file(CONFIGURE OUTPUT "${folder}/${target}.map" CONTENT "${map}" @ONLY)
  add_library(${target} SHARED "${folder}/${target}.S")
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE C
    NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${folder}"
    LINK_DEPENDS "${folder}/${target}.map")
  target_link_options(${target} PRIVATE -nostdlib -Wl,-soname,${soname} "-Wl,--version-script=${folder}/${target}.map")
endfunction()

freeway_add_old_library(freeway_old_glibc libc.so.6
  FUNCTIONS ${freeway_glibc_functions} VARIABLES ${freeway_glibc_variables})

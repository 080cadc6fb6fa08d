# SPDX-License-Identifier: MIT
#
# libfreeway.so loads with every glibc from 2.17 on, and with musl, wherever it was built. The linker gives an undefined
# symbol the version that it finds in the library it links: the one here, which stands in for glibc's libc.so.6 (a name
# that musl takes for its own), has just what Freeway needs, under the versions that glibc 2.17 has. It holds no code and
# is not installed. What a newer glibc offers besides, or other libraries before glibc 2.34, is referred to weakly; it is
# not in here, so those references bear no version and may stay null.
#
# A new function of libc in the library's code goes into the list, with its first version on x86-64 (`objdump -T` of an
# old libc.so.6); aarch64 began with 2.17. One that came after 2.17 is referred to weakly. memcmp, memcpy, memmove and
# memset are there because a compiler may call them by itself.
set(freeway_glibc_functions
  abort:2.2.5 __cxa_finalize:2.2.5 __errno_location:2.2.5 fprintf:2.2.5 memcmp:2.2.5 memmove:2.2.5 memset:2.2.5
  strcmp:2.2.5 strlen:2.2.5 strncmp:2.2.5 memcpy:2.14 getauxval:2.16 clock_gettime:2.17)
set(freeway_glibc_variables environ:2.2.5 program_invocation_short_name:2.2.5)

# Appends to `code` and `map_<version>` what defines these symbols, and to `versions` what they bear.
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

function(freeway_add_old_glibc)
  set(code ".text\n")
  set(versions)
  freeway_stand_in(function 4 ${freeway_glibc_functions})
  string(APPEND code ".bss\n.balign 8\n")
  freeway_stand_in(object 8 ${freeway_glibc_variables})
  string(APPEND code ".section .note.GNU-stack,\"\",%progbits\n")
  list(REMOVE_DUPLICATES versions)
  set(map)
  foreach(version ${versions})
    string(APPEND map "GLIBC_${version} { global: ${map_${version}}};\n")
  endforeach()
  set(folder "${PROJECT_BINARY_DIR}/old_glibc")
  file(CONFIGURE OUTPUT "${folder}/libc.S" CONTENT "${code}" @ONLY)
  file(CONFIGURE OUTPUT "${folder}/libc.map" CONTENT "${map}" @ONLY)
  add_library(freeway_old_glibc SHARED "${folder}/libc.S")
  set_target_properties(freeway_old_glibc PROPERTIES
    LINKER_LANGUAGE C
    NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${folder}"
    LINK_DEPENDS "${folder}/libc.map")
  target_link_options(freeway_old_glibc PRIVATE -nostdlib -Wl,-soname,libc.so.6 "-Wl,--version-script=${folder}/libc.map")
endfunction()

freeway_add_old_glibc()

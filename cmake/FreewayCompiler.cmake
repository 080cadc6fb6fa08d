# SPDX-License-Identifier: MIT
#
# Chooses the compiler of sanitizer builds, before project(): clang where it can link a program with the sanitizer's
# runtime, else the default compiler. (Clang's runtimes cope better with a process that carries a second allocator.)
if(NOT FREEWAY_SANITIZE MATCHES "^(|address|thread)$")
  message(FATAL_ERROR "FREEWAY_SANITIZE is '${FREEWAY_SANITIZE}'; it may be empty, address or thread.")
endif()

if(FREEWAY_SANITIZE AND NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(FREEWAY_CLANGXX NAMES clang++-19 clang++)
  if(FREEWAY_CLANGXX)
    set(probe "${CMAKE_BINARY_DIR}/sanitizer_probe")
    file(WRITE "${probe}.cc" "int main() { return 0; }\n")
    execute_process(
      COMMAND "${FREEWAY_CLANGXX}" -fsanitize=${FREEWAY_SANITIZE} "${probe}.cc" -o "${probe}"
      RESULT_VARIABLE probe_failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT probe_failed)
      string(REPLACE "clang++" "clang" clang_c "${FREEWAY_CLANGXX}")
      set(CMAKE_C_COMPILER "${clang_c}" CACHE FILEPATH "C compiler")
      set(CMAKE_CXX_COMPILER "${FREEWAY_CLANGXX}" CACHE FILEPATH "C++ compiler")
    endif()
  endif()
endif()

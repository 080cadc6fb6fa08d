# SPDX-License-Identifier: MIT
#
# Toolchain of the wheels' command: zig's clang, which brings the headers and symbol lists of every glibc and of musl, and
# links libc++ into the program. FREEWAY_ZIG is the program, FREEWAY_ZIG_TARGET what it builds for.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FREEWAY_ZIG FREEWAY_ZIG_TARGET)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${FREEWAY_ZIG_TARGET}")
set(CMAKE_C_COMPILER "${FREEWAY_ZIG}" cc -target "${FREEWAY_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER "${FREEWAY_ZIG}" c++ -target "${FREEWAY_ZIG_TARGET}")
set(CMAKE_ASM_COMPILER "${FREEWAY_ZIG}" cc -target "${FREEWAY_ZIG_TARGET}")
set(CMAKE_AR /usr/bin/ar)
set(CMAKE_RANLIB /usr/bin/ranlib)

// SPDX-License-Identifier: MIT
// traced_library.h: a frame in a shared library.
#pragma once

extern "C" int through_library(void (*function)(int), int argument);

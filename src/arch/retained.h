// SPDX-License-Identifier: MIT
// retained.h: what stays in programs that are linked with this library though nothing refers to it, also where the linker
// drops unused sections, as far as compiler and assembler know how.
#pragma once

#if defined(__has_attribute) && __has_attribute(retain)
#define FREEWAY_RETAINED __attribute__((used, retain))
#else
#define FREEWAY_RETAINED __attribute__((used))
#endif

// SPDX-License-Identifier: MIT
// retained.h: keeps things in programs that link with this library though nothing refers to them, also when the linker
// drops unused sections, as far as compiler and assembler allow.
#pragma once

#if defined(__has_attribute) && __has_attribute(retain)
#define FREEWAY_RETAINED __attribute__((used, retain))
#else
#define FREEWAY_RETAINED __attribute__((used))
#endif

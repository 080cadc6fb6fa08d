/* SPDX-License-Identifier: MIT
 *
 * twins.h: included before all else (-include) in programs of sanitizer builds, whose malloc is the sanitizer's: there
 * what a test calls by the standard names goes to Freeway by its own. The C++ library and `new` stay the sanitizer's.
 */
#ifndef FREEWAY_TESTS_TWINS_H
#define FREEWAY_TESTS_TWINS_H

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "tests/whole/differential/heaps.h"  // has functions of these names

#define malloc freeway_malloc
#define free freeway_free
#define calloc freeway_calloc
#define realloc freeway_realloc
#define aligned_alloc freeway_aligned_alloc
#define posix_memalign freeway_posix_memalign
#define malloc_usable_size freeway_malloc_usable_size
#define malloc_trim freeway_trim

#endif /* FREEWAY_TESTS_TWINS_H */

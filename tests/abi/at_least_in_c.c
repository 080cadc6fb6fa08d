/* SPDX-License-Identifier: MIT
 *
 * at_least_in_c.c: freeway.h alone, in C; a structure comes back from C++. */
#include <freeway/freeway.h>

int freeway_test_at_least_in_c(size_t size);

int freeway_test_at_least_in_c(size_t size) {
  freeway_sized_block_t block = freeway_alloc_at_least(size);
  const int is_right = block.ptr != NULL && block.size >= size && block.size <= freeway_malloc_usable_size(block.ptr);
  freeway_free_sized(block.ptr, block.size);
  return is_right;
}

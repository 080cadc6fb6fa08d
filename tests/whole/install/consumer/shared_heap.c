/* SPDX-License-Identifier: MIT
 *
 * A program with the C library's malloc and a heap that processes share.
 */
#define _GNU_SOURCE
#include <freeway/shared.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void) {
  freeway_shared_t* heap = freeway_shared_create(memfd_create("heap", MFD_CLOEXEC), NULL, 0);
  if (heap == NULL || freeway_shared_malloc(heap, 100) == NULL) return 1;
  freeway_shared_stats_t stats;
  return freeway_shared_stats(heap, &stats, sizeof stats) == 0 && stats.blocks == 1 && puts("ok, a shared heap") > 0
             ? 0
             : 1;
}

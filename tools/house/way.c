/* SPDX-License-Identifier: MIT
 * A loop over malloc(32) that tools/house/way.py follows. */
#include <stdlib.h>
volatile long calls;
void* volatile last;
__attribute__((noinline)) void before_call(void) { __asm__ volatile(""); }
__attribute__((noinline)) void loop(void) {
  for (; calls < 1000000; ++calls) {
    before_call();
    last = malloc(32);
  }
}
int main(void) { loop(); }

/* SPDX-License-Identifier: MIT
 *
 * Prints a line, then waits until somebody has looked at its memory: for hello_memory.py.
 */
#include <stdio.h>
#include <unistd.h>

int main(void) {
  puts("hello, world");
  fflush(stdout);
  char answer;
  return read(0, &answer, 1) == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: MIT
 *
 * Prints a line, then how much anonymous memory it has, in KiB: for hello_memory.py. Its own look at it takes no page.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  puts("hello, world");
  fflush(stdout);
  char text[2048];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  const ssize_t length = read(file, text, sizeof text - 1);
  if (length <= 0) return 77;
  text[length] = 0;
  const char* found = strstr(text, "Anonymous:");
  if (found == NULL) return 77;
  const size_t digits = strspn(found + 10, " 0123456789");
  return write(1, found + 10, digits) == (ssize_t)digits && write(1, "\n", 1) == 1 ? 0 : 1;
}

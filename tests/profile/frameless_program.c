// SPDX-License-Identifier: MIT
//
// frameless_program.c: without frame pointers: who called malloc lies on the stack, but nothing says where. What comes
// between the functions' frames is different each time.
#include <stdlib.h>
#include <string.h>

static void* volatile kept;
static volatile unsigned seed = 1;

static size_t noise(char* room, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) room[i] = (char)(seed = seed * 1664525 + 1013904223);
  return (unsigned char)room[0] & 0;
}

__attribute__((noinline)) size_t innermost(size_t size) {
  char room[120];
  kept = malloc(size + noise(room, sizeof room));
  return (unsigned char)room[1] & 0;
}
__attribute__((noinline)) size_t left(size_t size) {
  char room[300];
  return innermost(size + noise(room, sizeof room)) + ((unsigned char)room[1] & 0);
}
__attribute__((noinline)) size_t right(size_t size) {
  char room[60];
  return innermost(size + noise(room, sizeof room)) + ((unsigned char)room[1] & 0);
}
__attribute__((noinline)) size_t outermost(int i) {
  char room[40];
  const size_t size = 1000 + noise(room, sizeof room);
  return (i % 4 == 0 ? left(size) : right(size)) + ((unsigned char)room[1] & 0);
}

int main(void) {
  size_t sum = 0;
  for (int i = 0; i < 400; ++i) sum += outermost(i);
  return (int)sum;
}

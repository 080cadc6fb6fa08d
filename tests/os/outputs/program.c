// SPDX-License-Identifier: MIT
//
// program.c: what outputs_test.py lets write files: says its number, waits for a line, and goes on: to its end, or,
// with an argument, first to a dump as jemalloc's programs ask for one ("": without a name).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int mallctl_function(const char*, void*, size_t*, void*, size_t);

static void lose(void) {
  void* volatile lost = malloc(1000);
  lost = NULL;
  (void)lost;
}

static int ask(const char* name, void* value, size_t length) {
  mallctl_function* const mallctl = (mallctl_function*)dlsym(RTLD_DEFAULT, "mallctl");
  return mallctl == NULL ? -1 : mallctl(name, NULL, NULL, value, length);
}

int main(int argc, char** argv) {
  bool active = true;
  if (argc > 1 && ask("prof.active", &active, sizeof active) != 0) return 3;
  for (int i = 0; i < 100; ++i) lose();
  printf("%ld\n", (long)getpid());
  fflush(stdout);
  getchar();
  if (argc < 2) return 0;
  const char* path = argv[1];
  const int error = *path == 0 ? ask("prof.dump", NULL, 0) : ask("prof.dump", &path, sizeof path);
  if (error != 0) fprintf(stderr, "cannot write the dump: error %d\n", error);
  return 0;
}

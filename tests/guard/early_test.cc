// SPDX-License-Identifier: MIT
//
// early_test.cc: sigaction and signal in a resolver, before the library that has them was relocated (early_library.c).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <csignal>

extern "C" {
int early_answers();
int early_signals();
}

namespace {
void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "early_test: %s\n", what);
  exit(1);
}
void leave(int) {}
}  // namespace

int main() {
  require(early_answers() == 4, "the calls in the resolver");
  raise(SIGUSR1);
  raise(SIGUSR1);
  require(early_signals() == 2, "the handler that was set there");
  raise(SIGUSR2);  // is ignored
  require(signal(SIGUSR2, leave) == SIG_IGN && signal(SIGUSR2, SIG_DFL) == leave, "the one that was set there");
  const sighandler_t early = signal(SIGSEGV, SIG_DFL);
  require(early != SIG_DFL && early != SIG_IGN && early != leave, "its handler of SIGSEGV");
  early(SIGUSR1);
  require(early_signals() == 3, "is its own");
  free(malloc(100));
  return 0;
}

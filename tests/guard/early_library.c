/* SPDX-License-Identifier: MIT
 *
 * early_library.c: sets handlers in a resolver. The loader relocates this library before libfreeway.so, which is called
 * while none of its own relocations have been made. */
#include <signal.h>

static int answers = 0;  // calls that were answered as they should be
static volatile int signals = 0;

static void count(int number) { signals += number == SIGUSR1; }
static void nothing(void) {}

static void (*resolve(void))(void) {
  struct sigaction change, old;
  change.sa_handler = count;
  change.sa_flags = SA_RESTART;
  for (unsigned i = 0; i < sizeof change.sa_mask; ++i) ((volatile char*)&change.sa_mask)[i] = 0;
  answers += sigaction(SIGUSR1, &change, &old) == 0 && old.sa_handler == SIG_DFL;
  answers += sigaction(SIGUSR1, 0, &old) == 0 && old.sa_handler == count && (old.sa_flags & SA_RESTART) != 0;
  answers += signal(SIGUSR2, SIG_IGN) == SIG_DFL;
  answers += signal(SIGSEGV, count) == SIG_DFL;
  return nothing;
}
// Hidden: its relocation is the last one of this library.
void early(void) __attribute__((ifunc("resolve"), visibility("hidden")));

int early_answers(void);
int early_answers(void) {
  early();
  return answers;
}
int early_signals(void);
int early_signals(void) { return signals; }

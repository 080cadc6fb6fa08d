/* SPDX-License-Identifier: MIT
 *
 * early_library.c: sets a handler of SIGSEGV in a resolver. The loader relocates this library before libfreeway.so,
 * which therefore finds it when it starts. */
#include <signal.h>

void (*early_handler)(int, siginfo_t*, void*);

static void handle(int number, siginfo_t* info, void* context) { early_handler(number, info, context); }
static void nothing(void) {}

static void (*resolve(void))(void) {
  struct sigaction action;
  for (unsigned i = 0; i < sizeof action; ++i) ((volatile char*)&action)[i] = 0;
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGSEGV, &action, 0);
  return nothing;
}
/* Hidden: its relocation is the last one of this library. */
void early(void) __attribute__((ifunc("resolve"), visibility("hidden")));

void early_call(void);
void early_call(void) { early(); }

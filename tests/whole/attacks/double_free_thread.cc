// SPDX-License-Identifier: MIT
//
// double_free_thread SIZE: free(a) in one thread, free(a) in another, on another CPU if there is one. Both run until
// the end: one that sleeps may lend its cache to the other. Exploitable: the block is later handed out twice.
#include <pthread.h>

#include "attack.h"

namespace {
size_t size;
unsigned char* twice;
enum Stage { kStarted, kElsewhere, kFreed, kFreedTwice };
Stage stage;

void enter(Stage next) { __atomic_store_n(&stage, next, __ATOMIC_RELEASE); }
void wait_for(Stage wanted) {
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != wanted) sched_yield();
}

void* second(void*) {
  using namespace attack;
  for (int cpu = 0, here = sched_getcpu(); cpu < CPU_SETSIZE; ++cpu)
    if (cpu != here && CPU_ISSET(cpu, &cpus)) stay_on(cpu);
  enter(kElsewhere);
  wait_for(kFreed);
  free(hide(malloc(size)));  // the thread has a cache
  begin();
  free(hide(twice));
  done();
  for (int i = 0; i < kMany; ++i) take(size);  // and gets its own again
  check_contents();
  enter(kFreedTwice);
  return nullptr;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace attack;
  size = start(argc, argv);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, second, nullptr) != 0) return 3;
  wait_for(kElsewhere);
  settle(size);
  Block& block = take(size);
  twice = block.start;
  give(block);
  enter(kFreed);
  wait_for(kFreedTwice);
  pthread_join(thread, nullptr);
  for (int i = 0; i < kMany; ++i) take(size);
  check_contents();
  unharmed();
}

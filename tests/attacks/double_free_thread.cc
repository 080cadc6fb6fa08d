// SPDX-License-Identifier: MIT
//
// double_free_thread SIZE: free(a) in one thread, free(a) in another. Exploitable: the block is later handed out twice.
#include <pthread.h>

#include "attack.h"

namespace {
size_t size;
unsigned char* twice;

void* second(void*) {
  using namespace attack;
  free(hide(malloc(size)));  // the thread has a cache
  begin();
  free(hide(twice));
  done();
  for (int i = 0; i < kMany; ++i) take(size);  // and gets its own again
  check_contents();
  return nullptr;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace attack;
  size = size_of(argc, argv);
  settle(size);
  Block& block = take(size);
  twice = block.start;
  give(block);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, second, nullptr) != 0) return 3;
  pthread_join(thread, nullptr);
  for (int i = 0; i < kMany; ++i) take(size);
  check_contents();
  unharmed();
}

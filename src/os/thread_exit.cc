// SPDX-License-Identifier: MIT
#include "os/thread_exit.h"

#include <pthread.h>

#include "arch/atomic.h"

namespace freeway::thread_exit {

namespace {
constinit Atomic<u64> published_key;  // key + 1
}

bool watch(void (*at_exit)(void*), void* argument) {
  u64 seen = published_key.load_acquire();  // [A1] pairs with [R1]
  if (seen == 0) {
    pthread_key_t key;
    if (pthread_key_create(&key, at_exit) != 0) return false;
    if (published_key.cas_release(seen, u64{key} + 1))  // [R1] pairs with [A1]
      seen = u64{key} + 1;
    else
      pthread_key_delete(key);
  }
  return pthread_setspecific(static_cast<pthread_key_t>(seen - 1), argument) == 0;
}

}  // namespace freeway::thread_exit

// SPDX-License-Identifier: MIT
#include "os/thread_exit.h"

#include <pthread.h>

#include "os/machine.h"
#include "os/once.h"

namespace freeway::thread_exit {

namespace {
constinit Once<Machine> published_key;  // key + 1
}

bool watch(void (*at_exit)(void*), void* argument) {
  const auto make = [at_exit]() -> u64 {
    pthread_key_t key;
    return pthread_key_create(&key, at_exit) == 0 ? u64{key} + 1 : 0;
  };
  const u64 key = published_key.get(make, [](u64 late) { pthread_key_delete(static_cast<pthread_key_t>(late - 1)); });
  return key != 0 && pthread_setspecific(static_cast<pthread_key_t>(key - 1), argument) == 0;
}

}  // namespace freeway::thread_exit

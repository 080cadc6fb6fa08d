// SPDX-License-Identifier: MIT
#include "os/thread_exit.h"

#include <pthread.h>

#include "os/machine.h"
#include "sync/once.h"

// They may be missing: in a static program that does not use them, before glibc 2.34 in one without libpthread.
#pragma weak pthread_key_create
#pragma weak pthread_key_delete
#pragma weak pthread_setspecific

namespace freeway::thread_exit {

namespace {
constinit Once<Machine> published_key;  // key + 1
}

bool watch(void (*at_exit)(void*), void* argument) {
  if (&pthread_key_create == nullptr || &pthread_key_delete == nullptr || &pthread_setspecific == nullptr) return false;
  const auto make = [at_exit]() -> u64 {
    pthread_key_t key;
    return pthread_key_create(&key, at_exit) == 0 ? u64{key} + 1 : 0;
  };
  const u64 key = published_key.get(make, [](u64 late) { pthread_key_delete(static_cast<pthread_key_t>(late - 1)); });
  return key != 0 && pthread_setspecific(static_cast<pthread_key_t>(key - 1), argument) == 0;
}

}  // namespace freeway::thread_exit

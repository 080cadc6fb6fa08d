// SPDX-License-Identifier: MIT
//
// The library comes into a running program by dlopen, after its threads: its struct rseq is in their static
// thread-local storage too, and each of them registers it at its first call; a program that uses rseq itself keeps what
// it has.
//
//   loaded_late_test          the library is the first user of rseq
//   loaded_late_test taken    the program is
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cache/rseq/registration.h"

namespace {
using freeway_test::is_registered;
using freeway_test::OtherRseq;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  std::exit(1);
}

void* (*get)(std::size_t);
void (*put)(void*);

void use_the_heap() {
  void* blocks[200];
  for (int i = 0; i < 200; ++i) {
    blocks[i] = get(static_cast<std::size_t>(i) * 7 + 1);
    require(blocks[i] != nullptr, "no memory");
    std::memset(blocks[i], i, static_cast<std::size_t>(i) * 7 + 1);
  }
  for (int i = 0; i < 200; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i]);
    for (int at = 0; at < i * 7 + 1; ++at) require(bytes[at] == i, "a block was damaged");
    put(blocks[i]);
  }
}

struct Early {
  pthread_barrier_t loaded;
  bool taken;
};

// A thread that is there before the library.
void* wait_for_the_library(void* argument) {
  auto& early = *static_cast<Early*>(argument);
  OtherRseq mine;
  if (early.taken) require(mine.enter(), "could not register");
  pthread_barrier_wait(&early.loaded);
  pthread_barrier_wait(&early.loaded);
  require(is_registered() == early.taken, "registered before the first call");
  use_the_heap();
  require(is_registered(), "not registered after the first call");
  if (early.taken) require(mine.cpu() >= 0 && mine.leave(), "the program's registration was taken away");
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Early early = {.loaded = {}, .taken = argc > 1 && std::strcmp(argv[1], "taken") == 0};
  if (is_registered()) {
    std::puts("skipped: the C library registers rseq");
    return 77;
  }
  OtherRseq mine;
  if (early.taken) require(mine.enter(), "could not register");
  pthread_barrier_init(&early.loaded, nullptr, 4);
  pthread_t threads[3];
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, wait_for_the_library, &early);
  pthread_barrier_wait(&early.loaded);

  void* library = dlopen(std::getenv("FREEWAY_LIB"), RTLD_NOW);
  if (library == nullptr) std::puts(dlerror());
  require(library != nullptr, "the library cannot be loaded late");
  get = reinterpret_cast<decltype(get)>(dlsym(library, "freeway_malloc"));
  put = reinterpret_cast<decltype(put)>(dlsym(library, "freeway_free"));
  pthread_barrier_wait(&early.loaded);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  use_the_heap();
  require(is_registered(), "the first thread is not registered");
  if (early.taken) require(mine.cpu() >= 0 && mine.leave(), "the program's registration was taken away");
  std::puts("passed");
}

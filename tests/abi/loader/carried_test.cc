// SPDX-License-Identifier: MIT
//
// Libraries with Freeway in them come by dlopen into a program without it: there is static thread-local storage for as
// many as docs/limits.md leaves room for, in threads that were there before, too.
//
//   loader_carried LIBRARY    is loaded in copies, which are libraries of their own to the loader
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

constexpr int kCopies = FREEWAY_EMULATED ? 2 : 8;  // an emulator makes tables for the address space of each

int (*carriers[kCopies])();
pthread_barrier_t loaded;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  std::exit(1);
}

void use_all() {
  for (const auto works : carriers) require(works() != 0, "a block was damaged, or there is none");
}

// A thread that is there before the libraries.
void* wait_for_them(void*) {
  pthread_barrier_wait(&loaded);
  use_all();
  return nullptr;
}

void* use_them(void*) {
  use_all();
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  pthread_barrier_init(&loaded, nullptr, 2);
  pthread_t before, after;
  require(pthread_create(&before, nullptr, wait_for_them, nullptr) == 0, "no thread");
  char folder[] = "/tmp/freeway-loader-XXXXXX";
  require(mkdtemp(folder) != nullptr, "no folder");
  for (int i = 0; i < kCopies; ++i) {
    const std::string copy = std::string(folder) + "/" + std::to_string(i) + ".so";
    std::filesystem::copy_file(argv[1], copy);
    void* library = dlopen(copy.c_str(), RTLD_NOW);
    if (library == nullptr) std::printf("copy %d: %s\n", i, dlerror());
    require(library != nullptr, "the library cannot be loaded");
    carriers[i] = reinterpret_cast<int (*)()>(dlsym(library, "carrier_works"));
    require(carriers[i] != nullptr && (i == 0 || carriers[i] != carriers[i - 1]), "it is not a library of its own");
  }
  std::filesystem::remove_all(folder);
  pthread_barrier_wait(&loaded);
  use_all();
  require(pthread_create(&after, nullptr, use_them, nullptr) == 0, "no thread");
  pthread_join(before, nullptr);
  pthread_join(after, nullptr);
  std::puts("passed");
}

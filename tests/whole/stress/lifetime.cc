// SPDX-License-Identifier: MIT
//
// lifetime.cc: malloc at the ends of a process's life: in .preinit_array before any constructor, in constructors, in
// thread-local objects' destructors, in atexit handlers and destructors after main has returned. A program of its own;
// it passes by reaching its last line.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(bool condition, const char* what) {
  if (condition) return;
  dprintf(2, "lifetime: %s\n", what);
  _exit(1);
}

struct Stage {
  char* small = nullptr;
  char* large = nullptr;

  void allocate() {
    small = static_cast<char*>(malloc(100));
    large = static_cast<char*>(calloc(1, 100000));
    check(small != nullptr && large != nullptr, "malloc");
    check(large[0] == 0 && large[99999] == 0, "calloc is not zero");
    memset(small, 's', 100);
    memset(large, 'l', 100000);
  }
  void verify_and_free() {
    check(small != nullptr && small[0] == 's' && small[99] == 's', "a small block of an earlier stage changed");
    check(large[0] == 'l' && large[99999] == 'l', "a large block of an earlier stage changed");
    free(small);
    free(large);
    small = large = nullptr;
  }
};

Stage before_constructors;
Stage before_main;
int stages_done = 0;

void before_everything(int, char**, char**) {
  before_constructors.allocate();
  ++stages_done;
}
__attribute__((used, section(".preinit_array"))) void (*preinit)(int, char**, char**) = before_everything;

__attribute__((constructor(101))) void early_constructor() {
  check(stages_done == 1, "stages out of order");
  before_main.allocate();
  ++stages_done;
}

// The last destructor of all: registered by the first constructor of a static object.
struct LastOfAll {
  ~LastOfAll() {
    before_main.verify_and_free();
    Stage stage;
    stage.allocate();
    stage.verify_and_free();
    check(stages_done == 5, "a stage was left out");
    const char done[] = "all stages done\n";
    check(write(1, done, sizeof done - 1) == long(sizeof done - 1), "write");
  }
};
__attribute__((init_priority(102))) LastOfAll last_of_all;

struct OfThread {
  std::vector<std::string> lines = std::vector<std::string>(50, std::string(300, 't'));
  Stage stage;
  OfThread() { stage.allocate(); }
  ~OfThread() {
    stage.verify_and_free();
    Stage another;
    another.allocate();
    another.verify_and_free();
  }
};
thread_local OfThread of_thread;

void at_exit() {
  Stage stage;
  stage.allocate();
  std::thread([] {
    of_thread.lines.clear();
    Stage inner;
    inner.allocate();
    inner.verify_and_free();
  }).join();
  stage.verify_and_free();
  ++stages_done;
}

}  // namespace

int main() {
  check(stages_done == 2, "malloc was not usable before main");
  before_constructors.verify_and_free();
  atexit(at_exit);
  for (int i = 0; i < 50; ++i) std::thread([] { of_thread.lines.emplace_back(1000, 'u'); }).join();
  of_thread.lines.emplace_back(1000, 'm');  // main's own: destroyed after main
  ++stages_done;
  // Threads that are still in malloc when main returns: the end of the process may neither hang nor crash on them.
  for (int i = 0; i < 4; ++i)
    std::thread([] {
      for (unsigned size = 0;; ++size) free(malloc(size % 50000));
    }).detach();
  ++stages_done;
  return 0;
}

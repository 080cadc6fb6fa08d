// SPDX-License-Identifier: MIT
//
// plugin.cc: the library that language_test.cc loads and unloads: it allocates when it is loaded, keeps thread-local
// objects with destructors, and frees when it is unloaded.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

int live_objects = 0;

struct Counted {
  std::vector<std::string> lines;
  Counted() : lines(100, std::string(200, 'p')) { ++live_objects; }
  ~Counted() { --live_objects; }
};

Counted at_load;
std::map<int, std::string> table = {{1, std::string(100, 'a')}, {2, std::string(50000, 'b')}};
thread_local Counted of_thread;

}  // namespace

extern "C" __attribute__((visibility("default"))) void* plugin_allocate(size_t size) {
  return malloc(size + table[1].size() - 100);
}

// A thread-local object with a destructor keeps the library loaded until its thread ends, so this is for short threads.
extern "C" __attribute__((visibility("default"))) void plugin_use_thread_object() {
  of_thread.lines.push_back(table[2]);
}

extern "C" __attribute__((visibility("default"))) int plugin_live_objects() { return live_objects; }

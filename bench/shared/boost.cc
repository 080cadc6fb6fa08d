// SPDX-License-Identifier: MIT
//
// Boost.Interprocess: managed_shared_memory with its usual allocator (rbtree_best_fit and a mutex) (throughput.h).
#include <boost/interprocess/managed_shared_memory.hpp>
#include <string>

#include "throughput.h"

namespace {

namespace ipc = boost::interprocess;

class Heap {
 public:
  static constexpr bool kOneProcess = false;

  Heap() : segment_(ipc::create_only, name().c_str(), std::size_t{128} << 20) {
    ipc::shared_memory_object::remove(name().c_str());
  }
  void* allocate(std::size_t bytes) { return segment_.allocate(bytes, std::nothrow); }
  void release(void* block) { segment_.deallocate(block); }

 private:
  static std::string name() { return "freeway-bench-" + std::to_string(getpid()); }
  ipc::managed_shared_memory segment_;
};

}  // namespace

int main(int argc, char** argv) { return bench::Throughput<Heap>(argc, argv).run(); }

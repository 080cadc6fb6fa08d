// SPDX-License-Identifier: MIT
//
// Freeway's shared heap, in a memfd (throughput.h).
#include <freeway/shared.h>

#include "throughput.h"

namespace {

class Heap {
 public:
  static constexpr bool kOneProcess = false;

  Heap() {
    const int fd = memfd_create("shared", MFD_CLOEXEC);
    heap_ = freeway_shared_create(fd, nullptr, sizeof(freeway_shared_options_t));
    if (heap_ == nullptr) std::perror("freeway_shared_create"), std::exit(1);
  }
  void* allocate(std::size_t bytes) { return freeway_shared_malloc(heap_, bytes); }
  void release(void* block) { freeway_shared_free(heap_, block); }

 private:
  freeway_shared_t* heap_;
};

}  // namespace

int main(int argc, char** argv) { return bench::Throughput<Heap>(argc, argv).run(); }

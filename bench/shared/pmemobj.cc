// SPDX-License-Identifier: MIT
//
// libpmemobj, for memory that need not last: a pool on tmpfs, nothing is flushed to a medium (throughput.h). A pool can
// be open in one process only: its threads do the work.
#include <libpmemobj.h>

#include <string>

#include "throughput.h"

namespace {

class Heap {
 public:
  static constexpr bool kOneProcess = true;
  // 16 threads of the mixed work have 256 KiB for most sizes each.
  static constexpr std::size_t kPoolBytes = std::size_t{1} << 30;

  Heap() {
    setenv("PMEM_IS_PMEM_FORCE", "1", 1);  // no msync
    const std::string path = "/dev/shm/freeway-bench-" + std::to_string(getpid());
    pool_ = pmemobj_create(path.c_str(), "bench", kPoolBytes, 0600);
    if (pool_ == nullptr) std::fprintf(stderr, "%s\n", pmemobj_errormsg()), std::exit(1);
    unlink(path.c_str());
  }
  ~Heap() { pmemobj_close(pool_); }

  void* allocate(std::size_t bytes) {
    PMEMoid object;
    return pmemobj_alloc(pool_, &object, bytes, 0, nullptr, nullptr) == 0 ? pmemobj_direct(object) : nullptr;
  }
  void release(void* block) {
    PMEMoid object = pmemobj_oid(block);
    pmemobj_free(&object);
  }

 private:
  PMEMobjpool* pool_;
};

}  // namespace

int main(int argc, char** argv) { return bench::Throughput<Heap>(argc, argv).run(); }

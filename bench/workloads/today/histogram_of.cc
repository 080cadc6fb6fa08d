// SPDX-License-Identifier: MIT
//
// histogram_of: a library to preload that counts what a program asks of malloc, by size. It forwards to whichever
// malloc comes next. At the end of each process it writes <prefix>.<program>.<pid>, a row for each bin that was used,
// in the form in which measured_sizes.h has them.
//
//   HISTOGRAM_OF=/tmp/sizes LD_PRELOAD=.../libhistogram_of.so g++ -O2 -c some.cc
//
// malloc, calloc and the aligned forms count once. A realloc counts as the allocation of its new size: that is what it
// is unless the block can grow in place. Environment: HISTOGRAM_OF, the prefix; without it nothing is written.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "today/size_bins.h"

namespace {

std::atomic<unsigned long> counts[bench::kBins];

void count(std::size_t size) { counts[bench::bin_of(size)].fetch_add(1, std::memory_order_relaxed); }

// The next library's function; looked up once, by whoever comes first (twice does no harm).
template <class Function> class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function get() {
    Function function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name_));
      if (function == nullptr) abort();
      function_.store(function, std::memory_order_release);
    }
    return function;
  }

 private:
  const char* name_;
  std::atomic<Function> function_{nullptr};
};

Next<void* (*)(std::size_t)> next_malloc("malloc");
Next<void* (*)(std::size_t, std::size_t)> next_calloc("calloc");
Next<void* (*)(void*, std::size_t)> next_realloc("realloc");
Next<void* (*)(std::size_t, std::size_t)> next_memalign("memalign");
Next<void* (*)(std::size_t, std::size_t)> next_aligned_alloc("aligned_alloc");
Next<int (*)(void**, std::size_t, std::size_t)> next_posix_memalign("posix_memalign");

// stdio would allocate; the file is opened by number and written in one go.
__attribute__((destructor)) void write_down() {
  const char* prefix = std::getenv("HISTOGRAM_OF");
  if (prefix == nullptr) return;
  static char path[4096];
  std::snprintf(path, sizeof path, "%s.%s.%d", prefix, program_invocation_short_name, static_cast<int>(getpid()));
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  static char row[128];
  for (std::size_t bin = 0; bin < bench::kBins; ++bin) {
    const unsigned long many = counts[bin].load(std::memory_order_relaxed);
    if (many == 0) continue;
    const int length =
        std::snprintf(row, sizeof row, "{%zu, %zu, %lu},\n", bench::bin_first(bin), bench::bin_last(bin), many);
    if (write(fd, row, static_cast<std::size_t>(length)) != length) break;
  }
  close(fd);
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  count(size);
  return next_malloc.get()(size);
}

void* calloc(std::size_t many, std::size_t size) noexcept {
  count(many * size);
  return next_calloc.get()(many, size);
}

void* realloc(void* block, std::size_t size) noexcept {
  if (size != 0) count(size);
  return next_realloc.get()(block, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count(size);
  return next_memalign.get()(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count(size);
  return next_aligned_alloc.get()(alignment, size);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  count(size);
  return next_posix_memalign.get()(block, alignment, size);
}

}  // extern "C"

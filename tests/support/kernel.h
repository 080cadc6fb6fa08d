// SPDX-License-Identifier: MIT
//
// kernel.h: what the unit tests have in place of the kernel's memory calls: real mappings, with failures on demand.
//
// It knows every mapping that was made through it, so that a call that is outside of one, misaligned or empty is a test
// failure at once, and so that a test can say "nothing was lost" by comparing what is mapped before and after.
#ifndef FREEWAY_TESTS_UNIT_KERNEL_H
#define FREEWAY_TESTS_UNIT_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/space.h"

namespace freeway::test {

using uptr = std::uintptr_t;

enum class Call { kReserve, kMap, kCommit, kForbid, kPurge, kMove, kMoveOut, kResize, kRelease, kExtend };
constexpr int kCalls = 10;

class Kernel {
 public:
  struct Range {
    uptr end;
    bool accessible;
    unsigned mapping;  // which reserve() or map() made it
    bool operator==(const Range& other) const { return end == other.end && accessible == other.accessible; }
  };
  using Ranges = std::map<uptr, Range>;

  ~Kernel() { reset(); }
  // Ends all mappings, forgets all counts and failures.
  void reset();

  // As os/vm.h promises them. Spaces are reservations unless choose_spaces() was called, after which they are places.
  Space space(std::size_t bytes, std::size_t alignment);
  Extended extend(uptr address, std::size_t bytes);
  uptr reserve(std::size_t bytes, std::size_t alignment);
  uptr map(std::size_t bytes, std::size_t alignment);
  bool commit(uptr address, std::size_t bytes);
  bool forbid(uptr address, std::size_t bytes);
  bool purge(uptr address, std::size_t bytes);
  std::size_t resident(uptr address, std::size_t bytes);
  bool release(uptr address, std::size_t bytes);
  bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes);
  bool move_out(uptr from, std::size_t bytes, uptr to);
  bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes);

  void choose_spaces() { chosen_ = true; }
  // A mapping of somebody else's, until reset().
  void occupy(uptr address, std::size_t bytes);

  // Refuses the `nth` call of this kind from now on, and the `times - 1` after it.
  void refuse(Call call, std::uint64_t nth = 1, std::uint64_t times = 1);
  void refuse_from_now_on(Call call) { refuse(call, 1, ~std::uint64_t{0}); }
  // Refuses the `nth` call of any kind.
  void refuse_any(std::uint64_t nth);
  void refuse_all(bool all) { refuse_all_ = all; }
  // Refuses reservations and mappings of more than `bytes`.
  void refuse_over(std::size_t bytes) { most_ = bytes; }
  // Ends refuse, refuse_any, refuse_all and refuse_over.
  void refuse_nothing();
  std::uint64_t refused() const { return refused_; }

  std::uint64_t calls(Call call) const { return calls_[static_cast<int>(call)]; }

  // From now on mappings are made one after the other, upwards, with no gap but what alignment needs, within `bytes`.
  void pack(std::size_t bytes);

  const Ranges& ranges() const { return ranges_; }
  std::size_t mapped_bytes() const;
  std::size_t accessible_bytes() const;
  bool is_accessible(uptr address, std::size_t bytes) const;

 private:
  struct Failure {
    std::uint64_t countdown = 0, times = 0;
  };
  bool refuses(Call call);
  bool is_free(uptr address, std::size_t bytes) const;
  bool in_one_mapping(uptr address, std::size_t bytes) const;
  bool is_mapped(uptr address, std::size_t bytes) const;
  bool is_whole_mapping(uptr address, std::size_t bytes) const;
  bool ends_mapping(uptr address, std::size_t bytes) const;
  uptr make(std::size_t bytes, std::size_t alignment, bool accessible);
  uptr find_room(std::size_t bytes, std::size_t alignment, int protection);
  void keep_packed(uptr address, std::size_t bytes);
  void remove(uptr address, std::size_t bytes);
  void set(uptr address, std::size_t bytes, bool accessible, unsigned mapping);

  std::recursive_mutex mutex_;
  Ranges ranges_;
  unsigned mappings_ = 0;
  Failure failures_[kCalls];
  std::uint64_t any_countdown_ = 0;
  bool refuse_all_ = false, chosen_ = false;
  std::size_t most_ = ~std::size_t{0};
  std::uint64_t refused_ = 0;
  std::uint64_t calls_[kCalls] = {};
  uptr pack_at_ = 0, pack_next_ = 0, pack_end_ = 0;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_KERNEL_H

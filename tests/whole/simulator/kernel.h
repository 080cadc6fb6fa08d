// SPDX-License-Identifier: MIT
//
// kernel.h: a pretended kernel over one plain area of memory, which is mapped once: what is mapped, and how, is only
// noted. What is unmapped or purged becomes zero. It refuses when the seed says so, and takes calls amiss that a
// careful kernel would take.
#ifndef FREEWAY_SIMULATOR_KERNEL_H
#define FREEWAY_SIMULATOR_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/whole/simulator/random.h"

namespace freeway::sim {

class Kernel {
 public:
  using Address = std::uintptr_t;
  // Two areas: the places of the library's window for 36 bits of addresses, and room for mappings that the kernel
  // places; the places of the window for 38 bits.
  static constexpr Address kBegin = Address{10} << 30, kWindowEnd = Address{16} << 30, kEnd = Address{20} << 30;
  static constexpr Address kFarBegin = Address{40} << 30, kFarEnd = Address{64} << 30;
  static constexpr bool is_inside(Address at, std::size_t bytes) {
    return (at >= kBegin && at + bytes <= kEnd) || (at >= kFarBegin && at + bytes <= kFarEnd);
  }

  static constexpr std::size_t kLongest = std::size_t{1} << 30;

  void boot();  // once, before all
  // Whether anything was written where nothing is mapped: then a complaint.
  std::string check();
  // For a new seed: nothing is mapped, and all memory is zero.
  void reset();

  // The answer, or a negative errno.
  long map(Address at, std::size_t bytes, int protection, int flags);
  long unmap(Address at, std::size_t bytes);
  long protect(Address at, std::size_t bytes, int protection);
  long advise(Address at, std::size_t bytes, int advice);
  long remap(Address from, std::size_t old_bytes, std::size_t new_bytes, int flags, Address to);
  long resident(Address at, std::size_t bytes, unsigned char* out);

  // Something else of the process's.
  void occupy(Address at, std::size_t bytes);
  // What a fork's child finds.
  void wipe_for_child();

  // The first page in the range that is not zero; 0: there is none.
  static Address first_filled(Address at, std::size_t bytes);
  std::size_t mappings() const { return ranges_.size(); }
  bool is_mapped(Address at, std::size_t bytes) const;
  bool is_accessible(Address at, std::size_t bytes) const;
  bool has_own(Address at, std::size_t bytes) const;  // a mapping of the malloc's
  // How many mappings are just so long and accessible as a whole, beside pieces of ranges that grow (os/window.h); how
  // many, of a power of two of MiB, are not accessible at all.
  std::size_t count_accessible(std::size_t bytes) const;
  std::size_t count_reserved() const;

  // One in so many calls is refused, while `refuses`; no more mappings than `most_mappings`.
  std::size_t page = 4096;
  bool is_spoilt = false;  // the last seed failed
  std::uint64_t refused_one_in = 0;
  bool refuses = true;
  std::size_t most_mappings = ~std::size_t{0};
  std::size_t longest = kLongest;  // mapping at a place that the kernel chooses
  Random random;
  std::uint64_t calls = 0, refusals = 0, drawn = 0;  // drawn: random numbers
  void (*complain)(const char* what, Address at, std::size_t bytes) = nullptr;
  bool refuse() { return refuses && random.one_in(refused_one_in) && (++refusals, true); }

 private:
  struct Range {
    Address end;
    int protection;
    bool wiped;                // in the child of a fork
    bool foreign = false;      // occupied
    std::uint64_t number = 0;  // of the call that mapped it
  };
  bool is_free(Address at, std::size_t bytes) const;
  void split(Address at);
  void cut(Address at, std::size_t bytes);  // and zero
  bool is_whole(Address at, std::size_t bytes) const { return bytes != 0 && at % page == 0 && bytes % page == 0; }
  bool is_foreign(Address at, std::size_t bytes) const;
  template <class F> void each_mapping(F&& f) const;  // f(address, bytes, how many of them are accessible)
  bool at_limit();
  static bool each_resident(Address at, std::size_t bytes, bool (*f)(Address page));
  static void zero(Address at, std::size_t bytes);

  std::map<Address, Range> ranges_;
  std::map<Address, Address> cut_;  // what was unmapped since the reset
  unsigned resets_ = 0;
};

extern Kernel kernel;

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_KERNEL_H

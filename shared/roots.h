// SPDX-License-Identifier: MIT
// Roots: 64 named words of a shared heap, found by name and replaced atomically by processes that may die at any step.
//
// Words     name[0 … 5]: 0 -> a word of a name (CAS), in this order, each once and for good. Names are padded to 48
//           bytes of which none is 0 (NameWords), so a name is whole when its last word is there, and no name begins
//           another one value: any -> any (CAS); 0 at first
// Invariant an entry has one name, and a name has one entry. Who names an entry goes through the entries from the first
//           one: to the first that says nothing else than what it wants to write. What was written stays, so all who
//           look for the same name pass by the same entries and meet in the same one
// Who       any process, any thread, any signal handler
// Orders    [R1] replace publishes what was written before; [A1] find sees it. Names publish nothing
// Progress  wait-free: 64 entries of 6 words
// Lost if killed: an entry whose name is half written, until somebody names a root whose name begins so: he completes
// it
// Checked   shared/tests/roots_model.cc, shared/tests/attach_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::shared {

// A name as words that are not 0.
struct NameWords {
  static constexpr unsigned kWords = 6, kLongest = 47;
  u64 words[kWords];
};

// False: it has no bytes, or more than kLongest.
inline bool pack_name(const char* text, NameWords& name) {
  unsigned char bytes[NameWords::kWords * 8];
  unsigned length = 0;
  while (length <= NameWords::kLongest && text[length] != 0) ++length;
  if (length == 0 || length > NameWords::kLongest) return false;
  for (unsigned i = 0; i < sizeof(bytes); ++i) bytes[i] = i < length ? static_cast<unsigned char>(text[i]) : 0xff;
  bytes[sizeof(bytes) - 1] = static_cast<unsigned char>(length);  // tells padding from bytes that look like it
  __builtin_memcpy(name.words, bytes, sizeof(bytes));
  return true;
}

template <class Env, unsigned kRoots = 64, unsigned kWords = NameWords::kWords> class Roots {
 public:
  enum class Replaced { kDone, kOther, kNoRoom };

  // The value; 0 where there is no such root.
  u64 find(const u64 (&name)[kWords]) const {
    for (const Root& root : roots_) {
      unsigned w = 0;
      while (w < kWords && root.name[w].load_relaxed() == name[w]) ++w;
      if (w == kWords) return root.value.load_acquire();  // [A1] pairs with [R1]
    }
    return 0;
  }

  Replaced replace(const u64 (&name)[kWords], u64 expected, u64 replacement) {
    for (Root& root : roots_) {
      if (!write_name(root, name)) continue;
      return root.value.cas_acq_rel(expected, replacement) ? Replaced::kDone
                                                           : Replaced::kOther;  // [R1] pairs with [A1]
    }
    return Replaced::kNoRoom;
  }

 private:
  struct alignas(64) Root {
    typename Env::template Atomic<u64> name[kWords];
    typename Env::template Atomic<u64> value;
  };

  // Whether the entry has this name, as it may after a call.
  static bool write_name(Root& root, const u64 (&name)[kWords]) {
    for (unsigned w = 0; w < kWords; ++w) {
      u64 seen = root.name[w].load_relaxed();
      Env::step("roots.word read");
      if (seen == 0 && root.name[w].cas_relaxed(seen, name[w])) continue;
      if (seen != name[w]) return false;
    }
    return true;
  }

  Root roots_[kRoots];
};

}  // namespace freeway::shared

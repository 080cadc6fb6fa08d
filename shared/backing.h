// SPDX-License-Identifier: MIT
// Backing: which frames have memory, so that no page is forgotten, wherever somebody is killed who takes it or gives it
// back.
//
// Word      backing of a frame (words.h): 0: no page has memory | kSome: some may have, it is *in doubt* | kSome +
//           kAll: all have
// Moves     take: 0 -> kSome; the kernel gives memory; -> kSome + kAll. Refused: give back
//           give back: kSome + kAll -> kSome; the kernel takes memory; -> 0. Where it takes none: back to what it was
// Invariant kAll => every page of the frame has memory. A page with memory => kSome
//           a frame is in doubt while a CLAIM has it; a FREE one only where the kernel has refused to take memory back
// Who       who has the CLAIM on the frame, or cleans up after who had it. Others read it as a hint
// Duty      who cleans up takes the memory of frames in doubt before the CLAIM ends (recover.h). A process is gone
//           after all of its system calls: the kernel gives it no more pages
// Orders    all relaxed: with the frame goes what is known of it (runs.h). Of the dead the order of the program counts
//           (steps.h)
// Progress  wait-free but for the kernel      Lost if killed: nothing
// Checked   shared/tests/backing_model.cc, shared/tests/every_instruction_test.cc
#pragma once

#include "shared/steps.h"
#include "shared/tables.h"

namespace freeway::shared {

template <class World> class Backing {
 public:
  using Env = typename World::Env;

  explicit Backing(World& world) : world_(world), tables_(world.tables) {}

  bool has_all(u32 f) const { return of(f) == kBoth; }
  bool has_some(u32 f) const { return of(f) != 0; }

  // All of the frames have memory now. False: it is refused.
  bool take(u32 first, u32 n) {
    return for_each_part(first, n, [this](u32 part, u32 length) { return has_all(part) || take_part(part, length); });
  }

  // None of the frames has memory now. False: the kernel took none, or not all of it.
  bool give_back(u32 first, u32 n) {
    return for_each_part(first, n,
                         [this](u32 part, u32 length) { return !has_some(part) || give_back_part(part, length); });
  }

  // The same for those that are in doubt.
  void settle(u32 first, u32 n) {
    for_each_part(first, n, [this](u32 part, u32 length) {
      if (has_some(part) && !has_all(part)) give_back_part(part, length);
      return true;
    });
  }

 private:
  static constexpr u8 kBoth = backing::kSome | backing::kAll;

  u8 of(u32 f) const { return tables_.backing[f].load_relaxed() & kBoth; }
  void add(u32 first, u32 n, u8 bits) {
    for (u32 f = first; f < first + n; ++f) tables_.backing[f].store_relaxed(tables_.backing[f].load_relaxed() | bits);
  }
  void remove(u32 first, u32 n, u8 bits) {
    for (u32 f = first; f < first + n; ++f)
      tables_.backing[f].store_relaxed(tables_.backing[f].load_relaxed() & static_cast<u8>(~bits));
  }

  // f(first, n) for frames side by side that are alike, until one says false.
  template <class F> bool for_each_part(u32 first, u32 n, F&& f) {
    for (u32 begin = first, end; begin < first + n; begin = end) {
      const u8 bits = of(begin);
      for (end = begin + 1; end < first + n && of(end) == bits;) ++end;
      if (!f(begin, end - begin)) return false;
    }
    return true;
  }

  bool take_part(u32 first, u32 n) {
    bool came = true;
    const auto come = [&] { came = world_.back(first, n); };
    in_order<Env>([&] { add(first, n, backing::kSome); },
                  [&] {
                    in_order<Env>(come, [&] {
                      if (came) add(first, n, backing::kAll);
                    });
                  });
    if (!came) give_back_part(first, n);
    return came;
  }

  bool give_back_part(u32 first, u32 n) {
    const bool had_all = has_all(first);
    Punched punched = Punched::kDone;
    const auto go = [&] { punched = world_.punch(first, n); };
    in_order<Env>([&] { remove(first, n, backing::kAll); },
                  [&] {
                    in_order<Env>(go, [&] {
                      if (punched == Punched::kDone) remove(first, n, backing::kSome);
                    });
                  });
    if (punched == Punched::kNothing && had_all) add(first, n, backing::kAll);
    return punched == Punched::kDone;
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared

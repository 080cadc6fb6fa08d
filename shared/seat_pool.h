// SPDX-License-Identifier: MIT
// SeatPool: the seats that this process has in a shared heap; a call has one of them for itself while it lasts.
//
// Word      place, a claim (sync/claim.h): 0 = none | seat << 1 | 1 while a call has it
// Moves     take: seat -> busy (pass)    give: busy -> seat (release)    add: 0 -> busy (take)    remove: busy -> 0
//           (release)
// Who       any thread, any signal handler: a handler finds its thread's place busy and takes another. A fork wipes the
//           memory that the pool lies in (os/vm.h), so a child has none
// Parting   each thread begins at a place of its own as a rule (the hint); neighbours lie in different cache lines
// Orders    the claim's: take sees what the call before wrote in the seat's slab
// Progress  wait-free: kPlaces attempts      Lost if killed: nothing, the process is gone. A thread that vanishes in a
//           call leaves its place busy until the process ends
// Checked   shared/tests/seats_model.cc, shared/tests/attach_test.cc
#pragma once

#include "shared/words.h"
#include "sync/claim.h"

namespace freeway::shared {

template <class Env, u32 kPlaces = 256> class SeatPool {
 public:
  struct Taken {
    u32 seat;  // 0: none was free
    u32 place;
  };

  // A seat that no call has; `hint`: any number, the same for calls of one thread as a rule.
  Taken take(u64 hint) {
    for (u32 i = 0; i < kPlaces; ++i) {
      const u32 place = static_cast<u32>(hint + i) % kPlaces;
      const u32 word = at(place).holder();
      if (word == 0 || (word & kBusy) != 0) continue;
      if (at(place).pass(word, word | kBusy)) return {word >> 1, place};
    }
    return {};
  }
  // After a call.
  void give(Taken taken) { at(taken.place).release(taken.seat << 1); }
  // A seat at which the process has just sat down, for the caller's call. seat 0: there is no place. That cannot be
  // while there are no more seats than places, unless somebody spoils the file, and seats in it are taken that were
  // taken before.
  Taken add(u32 seat, u64 hint) {
    for (u32 i = 0; i < kPlaces; ++i) {
      const u32 place = static_cast<u32>(hint + i) % kPlaces;
      if (at(place).take(seat << 1 | kBusy)) return {seat, place};
    }
    return {};
  }
  // A seat that was taken, and that the process leaves now: once it has left, it may sit down there again, and needs a
  // place.
  void remove(Taken taken) { at(taken.place).release(); }

 private:
  static constexpr u32 kBusy = 1;
  static constexpr u32 kLine = 16;  // words in a cache line
  static_assert(kPlaces < kLine || kPlaces % kLine == 0);

  // Consecutive places lie in different lines.
  Claim<Env, u32>& at(u32 place) {
    constexpr u32 kLines = kPlaces < kLine ? kPlaces : kPlaces / kLine;
    return words_[place % kLines * (kPlaces / kLines) + place / kLines];
  }

  alignas(64) Claim<Env, u32> words_[kPlaces];
};

}  // namespace freeway::shared

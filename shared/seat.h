// SPDX-License-Identifier: MIT
// Seats: sitting down, and leaving in peace.
//
// Words     participant: NONE(g) -> ALIVE(g+1,t) (join: CAS) -> NONE(g+1) (leave: store)
//           of one that died: ALIVE(g,t) or RECOVERING(R,r,g) -> ALIVE(g+1,t), unsettled (join: CAS) -> ALIVE(g+1,t)
//           (store): who sits down there cleans up first, in its own name. So the dead cannot take all seats from who
//           attaches
// Who       join: anybody whose process has the token; leave: who sits there
// Orders    [A1] who sits down sees all that was done in the seat's name: [R1] by who left in peace, or cleaned up
//           (recover.h) [R2] who sits down at a seat of the dead publishes that it knows all that they did (recover.h)
// Progress  wait-free      Lost if killed: nothing: the seat is ALIVE with the token of a process that is gone
// Checked   shared/tests/recovery_model.cc, shared/tests/heap_test.cc
#pragma once

#include "shared/recover.h"

namespace freeway::shared {

template <class World> class Seats {
 public:
  explicit Seats(World& world) : world_(world), tables_(world.tables) {}

  // Sits down at `seat`, as a process with `token`. False: somebody lives there, or another cleans up.
  bool join(u32 seat, u32 token) {
    auto& word = tables_.participant(seat);
    u64 seen = word.load_relaxed();
    const bool left_behind = participant::kind(seen) != participant::Kind::kNone;
    if (left_behind && !Recovery(world_).is_left_behind(seen)) return false;
    const u32 life = participant::life(seen) + 1;
    const u64 next = left_behind ? participant::unsettled(life, token) : participant::alive(life, token);
    if (!word.cas_acq_rel(seen, next))
      return false;  // [A1] pairs with recover.h:[R1] [R1]; [R2] pairs with recover.h:[A1]
    if (left_behind) Recovery(world_).clean_up(seat);
    // Slots stay as they are: what they name is not CACHED by this seat any more.
    auto& slab = tables_.slab(seat);
    slab.in_slot.store_relaxed(0);
    for (u32 c = 1; c < World::Shape::kClasses; ++c) {
      slab.top[c].store_relaxed(0);
      slab.held[c].store_relaxed(0);
    }
    World::Env::fence_signal();
    if (left_behind) word.store_release(participant::alive(life, token));  // [R2] pairs with recover.h:[A1]
    return true;
  }

  // Everything that the seat has goes back, and it is free for others.
  void leave(u32 seat) {
    auto& word = tables_.participant(seat);
    Recovery(world_).clean_up(seat);
    World::Env::fence_signal();
    word.store_release(participant::none(participant::life(word.load_relaxed())));  // [R1] pairs with [A1]
  }

 private:
  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared

// SPDX-License-Identifier: MIT
// remote.h: the moves of a page block's remotely_freed word (remotely_freed.h), one compare-and-swap each.
//
// Who       push: whoever owns the object.   reclaim, orphan, list: the owner.   take_over: who took it off a list
// Orders    [R1] a freed object's link, and all that was done to the object, are published; [A1] reclaim and take over
//           see them [R2] a page block is let go with the owner's part of its header; [A2] adopters and takers see
//           that. What goes to a list is published by the push there
// Progress  lock-free: a failed CAS is another thread's success     Lost if killed: the object in hand
// Checked   papers/streamflow/tests/remotely_freed_model.cc
#pragma once

#include "papers/streamflow/page_block.h"

namespace freeway::streamflow::remote {

// What a freer found.
enum class Push { kDone, kOrphaned };

// Remote deallocation. kOrphaned: nobody owns the page block, nothing was done.
template <class Env> Push push(PageBlock<Env>& b, u32 object) {
  using namespace remotely_freed;
  u64 seen = b.remotely_freed.load_relaxed();
  do {
    if (owner(seen) == kNobody) return Push::kOrphaned;
    b.link(object).set(head(seen));
    Env::step("remote.push");
  } while (!b.remotely_freed.cas_release(seen, word(owner(seen), object)));  // [R1] pairs with [A1]
  // LAST TOUCH: b
  return Push::kDone;
}

// Lazy reclaim: all that was remotely freed moves to `freed`. False: there was nothing.
template <class Env> bool reclaim(PageBlock<Env>& b, u32 me) {
  using namespace remotely_freed;
  u64 seen = b.remotely_freed.load_relaxed();
  do {
    if (head(seen) == 0) return false;
    Env::step("remote.reclaim");
  } while (!b.remotely_freed.cas_acquire(seen, word(me, 0)));  // [A1] pairs with [R1]
  b.put_all(head(seen));
  return true;
}

// Thread termination: a full page block is nobody's from now on. False: something was freed meanwhile, it is still
// ours.
template <class Env> bool orphan(PageBlock<Env>& b, u32 me) {
  using namespace remotely_freed;
  u64 seen = word(me, 0);
  Env::step("remote.orphan");
  return b.remotely_freed.cas_release(seen, word(kNobody, head(seen)));  // [R2] pairs with [A2]
}

// A freer sees that nobody owns the page block, and makes it its own. False: somebody else was faster.
template <class Env> bool adopt(PageBlock<Env>& b, u32 me) {
  using namespace remotely_freed;
  u64 seen = word(kNobody, 0);
  Env::step("remote.adopt");
  return b.remotely_freed.cas_acquire(seen, word(me, 0));  // [A2] pairs with [R2]
}

// The same for a freer without a heap: the object is freed, the caller must list the page block. False: try again.
template <class Env> bool hand_over(PageBlock<Env>& b, u32 object) {
  using namespace remotely_freed;
  u64 seen = word(kNobody, 0);
  b.link(object).set(0);
  Env::step("remote.hand_over");
  return b.remotely_freed.cas_relaxed(seen, word(kListed, object));
}

// The owner is about to list the page block.
template <class Env> void declare_listed(PageBlock<Env>& b) {
  using namespace remotely_freed;
  u64 seen = b.remotely_freed.load_relaxed();
  while (!b.remotely_freed.cas_relaxed(seen, word(kListed, head(seen)))) {}
}

// Who took the page block off its list owns it, and gets what was remotely freed.
template <class Env> void take_over(PageBlock<Env>& b, u32 me) {
  using namespace remotely_freed;
  u64 seen = b.remotely_freed.load_relaxed();
  while (!b.remotely_freed.cas_acquire(seen, word(me, 0))) {  // [A3] pairs with [R1] [R2]
  }
  b.put_all(head(seen));
}

}  // namespace freeway::streamflow::remote

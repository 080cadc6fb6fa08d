// SPDX-License-Identifier: MIT
// remote_list.h: the two ways to change a superblock's remote word: by CAS (ours), or under its mutex (the paper's:
// "lock S … unlock S", free [10]-[12]; "lock R … unlock R", malloc [18]-[21]).
//
// change(s, next) moves s.remote to next(word), a remote::Next, and returns that. `next` may be called again.
// Orders    [R1] what was done to a block, its link, the local list of who lets go is published by the move;
//           [A1] who takes the list, lists the superblock or finds it empty sees all of that
// Last touch  after change() the superblock may be anybody's, unless its duty says otherwise
#pragma once

#include "papers/lfmalloc/form.h"
#include "papers/lfmalloc/mutex.h"
#include "papers/lfmalloc/superblock.h"

namespace freeway::lfmalloc {

template <class Env> struct RemoteUnderMutex {
  template <class F> static remote::Next change(Superblock<Env>& s, F&& next) {
    SleepingLock<Env>::lock(s.lock);
    const remote::Next moved = next(s.remote.load_relaxed());
    s.remote.store_relaxed(moved.word);
    SleepingLock<Env>::unlock(s.lock);
    return moved;
  }
};

template <class Env> struct RemoteByCas {
  template <class F> static remote::Next change(Superblock<Env>& s, F&& next) {
    u64 seen = s.remote.load_relaxed();
    for (;;) {
      const remote::Next moved = next(seen);
      Env::step("lfmalloc.remote");
      if (s.remote.cas_acq_rel(seen, moved.word)) return moved;  // [R1] [A1] pairs with [A1] [R1]
    }
  }
};

// The one that form.h says.
template <class Env> struct RemoteAsTold {
  template <class F> static remote::Next change(Superblock<Env>& s, F&& next) {
    return form.remote_mutex ? RemoteUnderMutex<Env>::change(s, next) : RemoteByCas<Env>::change(s, next);
  }
};

}  // namespace freeway::lfmalloc

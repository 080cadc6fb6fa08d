// SPDX-License-Identifier: MIT
// malloc_form.h: which form malloc's fast path has (malloc/*/fast_path.S): plain, checked, counted for a profile, or
// none.
//
// Words     malloc_form, step_limit, byte_limit of freeway_hot: stored by initialisation (start.cc), and by a thread
//           that has begun or ended a profile, until they agree with the profile's interval (profile/wanted.h:
//           followers)
// Mixed     any mixture of two forms gives blocks that are large enough: a limit of 0 leads to malloc_form, and what
//           counts where no profile is made, or does not where one is, goes on without samples. With the byte limit
//           alone at 0 sizes that are its own find class 0 in the step table, and go the slow way: it is the first to
//           go up and the last to go down
// Who       any thread, any signal handler: each stores until the interval has not changed meanwhile
// Orders    relaxed: the question after them is a release (profile/wanted.h: followers)
// Progress  lock-free: once more where a profile was begun or ended meanwhile
// Lost if killed: a profile that is on without samples of small blocks, or off with slower calls; up to the next
//           follower: a thread that begins or ends a profile, or a tick of the slow path, which compares (has_form)
// Checked   tests/profile/wanted_model.cc, tests/whole/golden
#pragma once

#include "size/size_classes.h"

namespace freeway {

struct MallocForm {
  static constexpr u64 kPlain = 0;
  static constexpr u64 kCounted = 1;  // a profile is made, and bytes are counted
  static constexpr u64 kChecked = 2;
  static constexpr u64 kDrawn = 3;  // a profile is made, and all is left to freeway_malloc_drawn

  u64 form, step_limit, byte_limit;
};

// `counts`: there are slabs in which a section can count; `checks`: there are births that it can check.
constexpr MallocForm malloc_form(bool profiles, bool counts, bool checks) {
  if (profiles) return {counts ? MallocForm::kCounted : MallocForm::kDrawn, 0, 0};
  const u64 form = checks ? MallocForm::kChecked : MallocForm::kPlain;
  return counts ? MallocForm{form, kMaxSmall + 1, kByteTableMax + 1} : MallocForm{form, 0, 0};
}

// Hot is freeway_hot, or has these words of it.
template <class Hot> bool has_form(const Hot& hot, const MallocForm& form) {
  return hot.malloc_form.load_relaxed() == form.form && hot.step_limit.load_relaxed() == form.step_limit &&
         hot.byte_limit.load_relaxed() == form.byte_limit;
}

// Profile has the wanted interval: interval(), confirm() (profile/wanted.h). Its begin() makes all gaps begin anew:
// called before each form that samples.
template <class Env, class Hot, class Profile>
void follow_interval(Hot& hot, bool counts, bool checks, Profile&& profile) {
  u64 interval;
  do {
    interval = profile.interval();
    if (interval != 0) profile.begin();
    Env::step("profile.following");
    const MallocForm next = malloc_form(interval != 0, counts, checks);
    hot.malloc_form.store_relaxed(next.form);
    Env::step("profile.formed");
    if (next.byte_limit == 0) hot.step_limit.store_relaxed(next.step_limit);
    hot.byte_limit.store_relaxed(next.byte_limit);
    Env::step("profile.limited");
    if (next.byte_limit != 0) hot.step_limit.store_relaxed(next.step_limit);
  } while (profile.confirm() != interval);
}

}  // namespace freeway

// SPDX-License-Identifier: MIT
// write.h: the forms in which a profile is shown, or handed on. Each returns the whole output.
#pragma once

#include <string>

#include "stacks.h"

namespace freeway_profile {

struct TextForm {
  std::size_t most = 15;  // stacks, or functions
  bool is_bottom_up = false;
};

// The largest stacks, or the largest functions with their callers, as a table for terminals; with a base, the largest
// changes.
std::string write_text(const Profile& profile, const Stacks& stacks, Measure measure, const TextForm& form);

// "outermost;...;innermost value", a line a stack: what flame graph tools read. With a base: the change.
std::string write_collapsed(const Stacks& stacks, Measure measure);

// A profile for pprof and its like, compressed: pprof.proto says of what. With a base: the
// difference, as pprof itself subtracts.
std::string write_proto(Profile& profile, Profile* base);

// A page of its own, to be looked at in a browser.
std::string write_html(const Profile& profile, const Stacks& stacks, Measure measure);

}  // namespace freeway_profile

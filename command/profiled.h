// SPDX-License-Identifier: MIT
// profiled.h: `freeway run --profile`.
#pragma once

#include <functional>
#include <string>

#include "attend.h"

namespace freeway_command {

// Runs `program` by `start` (it gets what is to be done meanwhile; see attend.h) with a heap profile, one sample in
// `interval` (as in FREEWAY_PROFILE). Says where the profile is, and what to type next. The status to exit with.
int run_for_profile(const std::string& interval, const std::string& program,
                    const std::function<Ended(const std::function<void(pid_t)>&)>& start);

}  // namespace freeway_command

// SPDX-License-Identifier: MIT
// dump.h: the profile as text.
//
// What google/pprof reads ("heap_v2"): a line of sums, then one for each site: blocks and bytes that are live [and all that were
// allocated] @ return addresses, then /proc/self/maps. Counts are those of the samples; the reader scales them by the interval.
// Lines that begin with # are for `freeway profile`, and comments to others: freeway-profile(5).
//
// Who may call  any thread, any handler, beside any other. Only write, and open, read and close of /proc/self/maps.
#pragma once

namespace freeway::profile {

// Writes it to `fd`: 0, or the error (an errno). An empty profile, of a process that never began one, is one, too.
int dump(int fd);

}  // namespace freeway::profile

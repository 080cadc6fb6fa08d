// SPDX-License-Identifier: MIT
//
// preset.h: --preset of the programs here. They come from one paper only, whose parameters are what they do anyway.
#ifndef FREEWAY_BENCH_STREAMFLOW_PRESET_H
#define FREEWAY_BENCH_STREAMFLOW_PRESET_H

#include "support/measure.h"

namespace bench {

// Exits unless --preset is absent or "streamflow".
inline void require_streamflow_preset(int argc, char** argv) {
  const char* preset = text_argument(argc, argv, "preset", "streamflow");
  if (std::strcmp(preset, "streamflow") == 0) return;
  std::fprintf(stderr, "--preset: only 'streamflow', not '%s'\n", preset);
  std::exit(2);
}

}  // namespace bench

#endif  // FREEWAY_BENCH_STREAMFLOW_PRESET_H

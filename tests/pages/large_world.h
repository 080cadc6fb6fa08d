// SPDX-License-Identifier: MIT
//
// large_world.h: what large blocks are made of: a primary arena of a few chunks, its map, and frames.
#ifndef FREEWAY_TESTS_UNIT_LARGE_WORLD_H
#define FREEWAY_TESTS_UNIT_LARGE_WORLD_H

#include <vector>

#include "pages/large.h"
#include "tests/support/test_env.h"

namespace freeway::test {

using Large = LargeBlocks<TestEnv>;
constexpr std::size_t kChunks = 8;
constexpr std::size_t kHuge = 256 * kMiB;
constexpr std::size_t kLift = Large::kLiftFrames * kFrameSize;
constexpr u64 kNow = 1'000'000'000;

struct LargeWorld {
  explicit LargeWorld(std::size_t count)
      : chunks(count), frame_bytes(count * kChunkFrames), infos(count * kChunkFrames) {
    const uptr base = kernel().reserve(count * kChunkSize, kChunkSize);
    frames.init({base, true}, count * kChunkSize, chunks.data(), further);
    map.init(base, count * kChunkFrames, frame_bytes.data(), infos.data());
    large.init(&frames, &map);
  }
  std::vector<Chunk<TestEnv>> chunks;
  std::vector<PageMap<TestEnv>::FrameBytes> frame_bytes;
  std::vector<PageMap<TestEnv>::Entry> infos;
  FurtherArenas<TestEnv> further;
  Frames<TestEnv> frames;
  PageMap<TestEnv> map;
  LargeBlocks<TestEnv> large;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_LARGE_WORLD_H

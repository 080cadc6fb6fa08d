// SPDX-License-Identifier: MIT
//
// parser_like: a sequential parser of English that counts how its sentences can be linked, and makes and frees very
// many very small blocks, most of them like a stack. After Schneider, Antonopoulos and Nikolopoulos, "Scalable
// locality-conscious multithreaded memory allocation" (ISMM 2006), section 4 and Table 1: 197.parser of SPEC CPU2000,
// reference input, without its own allocator.
//
// One operation is one sentence.
//   --preset streamflow   as many sentences as allocate the 787 million objects of Table 1
//   --sentences --seed, --shrink (divides the sentences), --profile
//
// Differs from the paper's: neither SPEC's program nor its input may be redistributed. This is the same algorithm on a
// small dictionary and sentences drawn at random (english.h).
//
// Fitted to Table 1, not found: how long and how ambiguous sentences are (small objects for each large one), and pieces
// of 12 bytes (the mean size).
#include "streamflow/english.h"
#include "streamflow/link_parser.h"
#include "streamflow/preset.h"
#include "support/profile.h"

namespace {

template <class Blocks> void measure(int argc, char** argv) {
  const long sentences =
      bench::scaled(argc, argv, bench::number_argument(argc, argv, "sentences", links::kStreamflowSentences));
  links::SentenceSource source(static_cast<std::uint64_t>(bench::number_argument(argc, argv, "seed", 1)));

  bench::Stopwatch watch;
  std::uint64_t checksum = 0, words = 0, parsed = 0;
  watch.start();
  {
    links::Dictionary<Blocks> dictionary(links::kEnglish);
    links::Parser<Blocks> parser(dictionary);
    for (long i = 0; i < sentences; ++i) {
      const std::vector<const char*>& sentence = source.next();
      const std::uint64_t linkages = parser.count_linkages(sentence);
      checksum = (checksum ^ linkages) * 0x9E3779B97F4A7C15u;
      checksum ^= checksum >> 29;
      words += sentence.size();
      parsed += linkages != 0;
    }
  }
  watch.stop();
  std::vector<bench::Extra> extras = bench::profile_extras<Blocks>();
  extras.push_back({"words", static_cast<double>(words)});
  extras.push_back({"linked_sentences", static_cast<double>(parsed)});
  bench::report("parser_like", static_cast<double>(sentences), watch, checksum, extras);
}

}  // namespace

int main(int argc, char** argv) {
  bench::require_streamflow_preset(argc, argv);
  bench::with_blocks(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(argc, argv); });
}

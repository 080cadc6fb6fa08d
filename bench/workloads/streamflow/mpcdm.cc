// SPDX-License-Identifier: MIT
//
// mpcdm: a mesh generator: threads refine Delaunay triangulations of subdomains and tell each other where they split
// common borders. Points and triangles are small blocks; more are allocated than freed, so memory only grows. After
// MPCDM in Schneider, Antonopoulos and Nikolopoulos, "Scalable locality-conscious multithreaded memory allocation"
// (ISMM 2006), section 4 and Table 1: 10 million triangles.
//
// One operation is one triangle of the finished mesh.
//   --preset streamflow   10,000,000 triangles in subdomains of 10,000
//   --triangles (about as many will be made), --subdomain (triangles in each), --seed (of the points scattered at
//   first) --threads (2), --shrink (divides the triangles, not the size of subdomains), --profile
//
// Differs from the paper's: its region and its quality bound are not printed; here the region is a square with 32
// points scattered in each subdomain, the bound is the 20.7 degrees up to which the method is known to end. Its
// subdomains take messages as they come; here they do so in rounds, so that the mesh, and with it the checksum, is the
// same for every number of threads. The mesh is not freed.
//
// Fitted to Table 1, not found: the size of a triangle in bytes (the mean size), and that of subdomains and their order
// (the share of remote frees). Not reproduced: its 338 large objects; tables that grow are mapped here.
#include <cmath>

#include "streamflow/mesh_refinement.h"
#include "streamflow/preset.h"

namespace {

// Does not depend on the order in which triangles are met, nor on which corner is the first.
std::uint64_t hash_of(mesh::Place a, mesh::Place b, mesh::Place c) {
  const auto one = [](mesh::Place p) {
    std::uint64_t bits =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.x)) << 32) | static_cast<std::uint32_t>(p.y);
    bits = (bits ^ (bits >> 31)) * 0x9E3779B97F4A7C15u;
    return bits ^ (bits >> 29);
  };
  return (one(a) + one(b) + one(c)) * 0x2545F4914F6CDD1Du ^ (one(a) ^ one(b) ^ one(c));
}

template <class Blocks> void measure(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 2));
  const long each = bench::number_argument(argc, argv, "subdomain", 10'000);
  const long triangles = bench::number_argument(argc, argv, "triangles", mesh::kStreamflowTriangles);
  const long wanted = bench::scaled(argc, argv, triangles);
  const auto side = static_cast<std::size_t>(
      std::max(1.0, std::round(std::sqrt(static_cast<double>(wanted) / static_cast<double>(each)))));
  if (side > 127) {
    std::fprintf(stderr, "mpcdm: at most 127 x 127 subdomains; choose a larger --subdomain\n");
    std::exit(2);
  }

  const auto seed = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "seed", 1));
  mesh::Region<Blocks> region(side, static_cast<std::size_t>(wanted), seed);
  bench::Stopwatch watch;
  unsigned rounds = 0;
  {
    bench::Scheduler<Blocks> scheduler(threads);
    watch.start();
    rounds = region.refine(scheduler);
    watch.stop();
  }
  std::uint64_t checksum = 0, made = 0;
  for (std::size_t i = 0; i < side * side; ++i) {
    auto& mesh = region.subdomain(i % side, i / side).mesh();
    mesh.for_each([&](const mesh::Triangle& triangle) {
      checksum += hash_of(mesh.corner(&triangle, 0), mesh.corner(&triangle, 1), mesh.corner(&triangle, 2));
      ++made;
    });
  }
  std::vector<bench::Extra> extras = bench::profile_extras<Blocks>();
  extras.push_back({"rounds", static_cast<double>(rounds)});
  bench::report("mpcdm", static_cast<double>(made), watch, checksum, extras);
}

}  // namespace

int main(int argc, char** argv) {
  bench::require_streamflow_preset(argc, argv);
  bench::with_blocks(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(argc, argv); });
}

// SPDX-License-Identifier: MIT
//
// mesh_refinement.h: a square region meshed by many threads: Ruppert's refinement in each of g x g subdomains, whose
// common borders are split alike on both sides (the parallel constrained Delaunay method of Chew, Chrisochoides and
// Sukup).
//
// A bad triangle gets a point at its circumcentre, unless the point would encroach upon an edge of the border: then
// that edge is halved instead, and the neighbour is told. So no hole ever reaches across a border, and a subdomain
// needs nobody else while it is refined. Work goes in rounds: each subdomain takes in what its neighbours told it in
// the round before and refines until it is content; the end is a round in which nobody told anything. What a subdomain
// does depends on its own state and on these messages only: the mesh is the same for every number of threads.
//
// At the end no border edge is encroached upon, from either side; hence it is an edge of the whole set's Delaunay
// triangulation, and the subdomains' triangulations together are it.
#ifndef FREEWAY_BENCH_STREAMFLOW_MESH_REFINEMENT_H
#define FREEWAY_BENCH_STREAMFLOW_MESH_REFINEMENT_H

#include "streamflow/triangulation.h"
#include "streamflow/work_stealing.h"
#include "support/thread_team.h"

namespace mesh {

// Table 1.
inline constexpr long kStreamflowTriangles = 10'000'000;

enum Border : unsigned { kSouth, kEast, kNorth, kWest, kBorders };
inline constexpr unsigned kOpposite[kBorders] = {kNorth, kWest, kSouth, kEast};

// Halving a border of this length gives whole coordinates 21 times over.
inline constexpr std::int32_t kSquare = 1 << 21;
// No edge is made shorter than that: rounding to whole coordinates would spoil the angles.
inline constexpr std::int64_t kShortest = 16;

// "This border edge was halved here", from one subdomain to its neighbour, who frees it.
struct Split {
  Split* next;
  Place at;
};

// Messages of one round across one border, in the order in which they were sent.
struct Mail {
  Split* first = nullptr;
  Split* last = nullptr;
};

template <class Blocks> class Subdomain {
 public:
  // `largest`: twice the area that a triangle may have.
  Subdomain(Place low, std::int64_t largest)
      : low_(low), mesh_(low, {low.x + kSquare, low.y + kSquare}), largest_(largest) {}

  // Scatters `count` points: what the mesh must respect, and what makes subdomains differ.
  void scatter(std::size_t count, bench::Random random, Scratch& scratch) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto offset = [&] { return static_cast<std::int32_t>(random.between(1, kSquare - 1)); };
      const Place p{low_.x + offset(), low_.y + offset()};
      Triangle* triangle = mesh_.locate(p, mesh_.recent()).triangle;
      if (!mesh_.is_corner(triangle, p)) insert(p, triangle, scratch);
    }
    mesh_.for_each([this](Triangle& triangle) {
      if (triangle.due == 0) mesh_.put_due(&triangle);
    });
  }

  void set_neighbour(Border border, Subdomain* neighbour) { neighbours_[border] = neighbour; }
  Triangulation<Blocks>& mesh() { return mesh_; }

  // One round; returns how many messages were sent.
  std::size_t refine(unsigned round, Scratch& scratch) {
    sent_ = 0;
    outbox_ = mail_[round & 1];
    for (unsigned border = 0; border < kBorders; ++border)
      if (neighbours_[border] != nullptr) receive(neighbours_[border]->mail_[~round & 1][kOpposite[border]], scratch);
    while (Triangle* triangle = mesh_.take_due()) improve(triangle, scratch);
    return sent_;
  }

 private:
  void receive(Mail& mail, Scratch& scratch) {
    for (Split* split = mail.first; split != nullptr;) {
      Triangle* triangle = mesh_.locate(split->at, mesh_.recent()).triangle;
      if (!mesh_.is_corner(triangle, split->at)) insert(split->at, triangle, scratch);  // else halved here, too
      Split* next = split->next;
      Blocks::free(split);
      split = next;
    }
    mail = {};
  }

  // Adds one point on behalf of `triangle`, which may stay as bad as it was, and on the list.
  void improve(Triangle* triangle, Scratch& scratch) {
    if (const Edge edge = encroached_edge(triangle); edge.side < 3) {
      halve(edge, scratch);
      return;
    }
    if (!is_bad(triangle)) return;
    const Place a = mesh_.corner(triangle, 0), b = mesh_.corner(triangle, 1), c = mesh_.corner(triangle, 2);
    const Place centre = circumcentre(a, b, c);
    const Edge found = mesh_.locate(centre, triangle);
    if (found.side < 3) return halve_for(triangle, found, scratch);
    if (mesh_.is_corner(found.triangle, centre)) return;
    mesh_.dig(centre, found.triangle, scratch);
    for (const Scratch::Rim& rim : scratch.rim) {
      if (rim.outside != nullptr || !encroaches(centre, mesh_.at(rim.from), mesh_.at(rim.to))) continue;
      const Edge edge = border_edge(scratch.hole, rim.from);
      mesh_.keep(scratch);
      return halve_for(triangle, edge, scratch);
    }
    mesh_.fill(centre, scratch);
    consider_fan(scratch);
  }

  // Halves an edge that is in the way of improving `triangle`, which stays on the list, unless that removes it.
  void halve_for(Triangle* triangle, Edge edge, Scratch& scratch) {
    if (is_short(edge)) return;
    mesh_.put_due(triangle);
    halve(edge, scratch);
  }

  void halve(Edge edge, Scratch& scratch) {
    if (is_short(edge)) return;
    const Place a = mesh_.corner(edge.triangle, kNext[edge.side]);
    const Place b = mesh_.corner(edge.triangle, kPrevious[edge.side]);
    const Place middle{a.x + (b.x - a.x) / 2, a.y + (b.y - a.y) / 2};
    tell_neighbour(middle);
    insert(middle, edge.triangle, scratch);
  }

  void insert(Place p, Triangle* start, Scratch& scratch) {
    mesh_.dig(p, start, scratch);
    mesh_.fill(p, scratch);
    consider_fan(scratch);
  }

  // New triangles that are bad go on the list; those at an encroached border edge last, so that they are next: while
  // there is none, every circumcentre lies inside the square.
  void consider_fan(Scratch& scratch) {
    for (Triangle* triangle : scratch.fan)
      if (is_bad(triangle)) mesh_.put_due(triangle);
    for (Triangle* triangle : scratch.fan)
      if (encroached_edge(triangle).side < 3) mesh_.put_due(triangle);
  }

  bool is_bad(const Triangle* triangle) const {
    const Place a = mesh_.corner(triangle, 0), b = mesh_.corner(triangle, 1), c = mesh_.corner(triangle, 2);
    return orientation(a, b, c) > largest_ || is_skinny(a, b, c);
  }

  bool is_short(Edge edge) const {
    return squared_distance(mesh_.corner(edge.triangle, kNext[edge.side]),
                            mesh_.corner(edge.triangle, kPrevious[edge.side])) < 4 * kShortest * kShortest;
  }

  // The border edge upon which the opposite corner encroaches; side = 3 if there is none.
  Edge encroached_edge(Triangle* triangle) const {
    for (unsigned i = 0; i < 3; ++i)
      if (triangle->neighbour[i] == nullptr &&
          encroaches(mesh_.corner(triangle, i), mesh_.corner(triangle, kNext[i]), mesh_.corner(triangle, kPrevious[i])))
        return {triangle, i};
    return {triangle, 3};
  }

  // The border edge that begins at `from` and belongs to one of `triangles`.
  static Edge border_edge(const bench::MappedVector<Triangle*>& triangles, std::uint32_t from) {
    for (Triangle* triangle : triangles)
      for (unsigned i = 0; i < 3; ++i)
        if (triangle->neighbour[i] == nullptr && triangle->corner[kNext[i]] == from) return {triangle, i};
    __builtin_unreachable();
  }

  void tell_neighbour(Place at) {
    const Border border = at.y == low_.y             ? kSouth
                          : at.x == low_.x + kSquare ? kEast
                          : at.y == low_.y + kSquare ? kNorth
                                                     : kWest;
    if (neighbours_[border] == nullptr) return;
    auto* split = new (Blocks::allocate(sizeof(Split))) Split{nullptr, at};
    Mail& mail = outbox_[border];
    (mail.first == nullptr ? mail.first : mail.last->next) = split;
    mail.last = split;
    ++sent_;
  }

  const Place low_;
  Triangulation<Blocks> mesh_;
  const std::int64_t largest_;
  Subdomain* neighbours_[kBorders] = {};
  Mail mail_[2][kBorders];  // written in even and odd rounds; the neighbour empties the other one
  Mail* outbox_ = nullptr;
  std::size_t sent_ = 0;
};

// The whole region, g x g subdomains; they are blocks from mmap, and what they hold is left to the end of the process,
// as a mesh generator does.
template <class Blocks> class Region {
 public:
  // About `triangles` in all.
  Region(std::size_t side, std::size_t triangles, std::uint64_t seed)
      : side_(side), seed_(seed), memory_(side * side), order_(side * side) {
    const double twice_area = 2.0 * static_cast<double>(side * side) * kSquare * kSquare;
    largest_ = static_cast<std::int64_t>(kAreaFactor * twice_area / static_cast<double>(triangles));
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
    // Neighbours shall not be refined one after another by the same thread, or hardly a message would change hands.
    bench::Random random(1);
    order_.shuffle(random);
  }

  std::size_t side() const { return side_; }
  Subdomain<Blocks>& subdomain(std::size_t x, std::size_t y) { return memory_[y * side_ + x].subdomain; }

  // Makes and refines the mesh; returns the number of rounds.
  unsigned refine(bench::Scheduler<Blocks>& scheduler) {
    std::vector<bench::Padded<Scratch>> scratch(scheduler.size());
    std::vector<bench::Padded<std::size_t>> sent(scheduler.size());
    const auto each = [&](auto f) {
      bench::parallel_for(scheduler, order_.size(), 1, [&](bench::Worker& worker, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) f(worker.index(), order_[i]);
      });
    };
    each([&](std::size_t worker, std::uint32_t i) { make(i, scratch[worker].value); });
    connect();
    for (unsigned round = 0;; ++round) {
      for (auto& one : sent) one.value = 0;
      each([&](std::size_t worker, std::uint32_t i) {
        sent[worker].value += memory_[i].subdomain.refine(round, scratch[worker].value);
      });
      std::size_t all = 0;
      for (auto& one : sent) all += one.value;
      if (all == 0) return round + 1;
    }
  }

 private:
  // Of the largest allowed to the mean area; measured.
  static constexpr double kAreaFactor = 1.56;
  static constexpr std::size_t kScattered = 32;  // points of each subdomain to begin with

  union Room {  // not constructed before its thread does it
    Room() {}
    ~Room() {}
    Subdomain<Blocks> subdomain;
  };

  void make(std::uint32_t i, Scratch& scratch) {
    const Place low{static_cast<std::int32_t>(i % side_) * kSquare, static_cast<std::int32_t>(i / side_) * kSquare};
    new (&memory_[i].subdomain) Subdomain<Blocks>(low, largest_);
    memory_[i].subdomain.scatter(kScattered, bench::Random(seed_ + i), scratch);
  }

  void connect() {
    for (std::size_t y = 0; y < side_; ++y) {
      for (std::size_t x = 0; x < side_; ++x) {
        if (y > 0) subdomain(x, y).set_neighbour(kSouth, &subdomain(x, y - 1));
        if (x + 1 < side_) subdomain(x, y).set_neighbour(kEast, &subdomain(x + 1, y));
        if (y + 1 < side_) subdomain(x, y).set_neighbour(kNorth, &subdomain(x, y + 1));
        if (x > 0) subdomain(x, y).set_neighbour(kWest, &subdomain(x - 1, y));
      }
    }
  }

  const std::size_t side_;
  const std::uint64_t seed_;
  bench::MappedArray<Room> memory_;
  bench::MappedArray<std::uint32_t> order_;
  std::int64_t largest_;
};

}  // namespace mesh

#endif  // FREEWAY_BENCH_STREAMFLOW_MESH_REFINEMENT_H

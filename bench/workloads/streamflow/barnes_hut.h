// SPDX-License-Identifier: MIT
//
// barnes_hut.h: bodies that attract each other, moved in steps by many threads.
//
// Each step: keys; sorted by key; cut into zones, which are the subtrees of at most 1/1024 of the bodies; each worker
// builds the zones of its share of the sorted bodies, and before that frees those zones of the last step's tree that
// lie in its share now; the cells above the zones; forces, body by body, on the work-stealing scheduler; all bodies
// moved. Shares move a little with the bodies: such zones are freed by another thread than the one that built them.
//
// Zones, sums and forces do not depend on who computes them: positions are the same to the last bit for every number of
// threads.
#ifndef FREEWAY_BENCH_STREAMFLOW_BARNES_HUT_H
#define FREEWAY_BENCH_STREAMFLOW_BARNES_HUT_H

#include "streamflow/mapped_vector.h"
#include "streamflow/octree.h"
#include "streamflow/work_stealing.h"

namespace bodies {

struct Parameters {
  std::size_t bodies;
  unsigned steps;
  double step;   // length of one, in units of Plummer's model
  double theta;  // a cell is one mass if its side is below theta x its distance
  double softening;
};

// Table 1; theta and softening are not printed: the defaults of the SPLASH-2 program.
inline constexpr Parameters kStreamflow{131'072, 10, 0.025, 1.0, 0.05};

// A body's number with its key; sorted by key, bodies with equal keys in the order of their numbers.
struct Sorted {
  Key key;
  std::uint64_t body;
};

// Radix sort, eleven bits at a time; 6 passes, so the result is where it was.
inline void sort_by_key(bench::MappedArray<Sorted>& items, bench::MappedArray<Sorted>& scratch) {
  constexpr unsigned kBits = 11, kPasses = 6;
  static_assert(kBits * kPasses >= 3 * kLevels && kPasses % 2 == 0);
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    const auto digit = [pass](const Sorted& item) { return (item.key >> (pass * kBits)) & ((1u << kBits) - 1); };
    Sorted* from = pass % 2 == 0 ? items.begin() : scratch.begin();
    Sorted* to = pass % 2 == 0 ? scratch.begin() : items.begin();
    std::uint32_t start[(1u << kBits) + 1] = {};
    for (std::size_t i = 0; i < items.size(); ++i) ++start[digit(from[i]) + 1];
    for (unsigned i = 0; i < 1u << kBits; ++i) start[i + 1] += start[i];
    for (std::size_t i = 0; i < items.size(); ++i) to[start[digit(from[i])]++] = from[i];
  }
}

template <class Blocks> class System {
 public:
  System(const Parameters& parameters, std::uint64_t seed)
      : parameters_(parameters),
        all_(static_cast<Body*>(Blocks::allocate(parameters.bodies * sizeof(Body)))),
        keys_(parameters.bodies),
        order_(parameters.bodies),
        scratch_(parameters.bodies),
        tree_(all_, keys_.begin()),
        gravity_(parameters.theta, parameters.softening, all_) {
    Plummer cluster(seed);
    const double mass = 1 / static_cast<double>(parameters.bodies);
    for (std::size_t i = 0; i < parameters.bodies; ++i) {
      Body body = cluster.next(mass);
      const double which = i < parameters.bodies / 2 ? 1 : -1;
      body.position += which * kApart;
      // Each cluster has half of the mass for which Plummer draws its bodies.
      body.velocity = std::numbers::sqrt2 / 2 * body.velocity;
      body.velocity += -which * kTowards;
      new (&all_[i]) Body(body);
    }
  }
  // The tree must have been taken down.
  ~System() { Blocks::free(all_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  const Body* all() const { return all_; }

  void step(bench::Scheduler<Blocks>& scheduler) {
    accelerate(scheduler);
    on_shares(scheduler, [this](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        all_[i].velocity += parameters_.step * all_[i].acceleration;
        all_[i].position += parameters_.step * all_[i].velocity;
      }
    });
  }

  // Each worker frees what it built.
  void take_down(bench::Scheduler<Blocks>& scheduler) {
    free_top();
    on_shares(scheduler, [this](std::size_t begin, std::size_t end) { free_zones_of(begin, end); });
    zones_.clear();
  }

  // Builds the tree anew and computes all accelerations.
  void accelerate(bench::Scheduler<Blocks>& scheduler) {
    half_ = half_cube(all_, count());
    on_shares(scheduler, [this](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) order_[i] = {keys_[i] = key_of(all_[i].position, half_), i};
    });
    sort_by_key(order_, scratch_);
    build(scheduler);
    bench::parallel_for(scheduler, count(), kGrain, [this](bench::Worker&, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto body = static_cast<std::uint32_t>(order_[i].body);
        all_[body].acceleration = gravity_.at(body, root_, 2 * half_);
      }
    });
  }

 private:
  static constexpr std::size_t kGrain = 8;  // bodies whose forces are one task
  static constexpr std::size_t kZones = 1024;
  // Two clusters on their way to each other: that of one half of the bodies begins here, the other's opposite.
  static constexpr Vector kApart{1.5, 0.75, 0.4}, kTowards{0.25, 0.125, 0.075};

  // A subtree that one worker builds: sorted bodies begin … end - 1, all in one cell of `level`.
  struct Zone {
    Node* root;
    Key key;  // of its first body
    std::uint32_t begin, end, level, octant;
  };

  std::size_t count() const { return parameters_.bodies; }
  std::size_t largest_zone() const { return std::max<std::size_t>(count() / kZones, 8); }

  template <class F> void on_shares(bench::Scheduler<Blocks>& scheduler, F f) {
    scheduler.on_each([&](bench::Worker& worker) {
      f(count() * worker.index() / scheduler.size(), count() * (worker.index() + 1) / scheduler.size());
    });
  }

  void build(bench::Scheduler<Blocks>& scheduler) {
    free_top();
    cut(0, count(), 0);
    on_shares(scheduler, [this](std::size_t begin, std::size_t end) {
      free_zones_of(begin, end);
      for (Zone& zone : new_zones_)
        if (begin <= zone.begin && zone.begin < end) build_zone(zone);
    });
    zones_.clear();
    for (const Zone& zone : new_zones_) zones_.push(zone);
    new_zones_.clear();
    std::size_t next = 0;
    root_ = join(0, count(), 0, next);
  }

  // Calls f(begin, end, octant) for each child that a cell of `level` with these sorted bodies has.
  template <class F> void for_each_octant(std::size_t begin, std::size_t end, unsigned level, F f) {
    while (begin < end) {
      const unsigned octant = octant_of(order_[begin].key, level);
      std::size_t last = begin;
      while (last < end && octant_of(order_[last].key, level) == octant) ++last;
      f(begin, last, octant);
      begin = last;
    }
  }
  bool is_zone(std::size_t begin, std::size_t end, unsigned level) const {
    return end - begin <= largest_zone() || level == kLevels;
  }

  void cut(std::size_t begin, std::size_t end, unsigned level, unsigned octant = 0) {
    if (is_zone(begin, end, level)) {
      new_zones_.push({nullptr, order_[begin].key, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                       level, octant});
      return;
    }
    for_each_octant(begin, end, level, [&](std::size_t b, std::size_t e, unsigned o) { cut(b, e, level + 1, o); });
  }

  void build_zone(Zone& zone) {
    for (std::size_t i = zone.begin; i < zone.end; ++i)
      tree_.insert(zone.root, static_cast<std::uint32_t>(order_[i].body), zone.level);
    zone.root->octant = zone.octant;
    tree_.weigh(zone.root);
  }

  // Joins the zones, from zones_[next] on, to the tree of these bodies: the same recursion as cut.
  Node* join(std::size_t begin, std::size_t end, unsigned level, std::size_t& next, unsigned octant = 0) {
    if (is_zone(begin, end, level)) return zones_[next++].root;
    Cell* cell = tree_.make_cell(nullptr, octant, nullptr);
    top_.push(cell);
    Node** link = &cell->child;
    for_each_octant(begin, end, level, [&](std::size_t b, std::size_t e, unsigned o) {
      *link = join(b, e, level + 1, next, o);
      link = &(*link)->sibling;
    });
    tree_.sum(cell);
    return cell;
  }

  void free_top() {
    for (Cell* cell : top_) Blocks::free(cell);
    top_.clear();
  }
  // Those of the last tree that lie where the bodies begin … end - 1 lie now.
  void free_zones_of(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    const Key first = begin == 0 ? 0 : order_[begin].key, beyond = end == count() ? ~Key{0} : order_[end].key;
    for (const Zone& zone : zones_)
      if (first <= zone.key && zone.key < beyond) tree_.free(zone.root);
  }

  const Parameters parameters_;
  Body* const all_;  // the paper's one large object beside those of the scheduler
  bench::MappedArray<Key> keys_;
  bench::MappedArray<Sorted> order_, scratch_;
  bench::MappedVector<Zone> zones_, new_zones_;
  bench::MappedVector<Cell*> top_;  // cells above the zones
  Octree<Blocks> tree_;
  Gravity gravity_;
  Node* root_ = nullptr;
  double half_ = 0;
};

}  // namespace bodies

#endif  // FREEWAY_BENCH_STREAMFLOW_BARNES_HUT_H

// SPDX-License-Identifier: MIT
// execution.cc: threads, announcements and registration; what memory does is in memory.cc, traces in trace.cc.
#include "tests/explorer/execution.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/explorer/model_env.h"

namespace freeway::model {

namespace {
Execution* active_execution = nullptr;
std::uint32_t last_epoch = 0;
constexpr std::size_t kAlignment = 4096;
}  // namespace

Execution* Execution::active() { return active_execution; }

Execution::Execution(const ProgramType& program, const Options& options)
    : program_(program), options_(options), storage_(new char[program.bytes + kAlignment]) {
  auto address = reinterpret_cast<std::uintptr_t>(storage_.get());
  object_ = reinterpret_cast<void*>((address + kAlignment - 1) & ~(kAlignment - 1));
  if (active_execution != nullptr || program.threads > kMaxThreads) {
    std::fprintf(stderr, "model: one exploration at a time, at most %d threads\n", kMaxThreads);
    std::abort();
  }
  active_execution = this;
}

Execution::~Execution() { active_execution = nullptr; }

void Execution::thread_entry(int thread) {
  Execution* self = active_execution;
  self->program_.run(self->object_, thread);
  self->runnable_ &= ~(1U << thread);
  self->fibers_[static_cast<std::size_t>(thread)].leave();
}

void Execution::main_entry(int stage) {
  Execution* self = active_execution;
  if (stage == 0) self->program_.construct(self->object_);
  else self->program_.finish(self->object_);
  self->fibers_[kMainThread].leave();
}

void Execution::resume(int thread) {
  running_ = thread;
  fibers_[static_cast<std::size_t>(thread)].resume();
  running_ = kMainThread;
  if (thread == options_.stall_thread && operations(thread) >= options_.stall_after) runnable_ &= ~(1U << thread);
}

void Execution::run_main(int stage) {
  fibers_[kMainThread].restart(&main_entry, stage);
  stage_ = stage;
  resume(kMainThread);
  stage_ = 2;
}

void Execution::begin() {
  std::memset(object_, 0, program_.bytes);
  epoch_ = ++last_epoch == 0 ? ++last_epoch : last_epoch;
  memory_.reset();
  names_.clear();
  failed_ = false;
  observed_ = 0;
  runnable_ = 0;
  run_main(0);
  if (failed_) return;
  memory_.start_threads(program_.threads);
  places_.fill(Place{-1, false, false, false, 0});
  cpu_views_.fill(View{});
  waiting_ = program_.made_later;
  unstarted_ = 0;
  runnable_ = ((1U << program_.threads) - 1) & ~waiting_;
  for (int thread = 0; thread < program_.threads && !failed_; ++thread) {
    operations_[static_cast<std::size_t>(thread)] = 0;
    fibers_[static_cast<std::size_t>(thread)].restart(&thread_entry, thread);
    if ((waiting_ >> thread & 1) == 0) resume(thread);
  }
}

void Execution::end() {
  if (!failed_) run_main(1);
}

void Execution::outcomes(int thread, std::vector<Timestamp>& choices) const {
  choices.clear();
  const Operation& op = pending(thread);
  if (op.location < 0) {
    const auto alternatives = op.kind == Kind::kChoose ? static_cast<Timestamp>(op.operand) : Timestamp{1};
    for (Timestamp i = 0; i < alternatives; ++i) choices.push_back(i);
    return;
  }
  if (options_.memory == MemoryModel::kSequential) choices.push_back(usual_outcome(thread));
  else memory_.outcomes(thread, op, to_learn(thread, op.location), choices);
}

Timestamp Execution::usual_outcome(int thread) const {
  const Operation& op = pending(thread);
  return op.location < 0 ? Timestamp{0} : memory_.newest(op.location);
}

const Operation& Execution::step(int thread, Timestamp choice, int index) {
  static Operation executed;  // the thread's own record dies as it goes on
  Operation& op = *pending_[static_cast<std::size_t>(thread)];
  if (operations(thread) == options_.max_steps) {
    fail("thread " + std::to_string(thread) + " does not finish within " + std::to_string(options_.max_steps) +
         " operations of its own");
    executed = op;
    executed.wrote = false;
    return executed;
  }
  run_on_cpu(thread);
  if (op.kind == Kind::kChoose) {
    op.result = static_cast<std::uint64_t>(choice);
    if (trace_) trace_line(thread, "chooses " + std::to_string(choice));
  } else if (op.kind == Kind::kRestart) {
    if (trace_) trace_line(thread, "begins its section again");
  } else if (op.kind == Kind::kBarrier) {
    barrier(thread);
  } else if (op.kind == Kind::kFork) {
    fork(thread);
  } else {
    memory_.execute(thread, op, choice, index, kept_bits_[static_cast<std::size_t>(op.location)]);
    if (trace_) trace_operation(thread, op, choice);
  }
  leave_view(thread);
  int count = ++operations_[static_cast<std::size_t>(thread)];
  if (count > max_operations_[static_cast<std::size_t>(thread)])
    max_operations_[static_cast<std::size_t>(thread)] = count;
  executed = op;
  resume(thread);
  for (; unstarted_ != 0; unstarted_ &= unstarted_ - 1) resume(__builtin_ctz(unstarted_));
  if (executed.wrote && program_.stepped != nullptr && !failed_) ask_program(thread);
  return executed;
}

void Execution::ask_program(int thread) {
  looking_ = true;
  const char* broken = program_.stepped(object_, thread);
  looking_ = false;
  if (broken == nullptr) return;
  fail(broken);
  if (trace_) trace_line(thread, std::string("BREAKS: ") + broken);
}

void Execution::fail(const std::string& what) {
  if (!failed_) what_ = what;
  failed_ = true;
}

void Execution::check(bool condition, const char* what) {
  if (condition) return;
  fail(what);
  if (trace_) trace_line(running_, std::string("FAILS: ") + what);
  runnable_ = 0;
  fibers_[static_cast<std::size_t>(running_)].leave();  // never resumed
}

int Execution::register_atomic(const void* address, std::uint64_t initial) {
  int id = memory_.add_location(name_of(address, "word"), initial);
  std::uint64_t kept = ~std::uint64_t{0};
  for (const BitLoss& loss : options_.lose_bits)
    if (memory_.location(id).name.compare(0, loss.location.size(), loss.location) == 0) kept &= loss.mask;
  kept_bits_[static_cast<std::size_t>(id)] = kept;
  return id;
}

int Execution::register_plain(const void* address) { return memory_.add_plain(name_of(address, "plain")); }

void Execution::weaken(Operation& op) {
  if (int orders = op.order | op.failure_order; orders != 0) remember_site(op.site, orders);
  for (const Weakening& mutant : options_.weaken) {
    if (!(mutant.site == op.site)) continue;
    int kept = mutant.part == Part::kAcquire ? kRelease : kAcquire;
    op.order = static_cast<Order>(op.order & kept);
    op.failure_order = static_cast<Order>(op.failure_order & kept);
  }
}

void Execution::remember_site(Site site, int orders) {
  Site& recent = recent_sites_[static_cast<std::size_t>(site.line) % recent_sites_.size()];
  if (recent.line == site.line && recent.file == site.file) return;
  recent = site;
  for (const Weakening& known : order_sites_)
    if (known.site == site) return;
  if (orders & kAcquire) order_sites_.push_back({site, Part::kAcquire});
  if (orders & kRelease) order_sites_.push_back({site, Part::kRelease});
}

std::uint64_t Execution::perform(Operation& op) {
  if (looking_) {
    const Location& word = memory_.location(op.location);
    return op.result = word.messages[word.count - 1].value;
  }
  weaken(op);
  if (running_ == kMainThread) {
    if (op.kind == Kind::kChoose) return 0;
    Timestamp newest = memory_.newest(op.location);
    memory_.execute(kMainThread, op, newest, -1, kept_bits_[static_cast<std::size_t>(op.location)]);
    if (trace_) trace_operation(kMainThread, op, newest);
    return op.result;
  }
  const auto thread = static_cast<std::size_t>(running_);
  pending_[thread] = &op;
  fibers_[thread].leave();
  if (places_[thread].interrupted) throw Restart{};
  return op.result;
}

void Execution::access_plain(int field, bool write) {
  if (running_ == kMainThread) return;  // nobody else runs
  const char* race = write ? memory_.plain_write(running_, field) : memory_.plain_read(running_, field);
  if (trace_) trace_access(running_, memory_.plain(field).name, write);
  if (race) check(false, (std::string(race) + ": " + memory_.plain(field).name).c_str());
}

void Execution::fence(Site site) {
  remember_site(site, kAcquire);
  for (const Weakening& mutant : options_.weaken)
    if (mutant.site == site) return;
  memory_.fence_acquire(running_);
  if (trace_) trace_line(running_, "fence.acquire");
}

void Execution::end_of_step() {
  if (running_ != kMainThread) memory_.extend_latest(running_);
}

void Execution::mark(const char* name) {
  if (trace_) trace_line(running_, std::string("at step ") + name);
}

void Execution::name(const void* object, std::size_t bytes, const char* name, int index) {
  std::string full = index < 0 ? std::string(name) : name + ("[" + std::to_string(index) + "]");
  names_.push_back({static_cast<const char*>(object), bytes, std::move(full)});
}

std::string Execution::name_of(const void* address, const char* otherwise) const {
  const char* at = static_cast<const char*>(address);
  // The last name given is the most particular one.
  for (auto range = names_.rbegin(); range != names_.rend(); ++range) {
    if (at < range->begin || at >= range->begin + range->bytes) continue;
    std::size_t offset = static_cast<std::size_t>(at - range->begin);
    return offset == 0 ? range->name : range->name + "+" + std::to_string(offset);
  }
  return otherwise + ("+" + std::to_string(at - static_cast<const char*>(object_)));
}

// The seams declared in model_env.h and explorer.h --------------------------------------------------------------------

std::uint32_t current_epoch() { return active_execution ? active_execution->epoch() : 0; }
int register_atomic(const void* address, std::uint64_t initial) {
  return active_execution->register_atomic(address, initial);
}
int register_plain(const void* address) { return active_execution->register_plain(address); }
bool setting_up() { return active_execution->setting_up(); }
std::uint64_t perform(Operation& op) { return active_execution->perform(op); }
void access_plain(int field, bool write) { active_execution->access_plain(field, write); }
void perform_fence(Site site) {
  if (active_execution) active_execution->fence(site);
}
void mark_step(const char* name) { active_execution->mark(name); }
bool mutant_active(const char* name) { return active_execution->mutant(name); }

void model_check(bool condition, const char* what) { active_execution->check(condition, what); }
void model_observe(std::uint64_t value) { active_execution->observe(value); }
int model_choose(int alternatives) {
  Operation op{Kind::kChoose, kRelaxed, kRelaxed, 8, -1, static_cast<std::uint64_t>(alternatives), 0,
               {"", 0},       0,        false};
  return static_cast<int>(active_execution->perform(op));
}
void model_cpu(int cpu) { active_execution->go_to_cpu(cpu); }
void model_section_begin() { active_execution->begin_section(); }
void model_section_end() { active_execution->end_section(); }
void model_interrupt_sections() { active_execution->perform_special(Kind::kBarrier); }
void model_fork() { active_execution->perform_special(Kind::kFork); }
void model_make_threads() { active_execution->make_threads(); }
void model_end_of_step() { active_execution->end_of_step(); }
int model_thread() { return active_execution->thread(); }
int model_stalled() { return active_execution->stalled(); }
void model_name(const void* object, std::size_t bytes, const char* name, int index) {
  active_execution->name(object, bytes, name, index);
}

}  // namespace freeway::model

// SPDX-License-Identifier: MIT
// fiber.cc: the switch: by hand on x86-64, by <ucontext.h> (two system calls a switch) elsewhere.
#include "tests/explorer/fiber.h"

#include <cstdint>

namespace freeway::model {

namespace {
Fiber* starting = nullptr;
}

void Fiber::trampoline() {
  Fiber* fiber = starting;
  fiber->entry_(fiber->argument_);
  __builtin_trap();
}

Fiber::Fiber() : stack_(new char[kStackBytes]) {}

#if defined(__x86_64__)

// freeway_model_switch(void** save, void* load): the six registers that a callee must keep go onto the stack left,
// whose pointer is stored to *save; the same registers come off the stack entered.
extern "C" void freeway_model_switch(void** save, void* load);
asm(R"(
.text
.type freeway_model_switch, @function
freeway_model_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size freeway_model_switch, .-freeway_model_switch
)");

void Fiber::restart(Entry entry, int argument) {
  entry_ = entry;
  argument_ = argument;
  auto top = reinterpret_cast<std::uintptr_t>(stack_.get() + kStackBytes) & ~std::uintptr_t{15};
  auto* slot = reinterpret_cast<void**>(top);
  *--slot = nullptr;  // where a return address would lie: keeps the alignment that a function expects at its entry
  *--slot = reinterpret_cast<void*>(&Fiber::trampoline);
  for (int saved = 0; saved < 6; ++saved) *--slot = nullptr;
  inside_ = slot;
}

void Fiber::resume() {
  starting = this;
  freeway_model_switch(&outside_, inside_);
}

void Fiber::leave() { freeway_model_switch(&inside_, outside_); }

#else

void Fiber::restart(Entry entry, int argument) {
  entry_ = entry;
  argument_ = argument;
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, &Fiber::trampoline, 0);
}

void Fiber::resume() {
  starting = this;
  swapcontext(&outside_, &inside_);
}

void Fiber::leave() { swapcontext(&inside_, &outside_); }

#endif

}  // namespace freeway::model

// SPDX-License-Identifier: MIT
//
// turns.h: two threads that take turns, so that a trace which both of them run is the same each time.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_TURNS_H
#define FREEWAY_TESTS_DIFFERENTIAL_TURNS_H

#include <semaphore>
#include <thread>

namespace freeway::test {

class Turns {
 public:
  Turns() { start(); }
  ~Turns() { stop(); }
  Turns(const Turns&) = delete;

  // Calls f() in the caller's thread (`who` 0) or in the second one, and returns when it has returned.
  template <class F>
  void run(unsigned who, F f) {
    if (who == 0) return f();
    work_ = [](void* context) { (*static_cast<F*>(context))(); };
    context_ = &f;
    asked_.release();
    done_.acquire();
  }

  // The second thread ends, and a new one takes its place.
  void replace_second() {
    stop();
    start();
  }

 private:
  void start() {
    thread_ = std::thread([this] {
      for (;;) {
        asked_.acquire();
        if (work_ == nullptr) return;
        work_(context_);
        done_.release();
      }
    });
  }
  void stop() {
    work_ = nullptr;
    asked_.release();
    thread_.join();
  }

  void (*work_)(void*) = nullptr;
  void* context_ = nullptr;
  std::binary_semaphore asked_{0}, done_{0};
  std::thread thread_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_TURNS_H

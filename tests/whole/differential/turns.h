// SPDX-License-Identifier: MIT
//
// turns.h: two threads that take turns, so that a trace which both of them run is the same each time.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_TURNS_H
#define FREEWAY_TESTS_DIFFERENTIAL_TURNS_H

#include <semaphore.h>

#include <thread>

namespace freeway::test {

class Turns {
 public:
  Turns() {
    sem_init(&asked_, 0, 0);
    sem_init(&done_, 0, 0);
    start();
  }
  ~Turns() { stop(); }
  Turns(const Turns&) = delete;

  // Calls f() in the caller's thread (`who` 0) or in the second one, and returns when it has returned.
  template <class F> void run(unsigned who, F f) {
    if (who == 0) return f();
    work_ = [](void* context) { (*static_cast<F*>(context))(); };
    context_ = &f;
    sem_post(&asked_);
    await(done_);
  }

  // The second thread ends, and a new one takes its place.
  void replace_second() {
    stop();
    start();
  }

 private:
  // Not a semaphore of C++'s: it spins before it sleeps.
  static void await(sem_t& semaphore) {
    while (sem_wait(&semaphore) != 0) {  // a signal came
    }
  }
  void start() {
    thread_ = std::thread([this] {
      for (;;) {
        await(asked_);
        if (work_ == nullptr) return;
        work_(context_);
        sem_post(&done_);
      }
    });
  }
  void stop() {
    work_ = nullptr;
    sem_post(&asked_);
    thread_.join();
  }

  void (*work_)(void*) = nullptr;
  void* context_ = nullptr;
  sem_t asked_, done_;
  std::thread thread_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_TURNS_H

// SPDX-License-Identifier: MIT
// screen.h: a terminal that shows one page, again and again, and is afterwards as it was; and what is no terminal.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

namespace freeway_command {

class Screen {
 public:
  // From now on SIGINT, SIGTERM and SIGHUP end wait(), so that the destructor can give the terminal back. SIGTSTP gives
  // it back until the process goes on.
  explicit Screen(bool may_refresh);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  // In the place of the last page on a terminal, else behind it. Lines are cut at the terminal's edges.
  void show(const std::vector<std::string>& lines);
  // Until so many seconds have passed, a key is pressed, or somebody wants it to end. Returns the key, kNoKey or kEnd.
  int wait(double seconds);
  static constexpr int kNoKey = 0, kEnd = -1;
  // Whether keys are heard: standard input is the terminal that this process may read.
  bool has_keys() const { return keys_; }

  // How many lines a page may have; without a terminal any number.
  std::size_t rows() const;

  bool has_colours() const { return colours_; }
  // A text in bold, or in a colour of ANSI's (31 red … 36 cyan), where there are colours.
  std::string in(int colour, const std::string& text) const;
  // A character for each value, the highest as high as a line, from left to right.
  std::string sparkline(const std::vector<double>& values) const;
  // `width` characters, a share of which (0 to 1) is full.
  std::string bar(double share, unsigned width) const;

 private:
  void enter();
  void leave();

  termios before_ = {};
  bool keys_ = false, terminal_ = false, colours_ = false, utf8_ = false, first_ = true;
};

}  // namespace freeway_command

// SPDX-License-Identifier: MIT
// hold.cc: hold.c in C++.
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

int main() {
  std::vector<std::string> held(8000, std::string(1000, 'x'));
  std::cout << "held " << getpid() << std::endl;
  while (std::cin.get() != std::istream::traits_type::eof()) continue;
}

// SPDX-License-Identifier: MIT
// map.h: `freeway map`: a heap as a picture.
#pragma once

namespace freeway_command {

int map(char** argv);

}  // namespace freeway_command

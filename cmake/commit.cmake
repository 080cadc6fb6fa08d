# SPDX-License-Identifier: MIT
#
# Run at each build (command/CMakeLists.txt): writes INTO, a header with the commit of the checkout SOURCE and with BUILD, where
# that changes it. A checkout that differs from its commit says so; an archive knows none.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS "${SOURCE}/.git")
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${INTO}" CONTENT
  "#define FREEWAY_COMMIT \"${commit}\"\n#define FREEWAY_BUILD \"${BUILD}\"\n" @ONLY)

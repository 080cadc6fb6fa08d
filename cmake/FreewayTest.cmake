# SPDX-License-Identifier: MIT
#
# The three functions with which tests are added.
#
#   freeway_add_room(<program> SOURCES a_test.cc ... [WITH b.cc ...] [PREFIX p] [LIBS ...] [LABELS ...] [SHADOW folder]
#                    [LONG stems] [NOT_PLANTED])
#     One program of all the tests of templates of a room of src/ that have one kind: unit_<room>, <room>_models. All
#     assertions are on, and libfreeway is not linked. Of each source one test is registered, named after it behind the
#     prefix and without `_test`: it runs what is in that source.
#       WITH    sources without tests
#       SHADOW  a folder whose headers are found before those of src/
#       NOT_PLANTED  it also uses templates as they are shipped, so it is not built with faults in the headers
#       LONG    of these sources the tests called DISABLED_... are registered, too, as <name>_long
#
#   freeway_add_test(<name> SOURCES a.cc ... [LABELS ...] [ARGS ...] [TIMEOUT seconds] [ENV K=V ...] [LIBS ...]
#                    [NO_MODES] [INTERNAL] [PREFIXED] [NO_GTEST] [NOT_EMULATED] [RUN_SERIAL] [ENGINE e [VARIANT v]]
#                    [ENGINES e ...])
#     By default the program links libfreeway.so, so that malloc *is* Freeway in it, and GoogleTest's main. Two tests
#     are registered: <name>.rseq (FREEWAY_RSEQ=1) and <name>.no-rseq (FREEWAY_RSEQ=0); those in freeway_own_tests once
#     more as <name>.own, where the C library registers no rseq and Freeway does.
#       NO_MODES  one test called <name>
#       INTERNAL  src/ is on the include path, all assertions are on and libfreeway is not linked: tests of templates.
#                 What they need compiled they name in SOURCES, or take all layers with LIBS freeway_core.
#       PREFIXED  uses only freeway_malloc and its like, so it runs in sanitizer builds too
#       NO_GTEST  the program has its own main and passes by exit status 0
#       NOT_EMULATED  what user-mode emulators cannot show: cross builds have the program as a target that must be asked
#                 for, and no test. tests/whole/aarch64/programs.py runs it in an emulated machine
#       ENGINES   registered once more for each of these paper engines that are built, as <engine>.<name>, with the
#                 engine's library in libfreeway.so's place (lfmalloc in both modes)
#       ENGINE    for this engine only, under the plain name; VARIANT: with that build of it, which is then built
#
#   freeway_add_script_test(<name> COMMAND program args ... [LABELS ...] [TIMEOUT seconds] [ENV K=V ...] [NO_MODES]
#                           [RUN_SERIAL] [ENGINE e] [ENGINES e ...])
#
# Every test finds in its environment FREEWAY_TEST_NAME (its name), FREEWAY_LIB (libfreeway.so, or the engine's library), FREEWAY_COMMAND (the command),
# FREEWAY_BUILD_DIR, FREEWAY_SOURCE_DIR and, under a paper engine, FREEWAY_TEST_ENGINE and FREEWAY_TEST_VARIANT. A test
# without LABELS is `quick`. `make test` leaves out those labelled `more` (all of a folder that sets freeway_more), which are
# `make test-all`'s, as those of the papers' libraries, labelled `papers`; those labelled `long` are `make prove`'s.
# Sanitizer builds have INTERNAL and PREFIXED tests only; cross builds have no script tests (the emulator would not be
# applied to what a script starts) and no .rseq tests (it offers no rseq).

if(CMAKE_CROSSCOMPILING OR FREEWAY_SANITIZE)
  # The packaged library is for another machine, or lacks the sanitizer's instrumentation: build it from its sources.
  set(freeway_gtest_sources /usr/src/googletest)
  if(NOT EXISTS "${freeway_gtest_sources}/CMakeLists.txt")
    message(FATAL_ERROR "No GoogleTest sources in ${freeway_gtest_sources}: install Debian's package googletest.")
  endif()
  set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  add_subdirectory("${freeway_gtest_sources}" "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
  if(FREEWAY_SANITIZE)
    foreach(target gtest gtest_main)
      target_compile_options(${target} PRIVATE -fsanitize=${FREEWAY_SANITIZE})
    endforeach()
  endif()
else()
  find_package(GTest REQUIRED)
endif()
find_package(Threads REQUIRED)

# What user-mode emulation cannot show: limits that it does not keep (RLIMIT_AS), memory of the process that is mostly the
# emulator's own, and terabytes of address space, for which it makes tables.
set(freeway_not_emulated "NewHandler.SuccessAfter*" "Realloc.GrowingAHugeBlockDoesNotCopyIt"
  "Plugin.LoadingAndUnloadingItManyTimesLosesNothing" "ThreadChurn.MemoryAfterTwentyThousandThreads*"
  "VmTest.AMoveThatIsRefused*" "EveryAligned.*")
list(JOIN freeway_not_emulated ":" freeway_not_emulated)

# The tests that matter to where and when threads are registered for rseq.
set(freeway_own_tests abi_functions abi_extension stress_remote_free stress_thread_churn stress_trim stress_language
  signal_storm_test signal_longjmp_test signal_first_call_test fork_storm_test fork_spawn_test fork_vfork_test
  stall_vanish_test stall_ptrace_test)

# <library>.in_place: a program that links libfreeway.so gets the library of an engine, or of a variant of one, where
# LD_LIBRARY_PATH says so. All tests with that library depend on it: were it missing, the loader would quietly take the
# flagship.
function(freeway_guard_library library)
  get_property(guarded GLOBAL PROPERTY freeway_guarded_libraries)
  if(library IN_LIST guarded)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY freeway_guarded_libraries ${library})
  add_test(NAME ${library}.in_place COMMAND engines_in_place libfreeway-${library}.so)
  set_tests_properties(${library}.in_place PROPERTIES FIXTURES_SETUP ${library}_in_place LABELS "quick;papers"
    ENVIRONMENT "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/engines/${library}")
endfunction()

# LD_PRELOAD ends a name at a blank or a colon. Where the build folder's path has one, tests get another path to it.
set(freeway_place "${PROJECT_BINARY_DIR}")
if(freeway_place MATCHES "[ :]")
  string(MD5 digest "${freeway_place}")
  set(freeway_place "/tmp/freeway-tests-${digest}")
  file(CREATE_LINK "${PROJECT_BINARY_DIR}" "${freeway_place}" SYMBOLIC)
endif()

# Registers one test: `name` in `mode` (plain, rseq, no-rseq, own) under `engine` (freeway, or a paper engine). Uses the
# caller's T_ variables.
function(freeway_register_one name mode engine)
  set(environment "FREEWAY_BUILD_DIR=${freeway_place}" "FREEWAY_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  if(NOT engine STREQUAL "freeway")
    set(library ${engine})
    if(T_VARIANT)
      set(library ${engine}-${T_VARIANT})
      list(APPEND environment "FREEWAY_TEST_VARIANT=${T_VARIANT}")
    endif()
    string(REPLACE "-" "_" target "freeway_${library}")
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL OFF)
    list(APPEND environment "FREEWAY_LIB=$<TARGET_FILE:${target}>" "FREEWAY_TEST_ENGINE=${engine}"
      "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/engines/${library}")
  elseif(TARGET freeway_shared)
    list(APPEND environment "FREEWAY_LIB=${freeway_place}/$<TARGET_FILE_NAME:freeway_shared>")
  endif()
  if(TARGET freeway_command)
    list(APPEND environment "FREEWAY_COMMAND=$<TARGET_FILE:freeway_command>")
  endif()
  if(FREEWAY_SANITIZE)
    list(APPEND environment "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
  endif()
  if(CMAKE_CROSSCOMPILING)
    list(APPEND environment "GTEST_FILTER=-${freeway_not_emulated}")
  endif()
  list(APPEND environment ${T_ENV})
  if(mode STREQUAL "rseq")
    string(APPEND name .rseq)
    list(APPEND environment FREEWAY_RSEQ=1)
  elseif(mode STREQUAL "no-rseq")
    string(APPEND name .no-rseq)
    list(APPEND environment FREEWAY_RSEQ=0)
  elseif(mode STREQUAL "own")
    string(APPEND name .own)
    list(APPEND environment FREEWAY_RSEQ=1 GLIBC_TUNABLES=glibc.pthread.rseq=0)
  endif()
  list(APPEND environment "FREEWAY_TEST_NAME=${name}")
  set(labels ${T_LABELS})
  if(NOT engine STREQUAL "freeway")
    list(APPEND labels papers)
  endif()
  if(freeway_more OR "programs" IN_LIST labels)
    list(APPEND labels more)
  endif()
  if(NOT labels MATCHES "(^|;)(long|papers|more)(;|$)")
    # What `make test` builds: the program, and those that it is told of.
    string(REGEX MATCHALL "TARGET_FILE(_NAME)?:[A-Za-z0-9_]+" told "${T_COMMAND} ${environment}")
    list(TRANSFORM told REPLACE "^.*:" "")
    list(GET T_COMMAND 0 program)
    set_property(GLOBAL APPEND PROPERTY freeway_tests ${program} ${told})
  endif()
  add_test(NAME ${name} COMMAND ${T_COMMAND})
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${environment}" RUN_SERIAL ${T_RUN_SERIAL})
  if(NOT engine STREQUAL "freeway")
    freeway_guard_library(${library})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${library}_in_place)
  endif()
  if(T_SKIP_CODE)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE ${T_SKIP_CODE})
  endif()
endfunction()

# Registers `name`, once or once per mode, and for engines.
function(freeway_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "NO_MODES;RUN_SERIAL" "TIMEOUT;ENGINE;VARIANT;SKIP_CODE"
    "COMMAND;LABELS;ENV;ENGINES")
  if(NOT T_LABELS)
    set(T_LABELS quick)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 1800)  # for what hangs: a busy machine takes twenty times as long
  endif()
  if(T_NO_MODES)
    set(modes plain)
  elseif(CMAKE_CROSSCOMPILING)
    set(modes no-rseq)
  else()
    set(modes rseq no-rseq)
  endif()
  if(T_ENGINE)
    foreach(mode ${modes})
      freeway_register_one(${name} ${mode} ${T_ENGINE})
    endforeach()
    return()
  endif()
  foreach(mode ${modes})
    freeway_register_one(${name} ${mode} freeway)
  endforeach()
  if(name IN_LIST freeway_own_tests AND NOT CMAKE_CROSSCOMPILING AND NOT FREEWAY_SANITIZE)
    freeway_register_one(${name} own freeway)
  endif()
  foreach(engine ${T_ENGINES})
    if(NOT TARGET freeway_${engine} OR CMAKE_CROSSCOMPILING)
      continue()
    endif()
    set(engine_modes plain)
    if(engine STREQUAL "lfmalloc")
      set(engine_modes ${modes})
    endif()
    foreach(mode ${engine_modes})
      freeway_register_one(${engine}.${name} ${mode} ${engine})
    endforeach()
  endforeach()
endfunction()

# Hands the options that both functions share on to freeway_register_test.
macro(freeway_forward_test_options)
  set(forward)
  foreach(flag NO_MODES RUN_SERIAL)
    if(T_${flag})
      list(APPEND forward ${flag})
    endif()
  endforeach()
  foreach(option TIMEOUT LABELS ENV ENGINE VARIANT ENGINES SKIP_CODE)
    if(T_${option})
      list(APPEND forward ${option} ${T_${option}})
    endif()
  endforeach()
endmacro()

function(freeway_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "NO_MODES;INTERNAL;PREFIXED;NO_GTEST;NOT_EMULATED;RUN_SERIAL"
    "TIMEOUT;ENGINE;VARIANT;SKIP_CODE" "SOURCES;LABELS;ARGS;ENV;LIBS;ENGINES")
  if(T_UNPARSED_ARGUMENTS OR NOT T_SOURCES)
    message(FATAL_ERROR "freeway_add_test(${name}): no SOURCES, or unknown arguments '${T_UNPARSED_ARGUMENTS}'")
  endif()
  if(FREEWAY_SANITIZE AND NOT T_INTERNAL AND NOT T_PREFIXED)
    return()
  endif()
  if(T_ENGINE AND NOT TARGET freeway_${T_ENGINE})
    return()
  endif()
  if(NOT T_INTERNAL AND NOT TARGET freeway_shared)
    message(WARNING "freeway_add_test(${name}): left out, there is no library yet")
    return()
  endif()

  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE freeway_program_flags ${T_LIBS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
  if(T_INTERNAL)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${name} PRIVATE FREEWAY_CHECKS=2)
    if(T_LIBS MATCHES "freeway_(model|planted)")
      # A target's own folders come before those of its libraries.
      target_include_directories(${name} BEFORE PRIVATE "${PROJECT_BINARY_DIR}/planted")
    endif()
  else()
    # First of all libraries, so that its malloc is the one the loader finds.
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed freeway_shared)
  endif()
  if(NOT T_NO_GTEST)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    if(NOT T_LIBS MATCHES "freeway_model")
      target_link_libraries(${name} PRIVATE freeway_test_flags)
      target_precompile_headers(${name} REUSE_FROM freeway_test_main)
    endif()
  endif()
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

  if(T_NOT_EMULATED AND CMAKE_CROSSCOMPILING)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  freeway_forward_test_options()
  freeway_register_test(${name} COMMAND ${name} ${T_ARGS} ${forward})
endfunction()

# Flags of programs with GoogleTest: what takes time to compile is its header, and optimizing the tests.
add_library(freeway_test_flags INTERFACE)
target_link_libraries(freeway_test_flags INTERFACE freeway_program_flags GTest::gtest Threads::Threads)
target_compile_options(freeway_test_flags INTERFACE "$<$<CONFIG:Release>:-O1;-g1>")
# The same for models, which go through millions of executions: optimized in debug builds, too.
add_library(freeway_model_flags INTERFACE)
target_link_libraries(freeway_model_flags INTERFACE freeway_program_flags GTest::gtest Threads::Threads)
target_compile_options(freeway_model_flags INTERFACE -O2 "$<$<CONFIG:Release>:-g1>")
# main, and the precompiled header, for each of the two.
foreach(kind test model)
  add_library(freeway_${kind}_main OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/main.cc")
  target_link_libraries(freeway_${kind}_main PUBLIC freeway_${kind}_flags)
  target_precompile_headers(freeway_${kind}_main PRIVATE <gtest/gtest.h>)
endforeach()

function(freeway_add_room program)
  cmake_parse_arguments(PARSE_ARGV 1 R "NOT_PLANTED" "PREFIX" "SOURCES;WITH;LIBS;LABELS;LONG;SHADOW")
  set(kind test)
  set(programs ${program})
  if(R_LIBS MATCHES "freeway_model")
    set(kind model)
  elseif(NOT R_NOT_PLANTED)
    # The same with the faults that models must find, for the matrix of killers: built when asked for.
    list(APPEND programs ${program}_planted)
  endif()
  foreach(each ${programs})
    add_executable(${each} ${R_SOURCES} ${R_WITH})
    target_link_libraries(${each} PRIVATE ${R_LIBS} freeway_${kind}_main)
    target_precompile_headers(${each} REUSE_FROM freeway_${kind}_main)
    target_include_directories(${each} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}"
      "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${each} PRIVATE FREEWAY_CHECKS=2)
    if(kind STREQUAL "model" OR each MATCHES "_planted$")
      # A target's own folders come before those of its libraries.
      target_include_directories(${each} BEFORE PRIVATE "${PROJECT_BINARY_DIR}/planted")
    endif()
    if(R_SHADOW)
      target_include_directories(${each} BEFORE PRIVATE ${R_SHADOW})
    endif()
  endforeach()
  if(TARGET ${program}_planted)
    set_target_properties(${program}_planted PROPERTIES EXCLUDE_FROM_ALL ON)
    target_link_libraries(${program}_planted PRIVATE freeway_planted)
    target_compile_definitions(${program}_planted PRIVATE FREEWAY_EMULATED=0)
  endif()
  if(NOT R_LABELS)
    set(R_LABELS quick ${kind})
  endif()
  foreach(source ${R_SOURCES})
    cmake_path(GET source STEM stem)
    string(REGEX REPLACE "_test$" "" name "${R_PREFIX}${stem}")
    freeway_register_test(${name} NO_MODES LABELS ${R_LABELS} COMMAND ${program} ${stem})
    if(stem IN_LIST R_LONG)
      freeway_register_test(${name}_long NO_MODES LABELS long TIMEOUT 3600 COMMAND ${program} ${stem} --long)
    endif()
  endforeach()
endfunction()

function(freeway_add_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "NO_MODES;RUN_SERIAL" "TIMEOUT;ENGINE;SKIP_CODE" "COMMAND;LABELS;ENV;ENGINES")
  if(T_UNPARSED_ARGUMENTS OR NOT T_COMMAND)
    message(FATAL_ERROR "freeway_add_script_test(${name}): no COMMAND, or unknown '${T_UNPARSED_ARGUMENTS}'")
  endif()
  if(CMAKE_CROSSCOMPILING OR FREEWAY_SANITIZE OR NOT TARGET freeway_shared)
    return()
  endif()
  freeway_forward_test_options()
  freeway_register_test(${name} COMMAND ${T_COMMAND} ${forward})
endfunction()

# SPDX-License-Identifier: MIT
#
# What is installed: the headers, the libraries, the script for gdb, the paper engines, the command and the manual pages, a
# CMake package (cmake/FreewayConfig.cmake.in) and pkg-config files.
include(CMakePackageConfigHelpers)

set(freeway_libraries freeway_shared freeway_static freeway_shared_heap freeway_shared_heap_static)
if(TARGET freeway_prefixed)
  list(APPEND freeway_libraries freeway_prefixed)
endif()
install(TARGETS ${freeway_libraries} EXPORT FreewayTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(engine ${freeway_engines})
  install(TARGETS freeway_${engine} LIBRARY DESTINATION "${FREEWAY_INSTALL_ENGINESDIR}" NAMELINK_SKIP)
endforeach()
# The libraries and the command; what an installation needs, which is these and the papers'.
add_custom_target(freeway_products DEPENDS ${freeway_libraries})
add_custom_target(freeway_installed DEPENDS freeway_products)
foreach(engine ${freeway_engines})
  add_dependencies(freeway_installed freeway_${engine})
endforeach()
foreach(program freeway_command freeway_profile)
  if(TARGET ${program})
    add_dependencies(freeway_products ${program})
  endif()
endforeach()
# gdb loads it by this name, beside the library.
install(FILES "${PROJECT_SOURCE_DIR}/tools/gdb/freeway_gdb.py" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RENAME "${freeway_gdb_script}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/freeway" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
# A page, and for each function that the header declares in lines like `declaration` a page of one line, so that
# `man freeway_stats` finds it.
function(freeway_install_page page declaration)
  install(FILES "${PROJECT_SOURCE_DIR}/docs/man/${page}.3" DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
  foreach(header ${ARGN})
    file(STRINGS "${PROJECT_SOURCE_DIR}/include/freeway/${header}.h" found REGEX "${declaration}")
    foreach(line ${found})
      if(line MATCHES "(freeway_[a-z0-9_]+)\\(")
        file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/man3/${CMAKE_MATCH_1}.3" CONTENT ".so man3/${page}.3\n")
        install(FILES "${PROJECT_BINARY_DIR}/man3/${CMAKE_MATCH_1}.3" DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
      endif()
    endforeach()
  endforeach()
endfunction()
freeway_install_page(freeway "^[^ ].*FREEWAY_NOEXCEPT;" freeway heap)
freeway_install_page(freeway-shared "^[a-z].*[ *]freeway_shared_[a-z_]+\\(" shared)
if(TARGET freeway_command)
  install(TARGETS freeway_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(FILES "${PROJECT_SOURCE_DIR}/docs/man/freeway.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  if(TARGET freeway_profile)
    install(TARGETS freeway_profile RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/freeway")
  endif()
  install(FILES "${PROJECT_SOURCE_DIR}/docs/man/freeway-profile.5" DESTINATION "${CMAKE_INSTALL_MANDIR}/man5")
endif()

set(freeway_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Freeway")
install(EXPORT FreewayTargets NAMESPACE Freeway:: DESTINATION "${freeway_package_dir}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/FreewayConfig.cmake.in" "${PROJECT_BINARY_DIR}/FreewayConfig.cmake"
  INSTALL_DESTINATION "${freeway_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/FreewayConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/FreewayConfig.cmake" "${PROJECT_BINARY_DIR}/FreewayConfigVersion.cmake"
  DESTINATION "${freeway_package_dir}")

# Directories relative to the .pc file's own place: the tree may be moved, or staged with DESTDIR.
set(freeway_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(ABSOLUTE_PATH freeway_pc_dir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE
  OUTPUT_VARIABLE freeway_pc_absolute)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${freeway_pc_absolute}" OUTPUT_VARIABLE freeway_pc_up)
foreach(kind LIB INCLUDE)
  set(dir "${CMAKE_INSTALL_${kind}DIR}")
  if(NOT IS_ABSOLUTE "${dir}")
    string(PREPEND dir "\${prefix}/")
  endif()
  set(FREEWAY_PC_${kind}DIR "${dir}")
endforeach()
foreach(name freeway freeway-prefixed freeway-shared)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${freeway_pc_dir}")
endforeach()

# SPDX-License-Identifier: MIT
"""Conan 2 recipe of Freeway, built from the sources that it lies in: `conan create packaging/conan`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

SOURCES = (
    *("CMakeLists.txt", "LICENSE", "cmake/*", "docs/man/*", "include/*", "papers/*", "shared/*", "src/*"),
    "tools/gdb/*",
)
SHARED_HEAP = "freeway-shared"


class FreewayConan(ConanFile):
    """With `override` (the default) malloc is Freeway in whoever links it; without, only freeway_malloc."""

    name = "freeway"
    description = "A malloc for Linux in which no operation waits for another thread"
    license = "MIT"
    topics = ("malloc", "allocator", "lock-free", "memory")
    package_type = "library"
    settings = ("os", "arch", "compiler", "build_type")
    options: ClassVar = {"shared": [True, False], "override": [True, False]}
    default_options: ClassVar = {"shared": True, "override": True}

    def _root(self) -> Path:
        """The repository, which this recipe lies in."""
        return Path(self.recipe_folder).parents[1]

    def set_version(self) -> None:
        """The version is written once, in the public header."""
        header = load(self, str(self._root() / "include/freeway/freeway.h"))
        self.version = ".".join(re.findall(r"(?m)^#define FREEWAY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header))

    def export_sources(self) -> None:
        """What the libraries are built from."""
        for pattern in SOURCES:
            copy(self, pattern, src=str(self._root()), dst=self.export_sources_folder)

    def config_options(self) -> None:
        """Without malloc's names there is a static library only."""
        if self.options.get_safe("override") is not None and not self.options.override:
            del self.options.shared

    def configure(self) -> None:
        """As above, where a consumer chose the option."""
        if not self.options.override:
            self.options.rm_safe("shared")
            self.package_type = "static-library"

    def validate(self) -> None:
        """Linux on x86-64 and aarch64."""
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Freeway is for Linux on x86-64 and aarch64")
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 17)  # of whoever includes freeway/pmr.h; the library itself asks for 20

    def layout(self) -> None:
        """As CMake projects are."""
        cmake_layout(self)

    def generate(self) -> None:
        """The libraries alone."""
        toolchain = CMakeToolchain(self)
        for part in ("BUILD_TESTS", "BUILD_COMMAND", "BUILD_ENGINES", "JEMALLOC"):
            toolchain.cache_variables[f"FREEWAY_{part}"] = False
        toolchain.generate()

    def build(self) -> None:
        """By CMake."""
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="freeway_installed")

    def package(self) -> None:
        """Of the forms of the libraries that one which was asked for."""
        copy(self, "LICENSE", src=self.source_folder, dst=str(Path(self.package_folder) / "licenses"))
        CMake(self).install()
        folder = Path(self.package_folder)
        for other in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, str(folder / other))
        for library in folder.glob("lib/libfreeway*"):
            wanted = {f"lib{name}" for name in (self._library(), SHARED_HEAP)}
            if library.name.split(".")[0] not in wanted or (".so" in library.name) != self._is_shared():
                library.unlink()

    def _is_shared(self) -> bool:
        return bool(self.options.get_safe("shared", False))

    def _library(self) -> str:
        return "freeway" if self.options.override else "freeway-prefixed"

    def package_info(self) -> None:
        """The same names as Freeway's own CMake package and pkg-config files have."""
        target = "freeway_prefixed"
        if self.options.override:
            target = "freeway" if self._is_shared() else "freeway_static"
        shared_heap = "shared_heap" if self._is_shared() else "shared_heap_static"
        self.cpp_info.set_property("cmake_file_name", "Freeway")
        for library, name in ((self._library(), target), (SHARED_HEAP, shared_heap)):
            component = self.cpp_info.components[name]
            component.libs = [library]
            component.set_property("cmake_target_name", f"Freeway::{name}")
            component.set_property("pkg_config_name", library)

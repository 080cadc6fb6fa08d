# SPDX-License-Identifier: MIT
"""A project that has Freeway from Conan: whose malloc is whose is as the options say."""

from __future__ import annotations

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class FreewayTest(ConanFile):
    """Builds and runs the program that fits the package's options."""

    settings = ("os", "arch", "compiler", "build_type")
    generators = ("CMakeDeps", "PkgConfigDeps", "VirtualRunEnv")

    def requirements(self) -> None:
        """The package under test."""
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        """As CMake projects are."""
        cmake_layout(self)

    def generate(self) -> None:
        """Tells the project which target to link."""
        options = self.dependencies["freeway"].options
        target = "freeway_prefixed"
        if options.override:
            target = "freeway" if options.shared else "freeway_static"
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FREEWAY_TARGET"] = target
        toolchain.generate()

    def build(self) -> None:
        """By CMake."""
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        """The programs check themselves."""
        if can_run(self):
            for program in ("consumer", "shared_heap"):
                self.run(str(Path(self.build_folder, self.cpp.build.bindir, program)), env="conanrun")

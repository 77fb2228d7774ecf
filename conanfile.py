# SPDX-License-Identifier: BSD-3-Clause
# Tessera as a Conan 2 package: `conan create .`. Users find it with find_package(tessera), by the package's own files, so
# that components work as they do without Conan. To develop Tessera with Conan's packages see conanfile.txt.
import re
import shutil
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Tessera(ConanFile):
    name = "tessera"
    description = "Header-only C++20 toolkit for personalized federated learning"
    license = "BSD-3-Clause"
    topics = ("federated-learning", "personalization", "machine-learning", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    # Asks for the system's CUDA toolkit, or MPI, which find_package(tessera COMPONENTS cuda mpi) takes.
    options = {"cuda": [True, False], "mpi": [True, False]}
    default_options = {"cuda": False, "mpi": False}
    exports_sources = "CMakeLists.txt", "include/*", "scripts/cmake/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        text = Path(self.recipe_folder, "include/tessera/version.hpp").read_text()
        self.version = re.search(r'version = "([^"]+)"', text).group(1)

    def export(self):  # set_version reads it again from the exported recipe
        copy(self, "include/tessera/version.hpp", self.recipe_folder, self.export_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("eigen/[>=3.4.0 <6]", transitive_headers=True)

    def validate(self):
        if self.options.cuda and not shutil.which("nvcc") and not Path("/usr/local/cuda/bin/nvcc").exists():
            raise ConanInvalidConfiguration("tessera's option cuda needs the CUDA toolkit, 12.8 or newer, with nvcc")
        if self.options.mpi and not shutil.which("mpicxx"):
            raise ConanInvalidConfiguration("tessera's option mpi needs Open MPI or MPICH, with mpicxx")

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"TESSERA_BUILD_{option}"] = False
        toolchain.cache_variables["TESSERA_COMPONENTS"] = ""
        toolchain.cache_variables["TESSERA_MPI"] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()
        copy(self, "LICENSE", self.source_folder, str(Path(self.package_folder, "licenses")))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [str(Path("share", "cmake", "tessera"))]

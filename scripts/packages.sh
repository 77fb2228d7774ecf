# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the other scripts: finds out what is missing on this machine and installs it where that is allowed.
#
#   need <package> <probe> [argument...]   without it nothing works
#   want <package> <probe> [argument...]   without it something is skipped
#   install_missing                        installs both kinds, or says what to run and exits with 2
#
# A probe is one of the have_* functions, so that a library installed by other means than apt counts as present.

needed_packages=()
wanted_packages=()

have_command() { command -v "$1" >/dev/null 2>&1; }

have_header() {
    have_command "${CXX:-g++}" && printf '#include <%s>\n' "$1" | "${CXX:-g++}" -E -x c++ -std=c++20 - >/dev/null 2>&1
}

have_eigen() { have_header Eigen/Core || have_header eigen3/Eigen/Core; }

have_xtensor() { have_header xtensor/xtensor_config.hpp || have_header xtensor/core/xtensor_config.hpp; }

have_file() { [[ -e $1 ]]; }

have_browser() { have_command chromium || have_command chromium-browser || have_command google-chrome; }

have_cmake() {
    have_command cmake || return 1
    local version
    version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
    [[ $(printf '3.25\n%s\n' "$version" | sort -V | head -n 1) == 3.25 ]]
}

# The path of a Clang that is new enough, or nothing.
find_clang() {
    local name version
    for name in clang++-16 clang++-17 clang++-18 clang++-19 clang++-20 clang++-21 clang++; do
        have_command "$name" || continue
        version=$("$name" -dumpversion 2>/dev/null | cut -d. -f1)
        if [[ $version =~ ^[0-9]+$ ]] && ((version >= 16)); then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# Whether apt could install a package.
on_offer() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p') =~ [0-9] ]]; }

need() { "${@:2}" || needed_packages+=("$1"); }
want() { "${@:2}" || wanted_packages+=("$1"); }

# The package of the first Clang on offer from 16 on; libomp of the same version, unless another one is there already
# (Debian's libomp packages exclude each other).
want_clang() {
    local version
    if find_clang >/dev/null; then return 0; fi
    for version in 16 17 18 19 20 21; do
        if on_offer "clang-$version"; then
            wanted_packages+=("clang-$version")
            if on_offer "libomp-$version-dev" && ! dpkg -l 'libomp-*-dev' 2>/dev/null | grep -q '^ii'; then
                wanted_packages+=("libomp-$version-dev")
            fi
            return 0
        fi
    done
    wanted_packages+=(clang-16)
}

install_missing() {
    local package all=()
    if ((${#needed_packages[@]} + ${#wanted_packages[@]} == 0)); then return 0; fi

    local as_root=()
    if [[ $(id -u) != 0 ]]; then as_root=(sudo); fi
    if ! have_command apt-get || { ((${#as_root[@]})) && ! sudo -n true >/dev/null 2>&1; }; then
        if ((${#wanted_packages[@]})); then echo "Missing, and done without: ${wanted_packages[*]}" >&2; fi
        if ((${#needed_packages[@]} == 0)); then return 0; fi
        echo "Missing. Please run (or install the same by other means):" >&2
        echo "    sudo apt-get install -y ${needed_packages[*]} ${wanted_packages[*]}" >&2
        exit 2
    fi

    echo "Installing: ${needed_packages[*]} ${wanted_packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq || echo "apt-get update failed; going on" >&2
    all=("${needed_packages[@]}")
    for package in "${wanted_packages[@]}"; do
        if on_offer "$package"; then all+=("$package"); else echo "Not on offer here, done without: $package"; fi
    done
    if ((${#all[@]} == 0)); then return 0; fi
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${all[@]}"; then
        if ((${#needed_packages[@]})); then
            echo "Could not install: ${all[*]}" >&2
            exit 2
        fi
    fi
}

need_to_build() {
    need g++ have_command "${CXX:-g++}"
    need cmake have_cmake
    need make have_command make
    need libeigen3-dev have_eigen
    need libcli11-dev have_header CLI/CLI.hpp
    need nlohmann-json3-dev have_header nlohmann/json.hpp
    need zlib1g-dev have_header zlib.h
}

// SPDX-License-Identifier: BSD-3-Clause
// Arrays for the scripts in benchmarks/torch: raw numbers, one file each, so that a script can solve the same task
// and show the same answer before it is timed. `--export=<folder>` on the command line asks for them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <sys/stat.h>

namespace bench {

class Exchange {
public:
    // Takes its own argument off the command line.
    Exchange(int& argc, char** argv) {
        constexpr std::string_view flag = "--export=";
        int kept = 1;
        for (int i = 1; i < argc; ++i) {
            if (std::string_view(argv[i]).starts_with(flag)) folder_ = argv[i] + flag.size();
            else argv[kept++] = argv[i];
        }
        argc = kept;
        if (!folder_.empty()) ::mkdir(folder_.c_str(), 0777);
    }
    bool wanted() const { return !folder_.empty(); }

    template <class T>
    void write(const std::string& name, std::span<const T> values) const {
        if (!wanted()) return;
        const std::string path = folder_ + "/" + name;
        std::FILE* file = std::fopen(path.c_str(), "wb");
        const bool written = file && std::fwrite(values.data(), sizeof(T), values.size(), file) == values.size();
        if (!file || std::fclose(file) != 0 || !written) {
            std::fprintf(stderr, "cannot write %s\n", path.c_str());
            std::exit(2);
        }
    }

private:
    std::string folder_;
};

}  // namespace bench

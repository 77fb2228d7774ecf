// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves for people: lines on the terminal, JSON, CSV, a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/io/growing_file.hpp>
#include <tessera/report/record.hpp>

#include "options.hpp"

namespace lab {

// Writing a result failed after the run began; what was there before is still there.
struct OutputError : tessera::Error {
    using tessera::Error::Error;
};

// Runs f, which writes a file.
template <class F>
void writing(F&& f) {
    try {
        f();
    } catch (const tessera::IoError& e) {
        throw OutputError(std::string("could not write ") + e.what());
    }
}

// What could not be written when its time had come, while the rest of the run went on.
class FailedOutputs {
public:
    // Runs f, which writes a file.
    template <class F>
    void unless_written(F&& f) {
        try {
            writing(f);
        } catch (const OutputError& e) {
            add(e);
        }
    }
    void add(const OutputError& e) { what_.emplace_back(e.what()); }
    // All of them, in words; empty where there are none.
    std::string in_words() const;
    // Throws an OutputError that names all, if there are some.
    void tell() const;

private:
    std::vector<std::string> what_;
};

void write_text(const std::string& path, const std::string& text);

// A path, and the flag that names it.
struct Place {
    std::string flag, path;
    std::string ending{};  // of a directory that is read: its files with this ending
};
// Throws where two of what is written, or what is written and what is read, would be one file.
void check_places(const std::vector<Place>& written, const std::vector<Place>& read);
// The same for all files of a run.
void check_places(const Options& options);

// Throws unless every file that is asked for could be written.
void check_outputs(const Options& options);

// Where a run of texts keeps its vocabulary, as vocabulary=FILE of --data reads it: in the directory of its checkpoints,
// and beside --json, --models and --save-weights, "run.vocabulary" beside "run.json".
std::string vocabulary_in(const std::string& checkpoints);
// Writes it there; refuses to go on from checkpoints of a run that had another.
void keep_vocabulary(const Options& options);

// The files that hold the rounds of one run, --csv, --jsonl and --tensorboard. They grow with it: a round that was added is there
// whatever becomes of the run.
class RoundFiles {
public:
    explicit RoundFiles(const Options& options);
    void add(const tessera::report::RoundRecord& round);
    void add(const std::vector<tessera::report::RoundRecord>& rounds);
    // What there was no room for is tried once more, and all of it comes to the disk.
    void finish(FailedOutputs& failed);

private:
    struct Grown {
        tessera::io::GrowingFile file;
        std::string unwritten{};

        void write();
    };
    std::optional<Grown> csv_, jsonl_, tensorboard_;
};
// Files that hold the runs of all seeds.
void write_together(const std::vector<tessera::report::RunRecord>& runs, const Options& options, FailedOutputs& failed);
void print_summary(const std::vector<tessera::report::RunRecord>& runs);

}  // namespace lab

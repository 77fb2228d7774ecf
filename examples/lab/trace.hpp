// SPDX-License-Identifier: BSD-3-Clause
// Where the time of a run goes, for chrome://tracing and Perfetto: one track for the run, one for each worker.
//
// It also keeps the phases of rounds for the report, which needs no more than the track of the run.
//
// A round is visits (what is sent, trained and received, client by client) and a merge, which is everything after the
// last visit. The executor sees every task begin and end, so nothing else has to know. Where workers are not asked for,
// it is a flag that is read once for each for_each.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/exec/openmp.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>

namespace lab {

class Trace {
public:
    using Clock = std::chrono::steady_clock;

    // With `workers` 0 it has no tracks of workers.
    explicit Trace(std::size_t workers) : tracks_(1 + workers) {}
    bool sees_workers() const { return tracks_.size() > 1; }

    void add(std::size_t track, std::string_view name, Clock::time_point begin, Clock::time_point end) {
        tracks_.at(track).push_back({std::string(name), begin, end});
    }
    static constexpr std::size_t run = 0;
    static constexpr std::size_t of(std::size_t worker) { return 1 + worker; }

    // What tasks are called from now on; after the first for_each they are called `then`.
    void expect(std::string_view tasks, std::string_view then) {
        tasks_ = tasks;
        then_ = then;
        first_done_ = {};
    }
    std::string_view tasks() const { return tasks_; }
    void for_each_done() {
        if (first_done_ == Clock::time_point{}) first_done_ = Clock::now();
        tasks_ = then_;
    }
    Clock::time_point first_done() const { return first_done_; }

    std::size_t events_of_run() const { return tracks_[run].size(); }
    // What the run did from event `from` on, without the rounds as wholes.
    std::vector<tessera::report::Phase> phases(std::size_t from) const {
        std::vector<tessera::report::Phase> all;
        const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
        for (std::size_t i = from; i < tracks_[run].size(); ++i)
            if (const auto& e = tracks_[run][i]; !e.name.starts_with("round "))
                all.push_back({e.name, seconds(e.begin - begin_), seconds(e.end - e.begin)});
        return all;
    }

    std::string to_json() const {
        std::string out;
        tessera::report::JsonWriter json(out);
        const auto micros = [&](Clock::time_point at) {
            return std::chrono::duration<double, std::micro>(at - begin_).count();
        };
        json.object([&] {
            json.member("displayTimeUnit", "ms");
            json.key("traceEvents").array([&] {
                for (std::size_t track = 0; track < tracks_.size(); ++track) {
                    json.line();
                    json.object([&] {
                        json.member("name", "thread_name");
                        json.member("ph", "M");
                        json.member("pid", 1);
                        json.member("tid", track);
                        json.key("args").object(
                            [&] { json.member("name", track == run ? "run" : "worker " + std::to_string(track - 1)); });
                    });
                    for (const auto& event : tracks_[track]) {
                        json.line();
                        json.object([&] {
                            json.member("name", event.name);
                            json.member("ph", "X");
                            json.member("ts", micros(event.begin));
                            json.member("dur", micros(event.end) - micros(event.begin));
                            json.member("pid", 1);
                            json.member("tid", track);
                        });
                    }
                }
            });
        });
        out += '\n';
        return out;
    }

private:
    struct Event {
        std::string name;
        Clock::time_point begin, end;
    };
    std::vector<std::vector<Event>> tracks_;  // each written by its own worker
    std::string_view tasks_, then_;
    Clock::time_point begin_ = Clock::now(), first_done_{};
};

// From here to the end of the block, on the track of the run.
class Span {
public:
    Span(Trace* trace, std::string name) : trace_(trace), name_(std::move(name)) {}
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
        if (trace_) trace_->add(Trace::run, name_, begin_, Trace::Clock::now());
    }

private:
    Trace* trace_;
    std::string name_;
    Trace::Clock::time_point begin_ = Trace::Clock::now();
};

class TracedExecutor {
public:
    TracedExecutor(std::size_t threads, Trace* trace) : team_{threads}, trace_(trace) {}

    std::size_t concurrency() const { return team_.concurrency(); }
    void validate() const { team_.validate(); }

    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        if (!trace_ || !trace_->sees_workers()) {
            team_.for_each(tasks, std::forward<Body>(body));
            if (trace_) trace_->for_each_done();
            return;
        }
        const auto name = trace_->tasks();
        team_.for_each(tasks, [&](std::size_t task, std::size_t worker) {
            const auto begin = Trace::Clock::now();
            body(task, worker);
            trace_->add(Trace::of(worker), name, begin, Trace::Clock::now());
        });
        trace_->for_each_done();
    }

private:
    tessera::exec::OpenMp team_;
    Trace* trace_;
};

}  // namespace lab

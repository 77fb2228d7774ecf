// SPDX-License-Identifier: BSD-3-Clause
// Where the time of a run goes, for chrome://tracing and Perfetto: one track for the run, one for each worker.
//
// It also keeps the phases of rounds for the report, which needs no more than the track of the run.
//
// A round is visits (what is sent, trained and received, client by client) and a merge, which is everything after the
// last visit. The executor sees every task begin and end, so nothing else has to know. Where workers are not asked for,
// it is a flag that is read once for each for_each.
//
// Where kernels are asked for too, every task carries how often each ran and for how long, and the calls themselves are
// events for the first task that a worker gets of each for_each, until there are most_calls of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/function_ref.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>

#include "device.hpp"

namespace lab {

// The kernels of one task.
class KernelLog final : public tessera::kernels::Watcher {
public:
    using Clock = std::chrono::steady_clock;
    struct Call {
        const char* kernel;
        Clock::time_point begin, end;
    };
    struct Total {
        std::string_view kernel;
        std::size_t calls = 0;
        Clock::duration time{};
    };

    explicit KernelLog(std::size_t calls_kept) : left_(calls_kept) {}

    void begins(const char* kernel) override {
        kernel_ = kernel;
        begin_ = Clock::now();
    }
    void ends() override {
        const auto end = Clock::now();
        const auto known = std::ranges::find(totals_, std::string_view(kernel_), &Total::kernel);
        auto& total = known == totals_.end() ? totals_.emplace_back(Total{kernel_}) : *known;
        ++total.calls;
        total.time += end - begin_;
        if (left_ == 0) return;
        --left_;
        calls_.push_back({kernel_, begin_, end});
    }
    const std::vector<Call>& calls() const { return calls_; }
    const std::vector<Total>& totals() const { return totals_; }

private:
    std::size_t left_;
    const char* kernel_ = nullptr;
    Clock::time_point begin_{};
    std::vector<Call> calls_;
    std::vector<Total> totals_;
};

class Trace {
public:
    using Clock = KernelLog::Clock;
    static constexpr std::size_t most_calls = 20'000;  // of kernels: about 2 MB

    // With `workers` 0 it has no tracks of workers.
    explicit Trace(std::size_t workers, bool kernels = false)
        : tracks_(1 + workers),
          calls_left_(workers, kernels ? most_calls / std::max<std::size_t>(1, workers) : 0),
          kernels_(kernels) {}
    bool sees_workers() const { return tracks_.size() > 1; }
    bool sees_kernels() const { return kernels_; }

    void add(std::size_t track, std::string_view name, Clock::time_point begin, Clock::time_point end) {
        tracks_.at(track).push_back({std::string(name), begin, end, {}});
    }
    // How many calls of kernels the next task of this worker may leave.
    std::size_t calls_left(std::size_t worker) const { return calls_left_.at(worker); }
    void add(std::size_t worker, std::string_view name, Clock::time_point begin, Clock::time_point end,
             const KernelLog& log) {
        auto& track = tracks_.at(of(worker));
        track.push_back({std::string(name), begin, end, log.totals()});
        for (const auto& call : log.calls()) track.push_back({call.kernel, call.begin, call.end, {}});
        calls_left_[worker] -= log.calls().size();
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
                            if (!event.kernels.empty())
                                json.key("args").object([&] {
                                    for (const auto& total : event.kernels)
                                        json.key(total.kernel).object([&] {
                                            json.member("calls", total.calls);
                                            json.member(
                                                "ms", std::chrono::duration<double, std::milli>(total.time).count());
                                        });
                                });
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
        std::vector<KernelLog::Total> kernels;
    };
    std::vector<std::vector<Event>> tracks_;  // each written by its own worker
    std::vector<std::size_t> calls_left_;     // so is each of these
    bool kernels_;
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

// From here to the end of the block, the kernels of this thread are told to a log.
class Watching {
public:
    explicit Watching(KernelLog& log) { tessera::kernels::watcher = &log; }
    Watching(const Watching&) = delete;
    Watching& operator=(const Watching&) = delete;
    ~Watching() { tessera::kernels::watcher = nullptr; }
};

class TracedExecutor {
public:
    static constexpr auto offers = tessera::offer::validate | tessera::offer::remarks;
    TracedExecutor(std::size_t threads, Trace* trace, std::unique_ptr<Device> device = nullptr)
        : team_{threads}, trace_(trace), device_(std::move(device)) {}

    std::size_t concurrency() const { return visits_ ? device_->concurrency() : team_.concurrency(); }
    void validate() const { team_.validate(); }
    // From now on visits, if there is a device for them, or what is done by threads: evaluation is.
    void expect_visits(bool yes) { visits_ = yes && device_; }
    bool lost() const { return device_ && device_->lost(); }
    std::vector<std::string> remarks() const {
        return device_ ? device_->remarks() : std::vector<std::string>();
    }

    void for_each(std::size_t tasks, tessera::FunctionRef<void(std::size_t task, std::size_t worker)> body) const {
        if (visits_) {  // parked most of their time, so a trace has no tracks of them
            device_->for_each(tasks, body);
            if (trace_) trace_->for_each_done();
            return;
        }
        if (!trace_ || !trace_->sees_workers()) {
            team_.for_each(tasks, body);
            if (trace_) trace_->for_each_done();
            return;
        }
        const auto name = trace_->tasks();
        std::vector<char> began(concurrency());
        team_.for_each(tasks, [&](std::size_t task, std::size_t worker) {
            const auto begin = Trace::Clock::now();
            if (!trace_->sees_kernels()) {
                body(task, worker);
                return trace_->add(Trace::of(worker), name, begin, Trace::Clock::now());
            }
            KernelLog log(std::exchange(began[worker], 1) ? 0 : trace_->calls_left(worker));
            {
                const Watching watching(log);
                body(task, worker);
            }
            trace_->add(worker, name, begin, Trace::Clock::now(), log);
        });
        trace_->for_each_done();
    }

private:
    tessera::exec::OpenMp team_;
    Trace* trace_;
    std::unique_ptr<Device> device_;
    bool visits_ = false;
};

}  // namespace lab

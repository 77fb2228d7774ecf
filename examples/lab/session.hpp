// SPDX-License-Identifier: BSD-3-Clause
// One stage of a run: rounds, checkpoints, evaluations. What does not know the method; federated_session.hpp does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/io/continuation.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/checkpoint.hpp>

#include "history.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "tasks.hpp"
#include "trace.hpp"

namespace lab {

struct Stage {
    Options options;              // all filled in, with this stage's algorithm, rounds and settings
    std::string name{};           // tags its evaluations; empty where a run has one stage
    std::size_t rounds_before = 0;
    std::vector<std::string> before{};  // the algorithms of the stages before it
    bool last = true;
    bool tunes = false;  // evaluated once more at the end, tagged "tune", served with these settings
    NamedValues tune{};
    std::shared_ptr<Trace> trace{};  // shared by the stages of a run
    std::vector<std::string> notes{};  // on what its settings make of it, for the report
};

inline constexpr const char* states_folder = "states";  // in a stage's directory of checkpoints: its log

using Configuration = std::vector<std::pair<std::string, tessera::report::Setting>>;

struct Task {
    tessera::data::FederatedDataset clients;
    Model model;
    // What there is to read; how it was dealt; who has what in the end; what the server has; what is tested on.
    struct Fingerprints {
        std::string data, dealt, split, aux, test;
    };
    Fingerprints fingerprints;
    std::shared_ptr<const PublicData> public_data{};  // none: what the split sets aside for the server
    Configuration facts{};                            // more that decides a stage's numbers
    tessera::data::Dataset images{};                  // of the clients, without copies for training
    std::vector<std::string> notes{};                 // on the data, for the report
    std::vector<std::string> names{};                 // of the clients, where they have some
    std::vector<std::string> class_names{};           // where classes have some
    std::string read{};                               // what there is to learn from, in one line
    Reading reading{};                                // what --normalise made of the features
};
Task make_task(const Options& options);

// What a client's models are asked to go on from, and what each says.
struct Speech {
    std::vector<std::int32_t> prompt{};
    const tessera::io::Vocabulary* words = nullptr;
    tessera::io::ContinuationSettings how{};
};
struct Utterance {
    tessera::report::Which model{};
    std::vector<std::int32_t> ids{};
};

class Session {
public:
    virtual ~Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    void run(RoundFiles& files, FailedOutputs& failed);
    const std::string& stopped() const { return stopped_; }  // after which round and why; empty: run() was not
    tessera::report::RunRecord record() const;  // of this stage; of one that was stopped, without what takes long
    virtual std::string identity() const = 0;   // all that decides its numbers, in words
    virtual bool leaves_model() const = 0;                // that a next stage can start from
    virtual tessera::Vec<float> model() const = 0;
    virtual void write_models(const std::string& path) const = 0;
    void restore();  // from the newest checkpoint; throws where there is none
    virtual std::size_t rounds_done() const = 0;
    virtual std::vector<Utterance> speak(tessera::Id client, const Speech& speech) const = 0;

protected:
    Session(Stage stage, Configuration of_method, const Task& task, const tessera::Vec<float>& warm_start);

    // What is served: as the method is set, as --eval-also says, as a final tuning says.
    static constexpr std::uint8_t as_set = 0, also = 1, tuned = 2;

    virtual Line next_round() = 0;
    virtual tessera::Vec<Score> scores(std::uint8_t served) const = 0;
    virtual double coherence() const = 0;
    virtual double gradient_norm() const = 0;
    virtual void keep_states_in(const std::string& directory, bool anew) = 0;
    virtual void save(const tessera::CheckpointDirectory& to, const std::string& name,
                      const tessera::Bytes& notes) const = 0;
    virtual std::optional<tessera::CheckpointDirectory::Resumed> load(const tessera::CheckpointDirectory& from,
                                                                      const std::string& name) = 0;
    virtual std::string state_hash() const = 0;
    virtual bool has_personal() const = 0;
    // Per-client results, clients never seen, controls: what needs the models at hand.
    virtual void judge(tessera::report::RunRecord& record) const = 0;
    virtual void tell_spent(tessera::report::RunRecord& record) const = 0;  // of privacy, by an earlier stage
    virtual bool draws_afresh() const = 0;  // lost rounds come back with other noise, and cost privacy once more

    const Options& options() const { return stage_.options; }
    const Stage& stage() const { return stage_; }
    const tessera::data::FederatedDataset& population() const { return population_; }  // who judges
    const tessera::data::FederatedDataset& clients() const { return clients_; }        // who trains
    tessera::ClientData public_data() const {
        return public_data_ ? tessera::ClientData{&public_data_->examples.examples(), public_data_->ids}
                            : tessera::ClientData{};
    }
    const tessera::data::Dataset& images() const { return images_; }
    const std::string& name() const { return name_; }  // what decides its numbers and the federation cannot say
    std::string tag(std::uint8_t served) const;
    std::unique_ptr<Device> device();         // null unless asked for; where there is none, that is said
    void remark(const std::string& sentence);  // of how the run was done: said once, and kept for the report

private:
    Line traced_round();
    tessera::Vec<Score> traced_scores(std::uint8_t served) const;
    [[noreturn]] void stop();
    Line judged_round();
    void share_interrupt();
    void keep(const tessera::CheckpointDirectory& checkpoints, FailedOutputs& failed);
    void resume(const tessera::CheckpointDirectory& checkpoints);
    std::vector<tessera::report::Evaluation> best_on_validation() const;
    tessera::report::RoundRecord record_of(const Line& line) const;
    std::vector<tessera::report::ClientRecord> client_rows() const;
    void add_speech(tessera::report::RunRecord& record) const;

    Stage stage_;
    Configuration configuration_;
    tessera::data::FederatedDataset population_, clients_;
    tessera::data::Dataset images_;
    std::shared_ptr<const PublicData> public_data_;
    Task::Fingerprints fingerprints_;
    std::string name_, stopped_;
    History history_;
    std::vector<std::pair<std::uint64_t, std::vector<tessera::report::Phase>>> phases_;  // of rounds of this process
    std::vector<std::string> notes_, client_names_, class_names_;
    std::string read_;
    Reading reading_;
    bool unkept_ = false;  // a checkpoint could not be written
};

}  // namespace lab

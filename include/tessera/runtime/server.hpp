// SPDX-License-Identifier: BSD-3-Clause
// The server of one method: its state, the round that is open, and its end of the wire.
//
//   open_round(plan) -> send / download per client -> accept / receive per upload -> close_round()
//
// An upload that is malformed, stale, not expected (of a client without a seat, or in another's name), a duplicate, not
// finite or not what the method admits is rejected and counted; it never reaches the fold. If fewer uploads arrive than
// the quorum asks for, if none of those asked for arrives (unless the fold hides who came and has its noise to add), or
// if the fold ends in a number that is not finite, the round does not count and the state is bit for bit what it was. A
// round that asks nobody counts and changes nothing either: server momentum does not move on by itself.
//
// send, download, accept, receive and excuse may be called from any threads, also while a round opens or closes: a seat
// is taken once, whoever overlaps whom, and what comes too late meets a closed round. `state` is for whoever closes it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/error.hpp>
#include <tessera/io/message.hpp>
#include <tessera/runtime/cohort.hpp>
#include <tessera/runtime/judge.hpp>
#include <tessera/runtime/ranks.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera {

enum class Verdict : std::uint8_t { accepted, malformed, stale, unexpected, duplicate, not_finite, not_admitted };
inline constexpr std::array<std::string_view, 7> verdict_names{
    "accepted", "malformed", "stale", "unexpected", "duplicate", "not finite", "not admitted"};

struct Outcome {
    bool counted = false;  // false: nothing changed
    std::size_t merged = 0;
    std::array<std::size_t, verdict_names.size()> verdicts{};

    std::size_t rejected() const {
        std::size_t n = 0;
        for (std::size_t v = 1; v < verdicts.size(); ++v) n += verdicts[v];
        return n;
    }
};

template <class Me, Model M>
class Server {
public:
    using R = real<M>;
    using State = server_t<Me, R>;
    using Down = down_t<Me, R>;
    using Upload = up_t<Me, M>;
    using Merged = merged_t<Me, M>;  // what wrappers leave of an upload to the method that merges
    static_assert(detail::method_fits<Me, M>());
    static constexpr bool streams = StreamingMethod<Me, M>;

    // `aux` is public data for methods whose server descends (distillation), `labelled` what it may choose models by.
    Server(const Setup<Me, M>& setup, std::size_t clients, const ClientData& aux = {}, const ClientData& labelled = {})
        : setup_(&setup), clients_(clients), aux_(aux), labelled_(labelled) {
        state_ = opened();
        if constexpr (requires { state_.w.size(); }) check_context(setup.method, context(), state_.w);
        else check_context(setup.method, context(), setup.initial);
    }

    std::size_t round() const { return round_; }
    const State& state() const { return state_; }
    void restore(State state, std::size_t round) {
        const std::unique_lock hold(*gate_);
        state_ = std::move(state);
        round_ = round;
        forget_round();
    }
    // Whether a state that came from outside may be this server's.
    bool holds(const State& state) const { return detail::holds_state<Me, R>(setup_->method, opened(), state); }

    // `drawn` is participation_of(sampler); what it leaves out is counted as if the worst were so. `shares`: of a round
    // that several ranks take part in, each with a server of its own; it must last as long as the round.
    void open_round(const Plan& plan, const Participation& drawn = {}, const Shares* shares = nullptr) {
        const std::unique_lock hold(*gate_);
        forget_round();
        if (position_of_.empty()) position_of_.assign(clients_, no_seat);
        std::size_t merged = 0;
        for (const auto& seat : plan) {
            if (seat.client >= clients_ || position_of_[seat.client] != no_seat)
                throw ConfigError("the plan seats client " + std::to_string(seat.client) +
                                  (seat.client >= clients_ ? ", which does not exist" : " twice"));
            position_of_[seat.client] = seat.merged ? static_cast<std::uint32_t>(merged++) : not_merged;
            seated_.push_back(seat.client);
        }
        seats_.assign(merged, Taken::waiting);
        participation_ = drawn;
        shares_ = shares;
        uploads_.resize(merged);
        begin_sum();
        open_ = true;
    }
    // Before rounds with `shares`.
    void may_meet() { meet_ = &Server::meet; }
    // Forgets an open round; the state was never touched.
    void abandon_round() {
        const std::unique_lock hold(*gate_);
        forget_round();
    }

    Down send(Id client) const {
        const std::shared_lock hold(*gate_);
        return send_to<Me, R>(setup_->method, state_, client);
    }
    Bytes download(Id client) const {
        const std::shared_lock hold(*gate_);
        return io::encode_frame(io::Kind::download, setup_->initial.size(), round_, client,
                                send_to<Me, R>(setup_->method, state_, client));
    }

    // The client of this seat does not come; the quorum is of the others.
    void excuse(Id client) {
        const std::shared_lock hold(*gate_);
        if (open_ && client < clients_ && position_of_[client] < not_merged)
            take(position_of_[client], Taken::excused);
    }

    // Each client's first good upload of a round counts. `sound`: whoever hands it over has seen that every number is
    // finite.
    Verdict accept(Id client, Upload upload, bool sound = false) {
        const std::shared_lock hold(*gate_);
        return count(admit(client, std::move(upload), sound));
    }

    // `from` is who speaks, as the transport knows it; a message in another's name is not expected.
    Verdict receive(Id from, std::span<const std::byte> bytes) {
        const std::shared_lock hold(*gate_);
        try {
            const auto frame = io::decode_frame(bytes);
            if (frame.round != round_ && frame.kind == io::Kind::upload) return count(Verdict::stale);
            auto upload = io::decode_payload<Upload>(frame, io::Kind::upload, setup_->initial.size());
            if (frame.client != from) return count(Verdict::unexpected);
            return count(admit(from, std::move(upload), false));
        } catch (const WireError&) {
            return count(Verdict::malformed);
        }
    }

    Outcome close_round() {
        return close_round(nullptr, [](const Outcome&) {});
    }
    // The crew helps with large sums; null: the calling thread, alone.
    // last(outcome) is called when all is known and nothing is changed; what it throws leaves the round open.
    template <class Last>
    Outcome close_round(Crew* crew, Last&& last) {
        const std::unique_lock hold(*gate_);
        if (!open_) throw Error("close_round: no round is open; open_round comes first");
        const FlushDenormals flush;
        const Crew::Use use(crew);
        if (shares_) (this->*meet_)();
        Outcome result = outcome_;
        result.merged = result.verdicts[0];
        result.counted = quorate();
        const bool folds = result.counted && (result.merged > 0 || hidden);
        State next;
        if (folds) {
            next = shares_ ? shares_->ranks->of_first([&] { return folded(); }) : folded();
            result.counted = all_finite(next);
        }
        last(std::as_const(result));
        if (folds && result.counted) state_ = std::move(next);
        ++round_;
        forget_round();
        return result;
    }

    const ClientData& public_data() const { return aux_; }
    Context<M> context() const {
        auto at = setup_->context(aux_, 0, round_, workspace_);
        at.labelled = &labelled_;
        at.participation = participation_;
        return at;
    }

private:
    static constexpr std::uint32_t no_seat = ~0u, not_merged = ~0u - 1;
    // What became of a seat. Where the fold hides what came, an upload that is no good takes it as well: whether the
    // round counts must not tell.
    enum class Taken : unsigned char { waiting, well, badly, excused };
    static constexpr bool hidden = detail::somewhere_offers<Me>(offer::hides_clients);

    decltype(auto) merger() const { return detail::merger_of(setup_->method); }
    State opened() const { return open_at<Me, M>(setup_->method, context(), setup_->initial, clients_); }
    void forget_round() {
        open_ = false;
        for (const Id client : seated_) position_of_[client] = no_seat;
        seated_.clear();
        seats_.clear();
        outcome_ = {};
        uploads_.clear();
        shares_ = nullptr;
    }
    // A sum that is no plain struct stays in its process, so on several ranks such a fold has the rows.
    bool streaming() const {
        if constexpr (streams) return !setup_->settings.keep_uploads && (!shares_ || decltype(sums_)::crosses);
        else return false;
    }

    Verdict count(Verdict verdict) {
        __atomic_fetch_add(&outcome_.verdicts[static_cast<std::size_t>(verdict)], 1, __ATOMIC_RELAXED);
        return verdict;
    }
    Taken seat(std::size_t position) { return std::atomic_ref(seats_[position]).load(); }
    // Of all who want a seat at the same time one gets it.
    bool take(std::size_t position, Taken how) {
        Taken free = Taken::waiting;
        return std::atomic_ref(seats_[position]).compare_exchange_strong(free, how);
    }
    Verdict refusal(std::size_t position) {
        return seat(position) == Taken::excused ? Verdict::unexpected : Verdict::duplicate;
    }
    Verdict admit(Id client, Upload upload, bool sound) {
        const FlushDenormals flush;  // as in close_round, so that streamed and kept uploads give the same bits
        if (!open_ || client >= clients_ || position_of_[client] >= not_merged) return Verdict::unexpected;
        const std::size_t position = position_of_[client];
        if (seat(position) != Taken::waiting) return refusal(position);
        Merged opened;
        auto how = sound || all_finite(upload) ? detail::Opened::well : detail::Opened::not_finite;
        if (how == detail::Opened::well)
            how = detail::open_upload<Me, M>(setup_->method, state_, client, std::move(upload), opened);
        const bool good = how == detail::Opened::well;
        const Verdict verdict = how == detail::Opened::not_finite ? Verdict::not_finite : Verdict::not_admitted;
        if (!good && !hidden) return verdict;
        if (!take(position, good ? Taken::well : Taken::badly)) return refusal(position);
        if (!good) return verdict;
        uploads_[position] = std::move(opened);
        if constexpr (streams)
            if (streaming() && folds_here(position)) arrive(position);
        return Verdict::accepted;
    }
    void begin_sum() {
        if constexpr (streams) {
            const std::size_t groups = (seats_.size() + side_by_side - 1) / side_by_side;
            sums_.begin(groups);
            arrived_.assign(groups, 0);
        }
    }
    // What becomes of a position is known. The last of its group adds the group up and lets its uploads go.
    void arrive(std::size_t position)
        requires streams
    {
        const std::size_t group = position / side_by_side, first = group * side_by_side;
        const std::size_t count = std::min(side_by_side, seats_.size() - first);
        if (__atomic_add_fetch(&arrived_[group], 1, __ATOMIC_ACQ_REL) < count) return;
        std::array<Row<R>, side_by_side> rows;
        for (std::size_t i = 0; i < count; ++i)
            rows[i] = seat(first + i) == Taken::well ? row_of(uploads_[first + i]) : Row<R>{.weight = 0};
        const auto& fold = merger().fold;
        sum_t<std::remove_cvref_t<decltype(fold)>, R> sum;
        if (side_by_side > 1 || seat(first) == Taken::well)
            lift_rows<M>(fold, Rows<R>(rows.data(), count), state_.w, sum, setup_->model.layout());
        for (std::size_t i = 0; i < count; ++i) uploads_[first + i] = {};
        sums_.arrive(fold, group, std::move(sum));
    }
    // Where a position is added up.
    std::size_t folder(std::size_t position) const {
        return streaming() ? shares_->trains[position / side_by_side * side_by_side] : 0;
    }
    bool folds_here(std::size_t position) const { return !shares_ || folder(position) == shares_->rank(); }
    // All ranks learn what became of all seats, and uploads and sums go where they are added up.
    void meet() {
        Place& place = shares_->ranks->place();
        const std::size_t me = shares_->rank();
        const auto& trains = shares_->trains;
        Bytes mine;
        put(mine, outcome_.verdicts);
        for (std::size_t p = 0; p < seats_.size(); ++p)
            if (trains[p] == me) put(mine, seats_[p]);
        const auto all = place.gather_all(mine);
        Vec<Reader> told;
        outcome_ = {};
        for (const auto& one : all) {
            decltype(outcome_.verdicts) verdicts{};
            get(told.emplace_back(std::span<const std::byte>(one)), verdicts);
            for (std::size_t v = 0; v < verdicts.size(); ++v) outcome_.verdicts[v] += verdicts[v];
        }
        for (std::size_t p = 0; p < seats_.size(); ++p) get(told[trains[p]], seats_[p]);

        std::vector<Bytes> outgoing(all.size());
        const auto travels = [&](std::size_t p) { return seats_[p] == Taken::well && folder(p) != trains[p]; };
        for (std::size_t p = 0; p < seats_.size(); ++p)
            if (travels(p) && trains[p] == me) {
                put(outgoing[folder(p)], uploads_[p]);
                uploads_[p] = {};
            }
        const auto incoming = place.exchange(std::move(outgoing));
        Vec<Reader> from;
        for (const auto& one : incoming) from.emplace_back(std::span<const std::byte>(one));
        for (std::size_t p = 0; p < seats_.size(); ++p)
            if (travels(p) && folder(p) == me) get(from[trains[p]], uploads_[p]);

        if constexpr (streams)
            if (streaming()) {
                for (std::size_t p = 0; p < seats_.size(); ++p)
                    if (folder(p) == me && !(trains[p] == me && seats_[p] == Taken::well)) arrive(p);
                if constexpr (decltype(sums_)::crosses)
                    sums_.cross(merger().fold, place, [&](std::size_t group) { return folder(group * side_by_side); });
            }
    }
    // The state after the round, alone or on rank 0.
    State folded() {
        State next = state_;
        if constexpr (streams)
            if (streaming()) {
                if (!shares_)
                    for (std::size_t p = 0; p < seats_.size(); ++p)
                        if (seats_[p] != Taken::well) arrive(p);
                finish_sum(merger().fold, context(), next.w, sums_.total(), next.fold);
                return next;
            }
        merge_kept(next);
        return next;
    }
    // 7 of 100 meet a quorum of 0.07, which 0.07 * 100 > 7 would deny. An empty plan asks for nobody.
    bool quorate() const {
        if (seats_.empty()) return true;
        const auto seats = [&](Taken how) { return std::count(seats_.begin(), seats_.end(), how); };
        const auto asked = static_cast<std::ptrdiff_t>(seats_.size()) - seats(Taken::excused);
        const auto came = seats(Taken::well) + seats(Taken::badly);
        if (came == 0) return hidden && setup_->settings.quorum == 0;
        return static_cast<double>(came) / static_cast<double>(asked) >= setup_->settings.quorum;
    }
    void merge_kept(State& next) {
        if constexpr (streams)
            if (outcome_.verdicts[0] < seats_.size()) {  // empty positions keep their place in the tree
                begin_sum();
                for (std::size_t p = 0; p < seats_.size(); ++p) arrive(p);
                finish_sum(merger().fold, context(), next.w, sums_.total(), next.fold);
                return;
            }
        Vec<Merged> present;
        for (std::size_t p = 0; p < seats_.size(); ++p)
            if (seats_[p] == Taken::well) present.push_back(std::move(uploads_[p]));
        merge_at<detail::merger_t<Me>, M>(merger(), context(), next, std::span<const Merged>(present));
    }

    struct NoSums {};
    template <class Method, bool>
    struct SumsOf {
        using type = NoSums;
        static constexpr std::size_t side_by_side = 1;
    };
    template <class Method>
    struct SumsOf<Method, true> {
        using Fold = std::remove_cvref_t<decltype(Method::fold)>;
        using type = CohortSum<Fold, R>;
        static constexpr std::size_t side_by_side = lift_width<Fold>;
    };
    static constexpr std::size_t side_by_side = SumsOf<detail::merger_t<Me>, streams>::side_by_side;

    const Setup<Me, M>* setup_;
    std::size_t clients_;
    ClientData aux_, labelled_;
    State state_;
    std::size_t round_ = 0;
    bool open_ = false;
    Vec<std::uint32_t> position_of_;  // of every client; only those seated are touched in a round
    Vec<Id> seated_;
    Vec<Taken> seats_;  // of the merged clients, in the plan's order
    Participation participation_;
    const Shares* shares_ = nullptr;
    void (Server::*meet_)() = nullptr;  // by address: only programs of several ranks compile it
    Vec<Merged> uploads_;
    Vec<std::uint32_t> arrived_;  // by group of neighbours, while they are added up as they come
    typename SumsOf<detail::merger_t<Me>, streams>::type sums_;
    Outcome outcome_;
    mutable Workspace<R> workspace_;
    // Shared by all who take part in a round, held alone by whoever opens or closes it; so that a server can be moved.
    std::unique_ptr<std::shared_mutex> gate_ = std::make_unique<std::shared_mutex>();
};

}  // namespace tessera

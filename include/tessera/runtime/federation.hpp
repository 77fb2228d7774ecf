// SPDX-License-Identifier: BSD-3-Clause
// Federation: the round, in one process or on several ranks (spread_over).
//
//   plan -> send -> visit (in parallel over clients) -> merge
//
// The same Client and Server objects that a transport would drive, driven in memory or, with
// `over_the_wire`, through their bytes. A round either happens or leaves everything as it was: visits work
// on copies, and states are committed together with the server's; only what a client has sent is spent of its
// privacy whatever comes of the round. A client whose budget a visit would pass is left out, and a round for which
// nobody in the federation has anything left throws BudgetError. Results are the same bits for any executor, and a
// warm round takes nothing from the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/executor.hpp>
#include <tessera/contracts/plan.hpp>
#include <tessera/contracts/store.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/runtime/client.hpp>
#include <tessera/runtime/long_first.hpp>
#include <tessera/runtime/ranks.hpp>
#include <tessera/runtime/round_report.hpp>
#include <tessera/runtime/server.hpp>
#include <tessera/runtime/store.hpp>
#include <tessera/runtime/store_parts.hpp>
#include <tessera/runtime/visit.hpp>

namespace tessera {

template <class Me, Model M>
class Federation {
    static_assert(detail::method_fits<Me, M>());  // here, so that the sentence has few lines around it

public:
    using R = real<M>;
    using ClientState = client_t<Me, R>;
    using ServerState = server_t<Me, R>;
    using Upload = up_t<Me, M>;

    // `warm_start` takes over where an earlier stage ended. `aux` is public data for the server; without it the server
    // has the examples that the split sets aside for it, which are also what it may choose models by.
    Federation(M model, data::FederatedDataset clients, Me method, Settings settings = {}, Vec<R> warm_start = {},
               ClientData aux = {})
        : arena_(std::make_unique<Arena>()),
          data_(std::move(clients)),
          setup_(std::make_unique<const Setup<Me, M>>(std::move(model), std::move(method), settings,
                                                      std::move(warm_start), data_.size())),
          server_(*setup_, data_.size(), aux.examples ? aux : set_aside(), set_aside()),
          store_(data_.size()) {
        detail::require(data_.size() > 0, "a federation needs at least one client");
        for (std::size_t k = 0; k < data_.size(); ++k) {
            const auto share = data_[k];
            if (k == 0) {  // all clients' are in one pool
                detail::check_width(setup_->model, share, "client 0");
                detail::check_classes(setup_->model, share, "client 0");
                detail::accept(setup_->model, *share.examples, true);
            }
            if (!share.train.empty()) candidates_.push_back({static_cast<Id>(k), share.key});
        }
        detail::require(!candidates_.empty(), "no client has training data");
        if (aux.examples) {
            detail::check_width(setup_->model, aux, "the server");
            detail::accept(setup_->model, *aux.examples, false);
            data::detail::require_in_pool(aux.train, aux.examples->size, "the server");
        }
    }

    // A vector of any other kind is told what was expected.
    template <class Vector>
        requires(!std::is_convertible_v<Vector, Vec<R>> && requires(const Vector& v) { v.size(); })
    Federation(M model, data::FederatedDataset clients, Me method, Settings settings, const Vector&, ClientData = {})
        : Federation(std::move(model), std::move(clients), std::move(method), settings) {
        static_assert(std::is_convertible_v<Vector, Vec<R>>, "tessera::Federation: the initial vector is a "
                      "tessera::Vec of the model's precision (real<M>), for example Vec<float>(v.begin(), v.end())");
    }

    template <Sampler S, Executor E = exec::Serial>
    RoundReport round(const S& sampler, const E& executor = {}) {
        detail::validate_all(executor);
        const double begin = clock_seconds();
        const Arena::Use use(*arena_);
        const Participation drawn = participation_of(sampler);
        guest_.reset();
        const Plan plan = ranks_.of_first([&] { return sampler.plan(plan_key(drawn), server_.round(), candidates_); });
        const auto shares = on_ranks_.shares ? on_ranks_.shares(ranks_, plan, data_) : std::nullopt;
        prepared(executor.concurrency());

        RoundReport report{.round = server_.round()};
        if (mirrors_) throw ConfigError("a federation that mirrors another has no rounds of its own");
        if (store_.outside()) ranks_.agree(ranks_.attempt([&] { store_.outside()->begin(); }));
        server_.open_round(plan, drawn, shares ? &*shares : nullptr);
        Vec<Visit> visits(plan.size());
        const auto order = detail::seats_in_order(plan, shares, data_, executor.concurrency());
        bool together = true;  // what is thrown is thrown on all ranks
        try {
            if (shares) (this->*on_ranks_.lend)(*shares, plan, visits);
            together = false;
            const auto failed = ranks_.attempt([&] {
                executor.for_each(order.size(), [&](std::size_t task, std::size_t worker) {
                    const Arena::Use inside(workers_[worker]->arena);
                    visit(plan[order[task]], visits[order[task]], workers_[worker]->workspace);
                });
            });
            if (shares) on_ranks_.bring_home(*shares, !settings().stateless || detail::keeps_spent<Me>, visits);
            together = true;
            ranks_.agree(failed);
            stop_if_nobody_can_go_on(plan, visits);
            together = false;
            const auto pieces = [&](std::size_t count, auto&& piece) {
                executor.for_each(count, [&](std::size_t task, std::size_t worker) {
                    const Arena::Use inside(workers_[worker]->arena);
                    const FlushDenormals flush;  // as the server does
                    piece(task);
                });
            };
            CrewBy crew(executor.concurrency(), pieces);
            report.outcome = server_.close_round(&crew, [&](const Outcome& outcome) {
                if (!store_.outside()) return;
                const auto unwritten = ranks_.attempt([&] { write_states(plan, shares, visits, outcome); });
                together = true;
                ranks_.agree(unwritten);
                store_.committed();
            });
        } catch (...) {
            server_.abandon_round();
            if (store_.outside()) store_.outside()->abandon();
            for (std::size_t i = 0; i < plan.size(); ++i)
                if (visits[i].counted.sent && lives_here(plan[i].client)) keep_spent(plan[i].client, visits[i].state);
            store_.write_held(server_.round());
            if (together) everywhere_ = ranks_.sum(store_.fingerprint());
            throw;
        }
        settle(plan, visits, report);
        everywhere_ = ranks_.sum(store_.fingerprint());
        for (const auto& worker : workers_) worker->arena.hand_back();
        report.state = fingerprint();
        detail::take_remarks(executor, report.remarks);
        report.seconds = clock_seconds() - begin;
        return report;
    }

    // `rounds` rounds; after each, observer(report) if one is given.
    template <Sampler S, Executor E = exec::Serial, class Observer = Nothing>
    void run(std::size_t rounds, const S& sampler, const E& executor = {}, Observer&& observer = {}) {
        constexpr bool nobody = std::is_same_v<std::remove_cvref_t<Observer>, Nothing>;
        constexpr bool callable = requires(const RoundReport& report) { observer(report); };
        static_assert(nobody || callable,
                      "tessera::Federation: an observer must be callable as observer(const RoundReport&)");
        for (std::size_t r = 0; r < rounds; ++r) {
            [[maybe_unused]] const auto report = round(sampler, executor);
            if constexpr (callable) observer(report);
        }
    }

    // From now on messages go through their bytes and back; the results do not change.
    void over_the_wire(bool yes = true) { exchange_ = yes ? &Federation::exchange_bytes : &Federation::exchange; }

    // From now on clients' states rest in a store outside this process's memory (store/log.hpp); the results do not
    // change. Before round one, or before a restore; of several ranks, all call it. IoError if it cannot be opened.
    template <class Keep>
    void keep_in(const Keep& policy) {
        static_assert(StorePolicy<Keep>,
                      "tessera::Store: a policy must have `std::unique_ptr<Store> open(std::size_t clients) const`");
        detail::require(server_.round() == 0 && !store_.outside(),
                        "a federation is told once where its clients' states rest, and before its first round");
        parts_ = detail::StoreParts(policy, size(), ranks_);
        store_.keep_in(parts_.open(ranks_));
    }
    // Shows the state of another federation of the same clients and model as it stands now, for example to serve it
    // with other settings; what that one keeps in a store is read there. It has no rounds of its own any more.
    void mirror(const Federation& other) {
        detail::require(other.size() == size() && other.setup_->initial.size() == setup_->initial.size(),
                        "a federation can mirror only one of the same clients and model");
        server_.restore(other.server_.state(), other.server_.round());
        store_ = other.store_;
        parts_ = other.parts_;
        ranks_ = other.ranks_;
        everywhere_ = other.everywhere_;
        mirrors_ = true;
    }

    // From now on this process is one of several, which all call this with the same federation (contracts/place.hpp)
    // and share clients and work; the results do not change. Before round one, or before a restore.
    void spread_over(std::shared_ptr<Place> place) {
        detail::require(server_.round() == 0 && !ranks_.several(),
                        "a federation is told once over which ranks it stands, before its first round");
        detail::require(!store_.outside(),
                        "a federation is told its ranks before it is told where clients' states rest");
        ranks_ = Ranks(std::move(place));
        on_ranks_ = {&Shares::of, &Federation::lend_states, &detail::bring_home<ClientState>};
        server_.may_meet();
        ranks_.require_same(shape(), setup_->initial, data_);
    }
    const Ranks& ranks() const { return ranks_; }
    bool lives_here(Id k) const { return ranks_.is_home_of(data_[k].key); }
    bool unseen_here(std::size_t k) const { return ranks_.is_home_of(data_.unseen(k).key); }
    // Called on all ranks: the state of a client that lives on one of them is on all, until the next one is brought.
    void bring(Id k) const {
        if (!ranks_.several()) return;
        guest_.reset();
        Bytes mine;
        ranks_.agree(ranks_.attempt([&] {
            if (lives_here(k)) mine = detail::encoded(client(k));
        }));
        const auto all = ranks_.place().gather_all(mine);
        guest_.emplace(k, decode<ClientState>(all[ranks_.home_of(data_[k].key)]));
    }

    const ServerState& server() const { return server_.state(); }
    // IoError if it rests in a store and is not one that this method left on this model. Of several ranks, only where
    // the client lives or was brought.
    ClientState client(Id k) const {
        Workspace<R> workspace;
        return state_of(k, workspace);
    }
    std::size_t rounds_done() const { return server_.round(); }
    const Settings& settings() const { return setup_->settings; }
    const Setup<Me, M>& setup() const { return *setup_; }
    const data::FederatedDataset& data() const { return data_; }
    const ClientData& public_data() const { return server_.public_data(); }  // of the server
    std::size_t size() const { return data_.size(); }

    // Of the whole state: server, every client that was visited, round. Costs what a round changed.
    Fingerprint fingerprint() const {
        Hasher h;
        h.word(server_.round());
        hash_into(h, server_.state());
        Fingerprint all = h.finish();
        return all += ranks_.several() ? everywhere_ : store_.fingerprint();
    }

    // Calls use(client, received, workspace) with the client's end and a fresh download; nothing is kept.
    template <class Use>
    auto at_client(Id k, Workspace<R>& workspace, Use&& use) const {
        const Client<Me, M> client(*setup_, k, data_[k], state_of(k, workspace));
        return use(client, server_.send(k), workspace);
    }
    // The same for a client that never took part; its number comes after those of the known ones.
    template <class Use>
    auto at_unseen(Id k, Workspace<R>& workspace, Use&& use) const {
        const auto stranger = static_cast<Id>(size() + k);
        const Client<Me, M> client(*setup_, stranger, data_.unseen(k));
        return use(client, server_.send(stranger), workspace);
    }

    // The whole state as bytes, and back (checkpoint.hpp wraps them in a file). Of states in a store, where they lie:
    // `saved` tells the store that the bytes are in a safe place, and it keeps what the last two of them need. Several
    // ranks all call these: rank 0 saves what one process would, and each takes its clients from that.
    void save(Bytes& out) const {
        put(out, static_cast<std::uint64_t>(server_.round()));
        put(out, server_.state());
        store_.outside() ? parts_.save(out, store_, ranks_) : detail::put_states(out, ranks_, store_);
    }
    void saved() const {
        if (store_.outside()) parts_.saved(*store_.outside(), ranks_);
    }
    // WireError or IoError if the bytes cannot be a state that this method left on this model and these clients;
    // nothing has then changed. States that were in memory move into the store, if there is one.
    void restore(Reader& in) {
        std::uint64_t round = 0, kept = 0;
        ServerState server;
        get(in, round);
        if (round > last_possible_round) throw WireError("the state is of a round that no run reaches");
        get(in, server);
        if (!server_.holds(server))
            throw WireError("the server's state cannot be one that this method left on this model: its lengths or its "
                            "numbers are wrong");
        get(in, kept);
        if (kept == detail::in_a_store || kept == detail::in_parts)
            store_ = parts_.restore(
                in, kept, round, store_, ranks_, [&](Id k) { return lives_here(k); },
                [&](Id k, const ClientState& state) { return keeps(k, state, prepared(1)[0]->workspace); });
        else restore_clients(in, kept, round);
        server_.restore(std::move(server), static_cast<std::size_t>(round));
        everywhere_ = ranks_.sum(store_.fingerprint());
    }
    // Of the declarations behind save(): bytes of another method or model are refused by it.
    std::uint64_t shape() const {
        Hasher h;
        h.word(shape_of<ServerState>());
        h.word(shape_of<ClientState>());
        h.word(setup_->initial.size());
        h.word(size());
        return h.finish().low;
    }

private:
    using Visit = detail::Visit<ClientState>;
    struct Worker {
        explicit Worker(Arena& parent) : arena(parent) {}
        Arena arena;
        Workspace<R> workspace;
    };

    auto& prepared(std::size_t count) {
        while (workers_.size() < count) workers_.push_back(std::make_unique<Worker>(*arena_));
        return workers_;
    }

    // Who comes into a cohort that counts on secrecy must not follow from the seed, which stands in reports.
    Key plan_key(const Participation& drawn) const {
        const Key key{settings().seed};
        return drawn.each_by_itself && drawn.rate < 1 ? detail::plan_key(setup_->method, key) : key;
    }

    // A store is outside: what comes from there is judged.
    ClientState state_of(Id k, Workspace<R>& workspace) const {
        if (guest_ && guest_->first == k) return guest_->second;
        if (ClientStore<ClientState>::keeps && ranks_.several() && !lives_here(k))
            throw Error("client " + std::to_string(k) + " lives on another rank; Federation::bring brings its state");
        auto state = store_[k];
        if (store_.outside() && store_.visited(k) && !keeps(k, state, workspace))
            throw IoError(store_.outside()->where(), detail::not_left_by_this_method(k));
        return state;
    }
    bool keeps(Id k, const ClientState& state, Workspace<R>& workspace) const {
        return Client<Me, M>(*setup_, k, data_[k]).keeps(state, workspace);
    }
    void restore_clients(Reader& in, std::uint64_t kept, std::uint64_t round) {
        std::vector<std::pair<Id, ClientState>> clients;
        Workspace<R> workspace;
        for (std::uint64_t i = 0; i < kept; ++i) {
            Id k = 0;
            get(in, k);
            if (k >= size()) throw WireError("the state is of a client that is not in this federation");
            if (!clients.empty() && k <= clients.back().first) throw WireError("the state's clients are out of order");
            ClientState state{};
            get(in, state);
            if (!keeps(k, state, workspace)) throw WireError(detail::not_left_by_this_method(k));
            clients.emplace_back(k, std::move(state));
        }
        if (in.left() > 0) throw WireError("bytes follow the end of the state");
        if (store_.outside()) {
            ranks_.agree(ranks_.attempt([&] {
                store_.outside()->begin();
                Vec<Staged> all;
                for (const auto& [k, state] : clients)
                    if (lives_here(k)) all.push_back(store_.stage(k, state));
                store_.commit(round, all);
            }));
            return store_.committed();
        }
        store_.clear();
        for (auto& [k, state] : clients)
            if (lives_here(k)) store_.commit(k, std::move(state));
    }

    void visit(const Seat& seat, Visit& visit, Workspace<R>& workspace) {
        Client<Me, M> client(*setup_, seat.client, data_[seat.client],
                             visit.guest ? std::move(visit.state) : state_of(seat.client, workspace));
        try {
            if (!detail::over_budget(setup_->method, client.state(), seat.client))
                (this->*exchange_)(seat, client, visit, workspace), visit.counted.tally = workspace.tally;
        } catch (const BudgetError&) {  // nothing was sent, and what was received was for nothing
        } catch (...) {
            visit.state = client.take_state();
            throw;
        }
        const auto& counted = visit.counted;
        if (!counted.sent) server_.excuse(seat.client);
        visit.state = client.take_state();
        if (!store_.outside() || visit.guest || settings().stateless || (counted.sent && !counted.sound)) return;
        visit.staged = store_.stage(seat.client, visit.state);
        if constexpr (!detail::keeps_spent<Me>) visit.state = {};  // so memory holds those under way, not the cohort
    }
    void exchange(const Seat& seat, Client<Me, M>& client, Visit& visit, Workspace<R>& workspace) {
        auto& counted = visit.counted;
        auto down = begin_exchange(seat, counted, workspace);
        auto up = client.visit(std::move(down), server_.round(), workspace);
        counted.sent = true;
        counted.bytes_up = detail::framed(up);
        counted.formula_up = formula_bytes(up);
        const auto verdict =
            seat.merged ? server_.accept(seat.client, std::move(up), client.sound()) : Verdict::accepted;
        counted.sound = verdict == Verdict::accepted && client.sound();
    }
    void exchange_bytes(const Seat& seat, Client<Me, M>& client, Visit& visit, Workspace<R>& workspace) {
        auto& counted = visit.counted;
        begin_exchange(seat, counted, workspace);
        const Bytes up = client.visit(server_.download(seat.client), workspace);
        counted.sent = true;
        counted.bytes_up = detail::nothing_travels<Upload> ? 0 : up.size();
        counted.formula_up = formula_bytes(
            io::decode_payload<Upload>(io::decode_frame(up), io::Kind::upload, setup_->initial.size()));
        const auto verdict = seat.merged ? server_.receive(seat.client, up) : Verdict::accepted;
        counted.sound = verdict == Verdict::accepted && client.sound();
    }
    void lend_states(const Shares& shares, const Plan& plan, Vec<Visit>& visits) {
        detail::lend_states(shares, plan, store_, visits, [&](Id k) { return state_of(k, workers_[0]->workspace); });
    }
    auto begin_exchange(const Seat& seat, detail::Counted& counted, Workspace<R>& workspace) {
        workspace.tally = {};
        auto down = server_.send(seat.client);
        counted.bytes_down = detail::framed(down);
        counted.formula_down = formula_bytes(down);
        return down;
    }
    // Budgets end one by one, and rounds go on with those who have something left, until nobody has.
    void stop_if_nobody_can_go_on(const Plan& plan, const Vec<Visit>& visits) const {
        for (const auto& v : visits)
            if (v.counted.sent) return;
        if (plan.empty()) return;
        const Id last = plan.back().client;
        Vec<unsigned char> asked(size());
        for (const auto& seat : plan) asked[seat.client] = 1;
        const auto can_go_on = [&](const Candidate& c) {
            return !asked[c.client] && lives_here(c.client) &&
                   !detail::over_budget(setup_->method, client(c.client), c.client);
        };
        bool someone = false;
        ranks_.agree(ranks_.attempt([&] { someone = std::any_of(candidates_.begin(), candidates_.end(), can_go_on); }));
        if (ranks_.any(someone)) return;
        Vec<Overdraft> refused(plan.size());  // of the last seat, from where its client lives
        bool over = false;
        if (lives_here(last))
            if (const auto overdraft = detail::over_budget(setup_->method, visits.back().state, last))
                refused.back() = *overdraft, over = true;
        ranks_.share(refused, [&](std::size_t i) { return lives_here(plan[i].client); });
        if (ranks_.any(over)) throw BudgetError(refused.back());
    }
    // Sent is spent, whatever came of it.
    ClientState spent_of(Id client, ClientState& after) const {
        auto before = store_[client];
        detail::keep_spent(setup_->method, before, after);
        return before;
    }
    void keep_spent(Id client, ClientState& after) {
        if constexpr (detail::keeps_spent<Me>) {
            if (store_.outside()) store_.hold(client, spent_of(client, after));
            else store_.commit(client, spent_of(client, after));
        }
    }

    bool counts(const Visit& v, const Outcome& outcome) const {
        return !v.counted.sent || (v.counted.sound && outcome.counted);
    }
    // The last thing of a round that can fail. What was trained elsewhere was not staged there.
    void write_states(const Plan& plan, const std::optional<Shares>& shares, Vec<Visit>& visits,
                      const Outcome& outcome) {
        Vec<Staged> counted;
        if (!settings().stateless)
            for (std::size_t i = 0; i < plan.size(); ++i) {
                if (!lives_here(plan[i].client)) continue;
                if (counts(visits[i], outcome)) {
                    const bool came = shares && shares->trainer[i] != shares->rank();
                    counted.push_back(came ? store_.stage(plan[i].client, visits[i].state) : visits[i].staged);
                } else if constexpr (detail::keeps_spent<Me>) {
                    auto after = visits[i].state;
                    counted.push_back(store_.stage(plan[i].client, spent_of(plan[i].client, after)));
                }
            }
        store_.commit(server_.round(), counted);
    }

    // Commits what the visits left, if the round counted, and adds them up, in the order of the plan.
    void settle(const Plan& plan, Vec<Visit>& visits, RoundReport& report) {
        const Tally tally = detail::add_up(plan, visits, report);
        if constexpr (CountedModel<M>)
            report.flops = 3 * (tally.forward_flops + setup_->model.forward_flops() *
                                                          static_cast<double>(tally.examples - tally.counted));
        if (settings().stateless || store_.outside()) return;
        for (std::size_t i = 0; i < plan.size(); ++i) {
            if (!lives_here(plan[i].client)) continue;
            if (counts(visits[i], report.outcome)) store_.commit(plan[i].client, std::move(visits[i].state));
            else keep_spent(plan[i].client, visits[i].state);
        }
    }

    ClientData set_aside() const { return {&data_.pool().examples(), data_.split().server}; }

    std::unique_ptr<Arena> arena_;
    data::FederatedDataset data_;
    std::unique_ptr<const Setup<Me, M>> setup_;
    Server<Me, M> server_;
    ClientStore<ClientState> store_;
    mutable detail::StoreParts parts_{};
    Ranks ranks_;
    Fingerprint everywhere_{};  // of the states on all ranks
    mutable std::optional<std::pair<Id, ClientState>> guest_{};
    std::vector<Candidate> candidates_;
    std::vector<std::unique_ptr<Worker>> workers_;
    bool mirrors_ = false;
    // By address, so that a program compiles what it asks for.
    void (Federation::*exchange_)(const Seat&, Client<Me, M>&, Visit&, Workspace<R>&) = &Federation::exchange;
    detail::OnRanks<Federation, ClientState> on_ranks_{};
};

}  // namespace tessera

// SPDX-License-Identifier: BSD-3-Clause
// Text from the models of a run: the common one, and that of a client.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/io/continuation.hpp>

#include "commands.hpp"
#include "counts.hpp"
#include "methods.hpp"
#include "nearest.hpp"
#include "outputs.hpp"
#include "pools.hpp"
#include "runs.hpp"
#include "session.hpp"
#include "stages.hpp"
#include "tasks.hpp"

namespace lab {
namespace {

using tessera::ConfigError;

// By its name, or where clients have none by its number.
tessera::Id client_called(const std::string& name, const Task& task) {
    if (!task.names.empty()) {
        const auto at = std::ranges::find(task.names, name);
        if (at == task.names.end())
            throw ConfigError("--client " + name + ": there is no such client" + perhaps(name, task.names));
        return static_cast<tessera::Id>(at - task.names.begin());
    }
    const auto number = count_in(name);
    if (!number || *number >= task.clients.size())
        throw ConfigError("--client " + name + ": clients have no names here; write a number below " +
                          std::to_string(task.clients.size()));
    return static_cast<tessera::Id>(*number);
}

}  // namespace

int generate(Options o, const GenerateOptions& asked) {
    if (o.checkpoint.empty())
        throw ConfigError(asked.run + ": that run kept no checkpoint, so its models are gone; run its command again with "
                                      "--checkpoint DIR");
    complete(o);
    if (!o.seeds.empty()) o = for_seed(o, o.seeds.front());
    settle_normalisation(o);
    const auto task = make_task(o);
    const auto* words = vocabulary_of(*o.data);
    if (!words) throw ConfigError("--data " + *o.data + ": these are no texts, so its models say nothing");
    if (!speaks(task.clients.pool().examples()))
        throw ConfigError("--data " + *o.data + ": its models read words one-hot; as=sequences or as=ids makes models that "
                                                "can go on from a text");
    // Runs of earlier versions kept none.
    const auto kept = vocabulary_in(o.checkpoint);
    if (tessera::io::exists(kept) && tessera::io::read_vocabulary(kept) != *words)
        throw ConfigError(kept + ": the run had another vocabulary than --data " + *o.data +
                          " has now, so its models would say other words than they mean");
    const auto client = client_called(asked.client, task);
    Speech speech{.prompt = words->ids(asked.prompt),
                  .words = words,
                  .how = {.tokens = asked.tokens, .temperature = asked.temperature, .seed = asked.seed}};
    try {
        speech.how.validate();
    } catch (const ConfigError& e) {
        throw ConfigError(std::string("generate: ") + e.what());
    }
    if (speech.prompt.empty()) throw ConfigError("--prompt '" + asked.prompt + "': it has no word to go on from");
    if (const auto unknown = std::ranges::count(speech.prompt, words->unknown()); unknown > 0)
        std::fprintf(stderr, "tessera-lab: %zu of %zu tokens of the prompt are not in the vocabulary\n",
                     static_cast<std::size_t>(unknown), speech.prompt.size());
    const auto session = restored(stages_of(o), task);
    for (const auto& each : session->speak(client, speech)) {
        const bool global = each.model == tessera::report::Which::global;
        std::printf("%s after %zu rounds:\n%s|%s\n", global ? "global model" : ("personal model of " + asked.client).c_str(),
                    session->rounds_done(), asked.prompt.c_str(), tessera::io::text_of(*words, each.ids).c_str());
    }
    return 0;
}

}  // namespace lab

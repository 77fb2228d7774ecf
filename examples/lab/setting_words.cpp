// SPDX-License-Identifier: BSD-3-Clause
#include "setting_words.hpp"

#include <algorithm>
#include <string_view>

#include <tessera/core/error.hpp>

namespace lab {
namespace {

struct Words {
    std::string_view name, of;  // the setting's last name, and what is in an algorithm's name; empty: any
    std::string_view meaning;
};

// Of one name those of some algorithms come first.
constexpr Words all_words[] = {
    {"accuracy", "", "a client prunes while its pruned model has at least this accuracy on its validation data"},
    {"aggregate", "",
     "how the server adds updates of masked models: over all clients, or over those who own a coordinate"},
    {"alpha", "feddyn", "strength of the pull to the server's model, and of the slopes that clients remember"},
    {"alpha", "per-fedavg", "size of the step that is looked ahead, and of the steps when served"},
    {"alpha", "apfl", "share of the client's own model in what is served; the first one where it moves"},
    {"alpha_k", "", "how much of others' models a client takes; 0 is sigma divided by the number of clients"},
    {"alpha_m", "", "step size of the outer steps, w towards theta"},
    {"alpha_rate", "", "step size of alpha, where mixing moves it"},
    {"alternate", "", "in which turns router and global parts are trained"},
    {"anchor", "", "where the penalty pulls personal parameters to"},
    {"annealing", "",
     "how the share of weights that is exchanged falls over the rounds, as printed or as in the program"},
    {"answers", "", "models drawn for an answer, whose probabilities are averaged; 0: the mean model"},
    {"answer", "", "what a class is in distillation: one of all, or several at once"},
    {"arithmetic", "", "sparse or dense arithmetic, or by a table of which is faster"},
    {"b1", "", "server optimizer: decay of the first moment; -1 is the optimizer's own"},
    {"b2", "", "server optimizer: decay of the second moment; -1 is the optimizer's own"},
    {"bandwidth", "", "divides distances to neighbours before they count"},
    {"beta", "", "how far the server goes to the mean: 1 is the mean, 2 twice as far"},
    {"bias_corrected", "", "server Adam: moments are corrected for their start at 0"},
    {"by_both", "", "served after one step of alpha and one of the meta-step's rule, instead of tune_steps"},
    {"cap", "", "most batches of an epoch; 0: all"},
    {"cap_u", "", "most batches of an epoch on the shared part; 0: all"},
    {"cap_v", "", "most batches of an epoch on the personal part; 0: all"},
    {"capacity", "", "examples that a client remembers; 0: all"},
    {"channels", "", "whole channels of convolutions are pruned instead of weights"},
    {"clients", "", "uploads that a round is expected to bring, by which the sum is divided; what a round merges unless given"},
    {"clip", "-clients-dp", "fold.clip: norm to which a client's whole update is clipped; local.clip: gradients, 0 does not"},
    {"clip", "-dp", "norm to which the gradient of each example is clipped"},
    {"clip", "", "norm to which gradients are clipped; 0 does not"},
    {"clusters", "", "models that the server keeps, of which each client takes the best"},
    {"collaborate", "", "heads are mixed among clients whose features are alike; else each has its own"},
    {"components", "", "models of which every client is a mixture"},
    {"decay", "", "how the step size falls over the planned rounds"},
    {"delta", "per-fedavg", "distance at which Hessian-vector products are taken as differences"},
    {"delta", "", "probability with which the promise of epsilon may fail"},
    {"deviation", "", "everybody's first deviation of a drawn parameter"},
    {"draws", "", "models drawn for a gradient"},
    {"dense_first", "", "width of the first layer of the router of blocks that are no cells"},
    {"dense_second", "", "width of the second layer of the router of blocks that are no cells; 0: none"},
    {"dense_third", "", "width of the third layer of the router of blocks that are no cells; 0: none"},
    {"density", "", "share of the weights that a personal model has"},
    {"detached", "", "theta is not carried from step to step of a visit"},
    {"distance", "", "masks of the first and the last epoch must differ by this share before a client prunes"},
    {"distribution", "", "how the density is dealt to layers"},
    {"drift", "", "what tells a client's drift: the way it went in a visit, or its gradient where it began"},
    {"dropout", "", "of the router, while it is trained"},
    {"embedding", "", "numbers that the server knows a client by; 0: 1 and a quarter of the clients"},
    {"embedding_pace", "", "step size of the embeddings divided by hyper_rate; 0: they stay"},
    {"ensemble", "", "what the mean of the teachers is taken of"},
    {"epochs", "", "passes over a client's data in a visit"},
    {"epochs_u", "", "passes over a client's data on the shared part"},
    {"epochs_v", "", "passes over a client's data on the personal part"},
    {"eps", "", "keeps the logarithm of the router's term finite"},
    {"epsilon", "", "budget of privacy of a run, in which a client stops; 0: none, and what is spent is told"},
    {"eta", "", "how far the prior moves by what was learnt in the last visit"},
    {"eta_a", "", "how far the prior moves along the gradient"},
    {"eval_adapt_global", "", "global parts are trained too before a client is served"},
    {"eval_adapt_psi", "", "the router is trained before a client is served"},
    {"eval_model", "", "which of a client's models is served"},
    {"every", "", "rounds between two steps of decay = step"},
    {"explore", "", "chance with which a client hears others by lot instead of those who helped it"},
    {"factor", "", "what the step size is multiplied by, of decay = step and exponential"},
    {"fade", "", "how neighbours count by their distance"},
    {"fifth", "", "width of the router's fifth layer; 0: none"},
    {"first", "fedspa", "whether all clients begin with one mask or with masks of their own"},
    {"first", "", "width of the router's first layer"},
    {"fourth", "", "width of the router's fourth layer; 0: none"},
    {"gamma", "", "strength of the term that draws the router to the global route"},
    {"global_loss", "",
     "what the global parts descend: the loss of the routed model, or that of the global route alone"},
    {"grow", "", "how weights that come in are chosen"},
    {"head_epochs", "", "passes over a client's data on the head"},
    {"held_out", "", "share of a client's training data by which others' models are judged"},
    {"hidden", "", "layers of the hypernetwork"},
    {"hyper_clip", "", "norm to which a step of the hypernetwork is clipped"},
    {"hyper_decay", "", "weight decay of the hypernetwork"},
    {"hyper_momentum", "", "momentum of the hypernetwork's steps"},
    {"hyper_rate", "", "step size of the hypernetwork"},
    {"inference", "", "whether an example takes one route when served, or the mean of both"},
    {"inner_steps", "", "steps of theta for each outer step"},
    {"jacobian", "", "whether the prior's slope goes through its own gradient"},
    {"joint_epochs", "", "passes over a client's data on router and global parts in turns (K2)"},
    {"judge_every", "", "steps of distillation between two looks at the validation data"},
    {"kd_batch", "", "public examples in a step of distillation"},
    {"kd_rate", "", "step size of distillation"},
    {"kd_rounds", "", "rounds with distillation, from the first"},
    {"kd_steps", "", "steps of distillation in a round"},
    {"lambda", "fedpac", "strength of the pull of features to the centroids of their classes"},
    {"lambda", "knn-per", "share of the neighbours in what is served"},
    {"lambda", "fedamp", "strength of the pull to the mean of clients alike"},
    {"lambda", "mtl", "strength of the pull to the mean of all clients' models"},
    {"lambda", "", "strength of the pull of the personal model to the server's or to its prior"},
    {"lambda_scale", "", "factor of lambda: 2 is the authors' program, which leaves a half out"},
    {"lean", "", "how far the choice of a layer leans to the client's own at the start"},
    {"least_lesson", "", "distillation is left out where the teachers differ from the student by less"},
    {"likeness", "", "what makes clients alike"},
    {"local_epochs", "", "passes over a client's data on the local copy (K1)"},
    {"local_init", "", "where the local copy starts in a visit"},
    {"logit_rate", "", "step size of the choice between common and own layers"},
    {"mask_scope", "", "what is masked"},
    {"meta_gradient", "", "how the gradient ahead is taken back"},
    {"mh", "", "the prior as the paper prints it, or as the program has it"},
    {"mix", "", "where the routes of an example come together"},
    {"mixing", "", "whether alpha moves"},
    {"momentum", "", "of clients' steps"},
    {"mu", "", "strength of the pull to the server's model"},
    {"neighbours", "", "how many of a client's examples are asked (k)"},
    {"nesterov", "", "server momentum looks ahead"},
    {"noise", "-clients-dp", "deviation of the noise on a round's sum, in units of fold.clip"},
    {"noise", "", "deviation of the noise on a step, in units of clip"},
    {"old_owners", "", "owners of a coordinate are counted by their masks before pruning"},
    {"others", "", "models of other clients that a client hears (M')"},
    {"own_init", "", "where personal models begin: at the first model received, or at the run's initial one"},
    {"own_epochs", "", "passes over a client's data on the personal model"},
    {"own_share", "", "of a client's own model where clients alike go by angle; 0: one by the number of clients"},
    {"own_steps", "", "batches on the personal model, instead of own_epochs; 0: epochs"},
    {"pass", "", "whether a client's batches are those that FedAvg's would be, or others"},
    {"patience", "", "looks at the validation data without gain after which distillation ends"},
    {"pi", "", "whether the two branches have weights of their own"},
    {"prox_init", "", "where theta starts in each outer step"},
    {"prune_rate", "sub-fedavg", "share of the weights that goes when a client prunes"},
    {"prune_rate", "", "share of the weights that is exchanged at first"},
    {"q0", "", "probability of the global route, for all examples and layers"},
    {"rate", "", "step size of clients"},
    {"ratio", "", "share of a client's data on which the local copy is trained"},
    {"reg", "", "over which routes the router's term goes"},
    {"relu", "", "the router has ReLUs between its layers"},
    {"remember", "", "clients keep their masks; else these travel at every visit"},
    {"sampling_rate", "", "chance of each example to be in a step; 0: batch divided by examples"},
    {"second", "", "width of the router's second layer"},
    {"select", "", "which model distillation keeps"},
    {"server", "", "optimizer of the server"},
    {"server_adam", "", "constants of server Adam: those of Reddi et al., or those of PyTorch"},
    {"server_momentum", "", "momentum of the server's steps; -1 is the optimizer's own"},
    {"server_rate", "", "step size of the server; -1 is the optimizer's own"},
    {"sigma", "", "how fast likeness falls with the distance of two models"},
    {"source", "", "where noise comes from: the system, or the run's key, which is no secret"},
    {"split", "", "how a client's data are halved between the local copy and the rest; none: both have all"},
    {"spread", "pfedhn", "deviation of the first embeddings"},
    {"spread", "", "how far further models start from the first"},
    {"steps", "per-fedavg", "meta steps in a visit (R)"},
    {"steps", "pfed", "outer steps in a visit (R)"},
    {"steps", "", "batches in a visit, instead of epochs; 0: epochs"},
    {"strength", "", "of the penalty on personal parameters; 0: none"},
    {"target", "", "density at which a client stops pruning"},
    {"tau", "", "server optimizer: what is added to the root of the second moment; -1 is the optimizer's own"},
    {"temperature", "partialfed", "of the samples by which layers are chosen"},
    {"temperature", "", "of teachers and student in distillation"},
    {"third", "", "width of the router's third layer"},
    {"tune_all", "", "the body is tuned too when served"},
    {"tune_epochs", "", "passes over a client's data before it is served"},
    {"tune_prox_weight", "", "strength of the pull to the server's model in these"},
    {"tune_steps", "", "batches before a client is served"},
    {"unbiased", "", "weights that are there are scaled up for those that are not"},
    {"v0", "", "server optimizer: start of the second moment; -1 is the optimizer's own"},
    {"warm_up", "", "share of the planned rounds in which the step size rises, of decay = linear and cosine"},
    {"weight_decay", "", "of clients' steps"},
    {"weighted", "", "teachers count by their examples"},
    {"weights", "", "what an upload counts by"},
    {"whole", "", "the router reads all of a cell's state, an LSTM's h and c, and not h alone"},
    {"width", "", "of the hypernetwork's layers"},
    {"zeta", "", "strength of the pull of a client's distribution to the server's"},
};

// What the method says to a value, or nothing.
std::string answer_to(const Entry& entry, const std::string& setting, const std::string& value) {
    Options o;
    o.algorithm = entry.name;
    if (entry.scoped) o.scope = "output";
    o.set = {{setting, value}};
    try {
        entry.check(o);
    } catch (const tessera::ConfigError& e) {
        return e.what();
    }
    return "";
}

// The words between `from` and the first of what ends them.
std::string between(const std::string& text, std::string_view from) {
    const auto begin = text.find(from);
    if (begin == text.npos) return "";
    auto rest = text.substr(begin + from.size());
    for (const auto* end : {", not ", "; ", ": "}) rest = rest.substr(0, rest.find(end));
    return rest;
}

}  // namespace

std::string meaning_of(const std::string& algorithm, const std::string& setting) {
    const auto name = std::string_view(setting).substr(setting.rfind('.') + 1);
    for (const auto& words : all_words)
        if (words.name == name && algorithm.find(words.of) != algorithm.npos) return std::string(words.meaning);
    return "";
}

std::string range_of(const Entry& entry, const std::string& setting) {
    const auto junk = answer_to(entry, setting, "?");
    if (const auto words = between(junk, " is one of "); !words.empty()) return "one of " + words;
    const auto last = setting.substr(setting.rfind('.') + 1);
    const bool whole = junk.find("whole number") != junk.npos;
    for (const auto* value : {"-1", "0", "2", "1e30"}) {
        const auto said = answer_to(entry, setting, value);
        if (said.find(last) == said.npos) continue;  // about another setting
        if (auto must = between(said, " must lie "); !must.empty()) return must;
        if (auto must = between(said, " must be "); !must.empty()) return must;
    }
    return whole ? "a whole number" : junk.find("true") != junk.npos ? "true or false" : "a number";
}

}  // namespace lab

// SPDX-License-Identifier: BSD-3-Clause
// Models by name or by description, for examples of any width and number of classes.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/io/weights.hpp>
#include <tessera/kernels/eigen.hpp>
#ifdef TESSERA_HAS_BLAS
#include <tessera/kernels/xtensor_blas.hpp>
#endif
#include <tessera/nn/additive.hpp>
#include <tessera/nn/any_loss.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/resnet_zoo.hpp>
#include <tessera/nn/speech.hpp>
#include <tessera/nn/text_zoo.hpp>
#include <tessera/nn/vit_zoo.hpp>
#include <tessera/nn/weight_names.hpp>
#include <tessera/nn/zoo.hpp>

#include "nearest.hpp"
#include "tasks.hpp"

namespace lab {

namespace nn = tessera::nn;
using tessera::ConfigError;

namespace {

using Net = nn::Network<float, nn::AnyLoss>;
using Backend = nn::Backend<float>;

// Those that this program was built with.
const Backend& backend_of(const std::string& name) {
    const auto absent = [&](const std::string& why) {
        throw ConfigError("--backend " + name + ": " + why);
    };
    if (name.empty() || name == "simd") return nn::backend_for<float>();
    if (name == "reference") return nn::backend_for<float, tessera::backend::Reference>();
    if (name == "eigen") return nn::backend_for<float, tessera::backend::Eigen>();
    if (name == "xtensor-blas") {
#ifdef TESSERA_HAS_BLAS
        return nn::backend_for<float, tessera::backend::XtensorBlas>();
#else
        absent("this program was built without xtensor-blas");
#endif
    }
    absent("there is no such backend; known are simd, reference, eigen and xtensor-blas");
    return nn::backend_for<float>();
}

constexpr std::string_view recogniser = "speech-transformer";

nn::AnyLoss loss_of(const std::string& name, const std::string& model, const tessera::Examples& examples) {
    nn::AnyLoss loss = nn::AnyLoss::fitting(examples);
    if (model.substr(0, model.find(':')) == recogniser) loss.kind = nn::LossOf::ctc;
    if (!name.empty()) tessera::detail::read_text("--loss", name, loss.kind);
    return loss;
}

// Pictures are square, in one channel or three.
nn::Shape planes_of(const std::string& name, std::size_t width) {
    for (const std::size_t channels : {1u, 3u})
        for (std::size_t side = 1; channels * side * side <= width; ++side)
            if (channels * side * side == width) return nn::Shape(channels, side, side);
    throw ConfigError("--model " + name + ": it reads square pictures of one or three channels; the data has " +
                      std::to_string(width) + " features, for which there are mclr and dnn");
}

template <class L>
using Unrouted = decltype(nn::unrouted(std::declval<L>()));
using Cell = decltype(nn::recipe::lstm_cell(1));

// Layers that are read, not compiled: a chain of any length.
struct Described {
    using Layer = std::variant<nn::Linear, nn::Conv2d, nn::MaxPool2d, nn::MeanPool, nn::GroupNorm, nn::Dropout, nn::Relu,
                               nn::Embedding, nn::Lstm, nn::LastPosition, Unrouted<nn::Embedding>, Unrouted<nn::Linear>,
                               Cell, nn::Bottleneck<nn::Near>>;
    std::vector<Layer> layers;
    bool of_planes = false, of_cells = false;

    template <class B>
    int add(B& to, int v) const {
        for (std::size_t i = 0; i < layers.size(); ++i)
            v = std::visit([&](const auto& layer) { return to.element(i, layer, v); }, layers[i]);
        return v;
    }
};

constexpr std::string_view grammar =
    "a model is described as 'conv OUTPUTS KERNEL [STRIDE [PAD]]', 'pool [SIDE]', 'mean', 'norm [GROUPS]', "
    "'dropout RATE', 'adapter RANK' and 'linear WIDTH', of texts 'embedding WIDTH', 'lstm HIDDEN', 'cell HIDDEN' (an "
    "LSTM that flow-states routes) and 'last', joined by commas, and ends in 'linear'";

class Words {
public:
    Words(std::string_view piece, const std::string& text) : text_(text) {
        tessera::detail::for_each_piece(piece, ' ', [&](std::string_view word) {
            if (!word.empty()) words_.push_back(word);
        });
        if (words_.empty()) wrong("nothing stands between two commas");
    }
    std::string_view name() const { return words_[0]; }
    std::size_t count() const { return words_.size() - 1; }
    // Its numbers, of which there must be `least` to `most`.
    std::vector<double> numbers(std::size_t least, std::size_t most) const {
        if (count() < least || count() > most) wrong("'" + std::string(name()) + "' has other numbers behind it");
        std::vector<double> all;
        for (std::size_t i = 1; i < words_.size(); ++i) {
            double value = 0;
            const char* end = words_[i].data() + words_[i].size();
            const auto read = std::from_chars(words_[i].data(), end, value);
            if (read.ec != std::errc{} || read.ptr != end) wrong("'" + std::string(words_[i]) + "' is no number");
            all.push_back(value);
        }
        return all;
    }
    std::vector<std::size_t> sizes(std::size_t least, std::size_t most) const {
        std::vector<std::size_t> all;
        for (const double value : numbers(least, most)) {
            if (!(value >= 0 && value <= 1e6) || value != static_cast<double>(static_cast<std::size_t>(value)))
                wrong("sizes are whole numbers");
            all.push_back(static_cast<std::size_t>(value));
        }
        return all;
    }
    [[noreturn]] void wrong(const std::string& why) const {
        throw ConfigError("--model " + text_ + ": " + why + "; " + std::string(grammar));
    }

private:
    const std::string& text_;
    std::vector<std::string_view> words_;
};

// A ReLU follows every convolution and every linear layer but the last.
Described described(const std::string& text, std::size_t classes) {
    Described all;
    bool ended = false;
    tessera::detail::for_each_piece(text, ',', [&](std::string_view piece) {
        const Words words(piece, text);
        const auto name = words.name();
        if (ended) words.wrong("'linear' without a width ends it");
        if (name == "linear" && words.count() == 0) {
            all.layers.emplace_back(nn::Linear{classes});
            ended = true;
        } else if (name == "linear") {
            all.layers.emplace_back(nn::Linear{words.sizes(1, 1)[0]});
            all.layers.emplace_back(nn::Relu{});
        } else if (name == "conv") {
            const auto n = words.sizes(2, 4);
            all.layers.emplace_back(nn::Conv2d{
                .outputs = n[0], .kernel = n[1], .stride = n.size() > 2 ? n[2] : 1, .pad = n.size() > 3 ? n[3] : 0});
            all.layers.emplace_back(nn::Relu{});
            all.of_planes = true;
        } else if (name == "pool") {
            const auto n = words.sizes(0, 1);
            all.layers.emplace_back(nn::MaxPool2d{n.empty() ? 2 : n[0]});
            all.of_planes = true;
        } else if (name == "mean") {
            words.sizes(0, 0);
            all.layers.emplace_back(nn::MeanPool{});
            all.of_planes = true;
        } else if (name == "norm") {
            const auto n = words.sizes(0, 1);
            all.layers.emplace_back(nn::GroupNorm{n.empty() ? 1 : n[0]});
        } else if (name == "embedding") {
            all.layers.emplace_back(nn::Embedding{classes, words.sizes(1, 1)[0]});
        } else if (name == "lstm") {
            all.layers.emplace_back(nn::Lstm{words.sizes(1, 1)[0]});
        } else if (name == "cell") {
            all.layers.emplace_back(nn::recipe::lstm_cell(words.sizes(1, 1)[0]));
            all.of_cells = true;
        } else if (name == "adapter") {
            all.layers.emplace_back(nn::bottleneck(words.sizes(1, 1)[0], nn::Near{}));
        } else if (name == "last") {
            words.sizes(0, 0);
            all.layers.emplace_back(nn::LastPosition{});
        } else if (name == "dropout") {
            all.layers.emplace_back(nn::Dropout{words.numbers(1, 1)[0]});
        } else {
            words.wrong("'" + std::string(name) + "' is no layer");
        }
    });
    if (!ended) Words("linear", text).wrong("it does not end in 'linear'");
    if (all.of_cells) {  // as in Flow's networks: words and scores are the global model's, the rest is mixed word by word
        bool words = true;
        for (auto& layer : all.layers) {
            words = words && !std::holds_alternative<nn::LastPosition>(layer);
            if (const auto* table = std::get_if<nn::Embedding>(&layer)) layer = nn::unrouted(nn::Embedding(*table));
            else if (const auto* linear = std::get_if<nn::Linear>(&layer); linear && words)
                layer = nn::by_position(nn::Linear(*linear));
        }
        all.layers.back() = nn::unrouted(nn::Linear{classes});
    }
    return all;
}

}  // namespace

void check_described_model(const std::string& text) { described(text, 1); }

namespace {

// "resnet18:width=32,adapters=serial": the name, and what its settings are to be.
struct Named {
    std::string name;
    std::vector<std::pair<std::string, std::string>> settings;
};
Named named(const std::string& text) {
    const auto colon = text.find(':');
    Named all{text.substr(0, colon), {}};
    if (colon == text.npos) return all;
    tessera::detail::for_each_piece(std::string_view(text).substr(colon + 1), ',', [&](std::string_view piece) {
        const auto equals = piece.find('=');
        if (equals == piece.npos || equals == 0)
            throw ConfigError("--model " + text + ": '" + std::string(piece) + "' is not SETTING=VALUE");
        all.settings.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    });
    return all;
}

// Settings of a model, asked for one by one: done() knows then what there was and what nobody asked for.
class Adjusted {
public:
    Adjusted(const Named& model, const std::string& text) : model_(model), text_(text) {}
    template <class T>
    void operator()(std::string_view name, T& value) {
        known_.append(known_.empty() ? "" : ", ").append(name);
        for (const auto& [asked, as] : model_.settings)
            if (asked == name) tessera::detail::read_text("--model " + text_ + ": " + asked, as, value), ++used_;
    }
    // One number for each stage; behind a list that ends early the last one again, or 0.
    void operator()(std::string_view name, std::array<std::size_t, 4>& values, bool all_alike) {
        known_.append(known_.empty() ? "" : ", ").append(name);
        for (const auto& [asked, as] : model_.settings) {
            if (asked != name) continue;
            std::size_t n = 0, last = 0;
            tessera::detail::for_each_piece(as, '+', [&](std::string_view piece) {
                if (n == values.size())
                    throw ConfigError("--model " + text_ + ": " + asked + " has at most four numbers, joined by +");
                tessera::detail::read_text("--model " + text_ + ": " + asked, piece, last);
                values[n++] = last;
            });
            for (; n < values.size(); ++n) values[n] = all_alike ? last : 0;
            ++used_;
        }
    }
    void done() const {
        if (used_ == model_.settings.size()) return;
        throw ConfigError("--model " + text_ + ": " +
                          (known_.empty() ? model_.name + " has no settings"
                                          : "the settings of " + model_.name + " are " + known_ + ", each once"));
    }

private:
    const Named& model_;
    const std::string& text_;
    std::string known_{};
    std::size_t used_ = 0;
};

constexpr std::size_t most_channels = 1 << 16;
void keep_small(const std::string& text, std::initializer_list<std::size_t> sizes) {
    for (const std::size_t n : sizes)
        if (n < 1 || n > most_channels)
            throw ConfigError("--model " + text + ": widths, groups and counts lie in 1.." +
                              std::to_string(most_channels));
}

nn::recipe::ResNet adjusted(nn::recipe::ResNet net, const Named& model, const std::string& text) {
    Adjusted adjust(model, text);
    adjust("blocks", net.blocks, false);
    adjust("width", net.width);
    adjust("stem", net.stem);
    adjust("batchnorm", net.norm.batch);
    adjust("groups", net.norm.groups, true);
    adjust("each", net.norm.each);
    adjust("affine", net.norm.affine);
    adjust("adapters", net.adapters.kind);
    adjust("rank", net.adapters.rank);
    adjust("dropout", net.adapters.dropout);
    adjust("deviation", net.adapters.deviation);
    adjust.done();
    keep_small(text, {net.width, net.adapters.rank, net.blocks[0], net.norm.each + 1});
    for (const std::size_t n : net.blocks)
        if (n > 64) throw ConfigError("--model " + text + ": a stage has at most 64 blocks");
    if (!(net.adapters.deviation >= 0 && net.adapters.deviation <= 1))
        throw ConfigError("--model " + text + ": deviation lies in [0, 1]");
    return net;
}
nn::recipe::Vit adjusted(nn::recipe::Vit net, const Named& model, const std::string& text) {
    Adjusted adjust(model, text);
    adjust("patch", net.patch);
    adjust("width", net.width);
    adjust("blocks", net.blocks);
    adjust("heads", net.heads);
    adjust("inner", net.inner);
    adjust("rank", net.rank);
    adjust("dropout", net.dropout);
    adjust.done();
    keep_small(text, {net.patch, net.width, net.blocks, net.heads, net.inner, net.rank + 1});
    if (net.blocks > 64) throw ConfigError("--model " + text + ": at most 64 blocks");
    return net;
}

Model made(const std::string& text, const tessera::Examples& examples, nn::AnyLoss loss, const Backend& on) {
    const Named model = describes_model(text) ? Named{text, {}} : named(text);
    const std::string& name = model.name;
    const std::size_t width = examples.width, classes = examples.targets ? examples.targets_each : examples.classes;
    const bool narrow = width == 60;  // the synthetic data of the papers, whose networks are small
    const std::size_t hidden = narrow ? 20 : 100;
    const auto of_planes = [&](const auto& recipe) { return Net(planes_of(name, width), recipe, loss, on); };
    const auto of_vectors = [&](const auto& recipe) { return Net(width, recipe, loss, on); };
    if (describes_model(name)) {
        const auto layers = described(name, classes);
        return layers.of_planes ? of_planes(layers) : of_vectors(layers);
    }
    const auto resnet = [&](const nn::recipe::ResNet& net) { return of_planes(adjusted(net, model, text)); };
    const auto vit = [&](const nn::recipe::Vit& net) { return of_planes(adjusted(net, model, text)); };
    if (name == "resnet8") return resnet(nn::recipe::resnet8(classes));
    if (name == "resnet18") return resnet(nn::recipe::resnet18(classes));
    if (name == "resnet34") return resnet(nn::recipe::resnet34(classes));
    if (name == "flow-resnet18") return resnet(nn::recipe::flow_resnet18(classes));
    if (name == "fedalt-resnet18") return resnet(nn::recipe::fedalt_resnet18(classes));
    if (name == "perada-resnet18") return resnet(nn::recipe::perada_resnet18(classes));
    if (name == "perada-resnet34") return resnet(nn::recipe::perada_resnet34(classes));
    if (name == "resnet8-adapter") {
        auto net = nn::recipe::resnet8(classes);
        net.adapters.kind = nn::recipe::Beside3x3::serial;
        return resnet(net);
    }
    if (name == "vit-s16") return vit(nn::recipe::vit_s16(classes));
    if (name == "small-vit") return vit(nn::recipe::small_vit(classes));
    if (name == "small-vit-adapter") return vit(nn::recipe::small_vit(classes, 16));
    if (name == "vgg11") {
        std::size_t channels = 64, groups = 32;
        Adjusted adjust(model, text);
        adjust("width", channels);
        adjust("groups", groups);
        adjust.done();
        keep_small(text, {channels, groups});
        return of_planes(nn::recipe::vgg11(classes, channels, groups));
    }
    if (name == recogniser) {
        std::size_t features = 40, inner = 1536, heads = 6, across = 384, blocks = 6, rank = 0;
        double dropout = 0;
        Adjusted adjust(model, text);
        adjust("features", features);
        adjust("width", across);
        adjust("heads", heads);
        adjust("inner", inner);
        adjust("blocks", blocks);
        adjust("rank", rank);
        adjust("dropout", dropout);
        adjust.done();
        keep_small(text, {features, across, heads, inner, blocks, rank + 1});
        if (width % features != 0)
            throw ConfigError("--model " + text + ": a row of " + std::to_string(width) +
                              " numbers is not frames of features=" + std::to_string(features));
        return Net(nn::Shape(width / features, features),
                   nn::recipe::speech_transformer(classes, rank, across, heads, inner, blocks, dropout), loss, on);
    }
    if (!describes_model(text)) Adjusted(model, text).done();
    if (name == "mclr") return of_vectors(nn::recipe::mclr(classes));
    if (name == "dnn") return of_vectors(nn::recipe::dnn(hidden, classes));
    if (name == "dnn3") {  // three hidden layers of one width: four blocks to route between
        const nn::Linear layer{narrow ? 20u : 512u};
        return of_vectors(nn::chain(layer, nn::Relu{}, layer, nn::Relu{}, layer, nn::Relu{}, nn::Linear{classes}));
    }
    if (name == "dnn-norm")
        return of_vectors(nn::chain(nn::Linear{hidden}, nn::GroupNorm{}, nn::LeakyRelu{}, nn::Linear{classes}));
    if (name == "dnn-adapter") return of_vectors(nn::recipe::adapted_dnn(hidden, classes, narrow ? 4 : 32));
    if (name == "additive") {
        if (loss.kind != nn::LossOf::softmax)
            throw ConfigError("--model additive: its halves mix probabilities of classes, and these data have none");
        return nn::Additive<Net, Net>(nn::Mix::probabilities, of_vectors(nn::recipe::dnn(hidden, classes)),
                                      of_vectors(nn::recipe::mclr(classes)));
    }
    if (name == "lenet5") return of_planes(nn::recipe::lenet5(classes));
    if (name == "cnn") return of_planes(nn::recipe::small_cnn(classes));
    if (name == "flow-cnn") return of_planes(nn::recipe::flow_cnn(classes));
    if (name == "cifarnet") return of_planes(nn::recipe::cifar_net(classes));
    if (name == "cifar-cnn") return of_planes(nn::recipe::cifar_cnn(classes));
    const bool every = examples.labels_each > 1;  // a label at every position, or one behind the last
    if (name == "char-lstm" && every) return of_vectors(nn::recipe::char_lstm(classes));
    if (name == "char-lstm") return of_vectors(nn::recipe::leaf_lstm(classes));
    if (name == "flow-lstm" && every) return of_vectors(nn::recipe::flow_shakespeare(classes));
    if (name == "flow-word-lstm" && every) return of_vectors(nn::recipe::flow_stackoverflow(classes));
    if (name == "flow-lstm" || name == "flow-word-lstm")
        throw ConfigError("--model " + name + ": it scores every position of a text; write as=sequences");
    if (name == "word-lstm" && every) return of_vectors(nn::recipe::word_lstm(classes));
    if (name == "word-lstm")
        return of_vectors(nn::chain(nn::Embedding{classes, 96}, nn::Lstm{670}, nn::last_position(), nn::Linear{96},
                                    nn::Linear{classes}));
    const auto transformer = [&](nn::recipe::Transformer layers) {
        layers.every = every;
        return of_vectors(layers);
    };
    if (name == "transformer") return transformer(nn::recipe::small_transformer(classes));
    if (name == "transformer-adapter") return transformer(nn::recipe::small_transformer(classes, 8));
    if (name == "fedalt-transformer") return transformer(nn::recipe::fedalt_transformer(classes, 16));
    auto meant = perhaps(name, {model_names.begin(), model_names.end()});
    if (meant.empty())
        for (const auto known : model_names) meant += (meant.empty() ? "; known are " : ", ") + std::string(known);
    throw ConfigError("--model " + name + ": there is no such model" + meant);
}

}  // namespace

std::span<const tessera::Renamed> weight_names_of(const std::string& text) {
    namespace names = nn::weight_names;
    const std::string name = text.substr(0, text.find(':'));
    if (name == "mclr") return names::mclr;
    if (name == "dnn") return names::dnn;
    if (name == "lenet5") return names::lenet5;
    if (name == "cnn") return names::small_cnn;
    if (name == "flow-cnn") return names::flow_cnn;
    if (name == "cifarnet") return names::cifar_net;
    if (name == "cifar-cnn") return names::cifar_cnn;
    if (name == "vgg11") return names::vgg11;
    return {};
}

namespace {

struct WeightsAsked {
    std::string file;
    tessera::io::WeightSettings settings{.new_adapters = true};
};
WeightsAsked asked_weights(const std::string& text) {
    WeightsAsked all;
    const auto wrong = [&](const std::string& why) { throw ConfigError("--weights " + text + ": " + why); };
    bool first = true;
    tessera::detail::for_each_piece(text, ',', [&](std::string_view piece) {
        constexpr std::string_view prefix = "prefix=";
        if (first) all.file = piece;
        else if (piece == "new-head") all.settings.new_head = true;
        else if (piece == "ignore-extra") all.settings.ignore_extra = true;
        else if (piece.starts_with(prefix) && piece.size() > prefix.size())
            all.settings.prefix = piece.substr(prefix.size());
        else wrong("behind the file stand new-head, ignore-extra and prefix=NAME, not '" + std::string(piece) + "'");
        first = false;
    });
    if (all.file.empty()) wrong("a file is missing");
    return all;
}

}  // namespace

std::string weights_file_of(const std::string& weights) { return asked_weights(weights).file; }

FirstValues read_first_values(const Options& options, const Model& model, tessera::Vec<float> first) {
    auto asked = asked_weights(options.weights);
    asked.settings.names = weight_names_of(*options.model);
    auto read = tessera::io::read_weights<float>(asked.file, model.layout(), std::move(first), asked.settings);
    const auto list = [](const std::vector<std::string>& names) {
        constexpr std::size_t most = 4;
        std::string all;
        for (std::size_t i = 0; i < std::min(most, names.size()); ++i) all += (i > 0 ? ", " : "") + names[i];
        return names.size() > most ? all + " and " + std::to_string(names.size() - most) + " more" : all;
    };
    std::string said = "first values of " + std::to_string(model.layout().size() - read.kept.size()) + " tensors from " +
                       asked.file;
    if (!read.kept.empty()) said += "; drawn: " + list(read.kept);
    if (!read.extra.empty()) said += "; not used: " + list(read.extra);
    return {std::move(read.parameters), std::move(said)};
}

Model make_model(const std::string& name, const tessera::Examples& examples, const std::string& loss,
                 const std::string& backend) {
    constexpr std::size_t most = std::size_t{1} << 31;  // 8 GiB
    const nn::AnyLoss chosen = loss_of(loss, name, examples);
    Model model = made(name, examples, chosen, backend_of(backend));
    try {
        model.accepts(examples, true);
    } catch (const ConfigError& e) {
        if (loss.empty()) throw;
        throw ConfigError("--loss " + loss + ": " + e.what());
    }
    if (tessera::dimension(model) > most)
        throw ConfigError("--model " + name + ": of " + std::to_string(examples.width) + " features and " +
                          std::to_string(examples.classes) +
                          " classes it would have more than the 2^31 parameters that are allowed");
    return model;
}

}  // namespace lab

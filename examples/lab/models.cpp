// SPDX-License-Identifier: BSD-3-Clause
// Models by name or by description, for examples of any width and number of classes.
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/kernels/eigen.hpp>
#ifdef TESSERA_HAS_BLAS
#include <tessera/kernels/xtensor_blas.hpp>
#endif
#include <tessera/nn/additive.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/text_zoo.hpp>
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

nn::AnyLoss loss_of(const std::string& name, const tessera::Examples& examples) {
    nn::AnyLoss loss = nn::AnyLoss::fitting(examples);
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

// Layers that are read, not compiled: a chain of any length.
struct Described {
    using Layer = std::variant<nn::Linear, nn::Conv2d, nn::MaxPool2d, nn::MeanPool, nn::GroupNorm, nn::Dropout, nn::Relu,
                               nn::Embedding, nn::Lstm, nn::LastPosition>;
    std::vector<Layer> layers;
    bool of_planes = false;

    template <class B>
    int add(B& to, int v) const {
        for (std::size_t i = 0; i < layers.size(); ++i)
            v = std::visit([&](const auto& layer) { return to.element(i, layer, v); }, layers[i]);
        return v;
    }
};

constexpr std::string_view grammar =
    "a model is described as 'conv OUTPUTS KERNEL [STRIDE [PAD]]', 'pool [SIDE]', 'mean', 'norm [GROUPS]', "
    "'dropout RATE' and 'linear WIDTH', of texts 'embedding WIDTH', 'lstm HIDDEN' and 'last', joined by commas, and ends "
    "in 'linear'";

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
    return all;
}

}  // namespace

void check_described_model(const std::string& text) { described(text, 1); }

namespace {

Model made(const std::string& name, const tessera::Examples& examples, nn::AnyLoss loss, const Backend& on) {
    const std::size_t width = examples.width, classes = examples.targets ? examples.targets_each : examples.classes;
    const bool narrow = width == 60;  // the synthetic data of the papers, whose networks are small
    const std::size_t hidden = narrow ? 20 : 100;
    const auto of_planes = [&](const auto& recipe) { return Net(planes_of(name, width), recipe, loss, on); };
    const auto of_vectors = [&](const auto& recipe) { return Net(width, recipe, loss, on); };
    if (describes_model(name)) {
        const auto layers = described(name, classes);
        return layers.of_planes ? of_planes(layers) : of_vectors(layers);
    }
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
    if (name == "vgg11") return of_planes(nn::recipe::vgg11(classes));
    if (name == "resnet18") return of_planes(nn::recipe::resnet18(classes));
    const bool every = examples.labels_each > 1;  // a label at every position, or one behind the last
    if (name == "char-lstm" && every) return of_vectors(nn::recipe::char_lstm(classes));
    if (name == "char-lstm") return of_vectors(nn::recipe::leaf_lstm(classes));
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

Model make_model(const std::string& name, const tessera::Examples& examples, const std::string& loss,
                 const std::string& backend) {
    constexpr std::size_t most = std::size_t{1} << 31;  // 8 GiB
    const nn::AnyLoss chosen = loss_of(loss, examples);
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

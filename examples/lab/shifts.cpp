// SPDX-License-Identifier: BSD-3-Clause
#include "shifts.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/data/partition/feature_shift.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/data/transform.hpp>
#include <tessera/io/image_npy.hpp>

#include "counts.hpp"
#include "nearest.hpp"

namespace lab {
namespace {

std::vector<tessera::Index> test_images(const tessera::data::FederatedDataset& clients) {
    std::vector<tessera::Index> all;
    for (const auto& share : clients.split().clients) all.insert(all.end(), share.test.begin(), share.test.end());
    return all;
}

tessera::data::Shift shift_named(const std::string& name) {
    try {
        return tessera::data::Shift::parse(name);
    } catch (const tessera::ConfigError& e) {
        throw tessera::ConfigError("--shifts " + name + ": " + e.what());
    }
}

// The clients' own test images.
std::vector<ShiftedImages> made_shifts(const Options& o, const tessera::data::FederatedDataset& clients,
                                       const tessera::data::Dataset& like) {
    using namespace tessera::data;
    std::vector<Shift> asked;
    for (const auto& name : o.shifts) {
        if (name == "none") continue;
        if (name != "all") asked.push_back(shift_named(name));
        else
            for (const auto& each : all_shifts()) asked.push_back(each);
    }
    const std::size_t width = like.examples().width;
    const auto shape = square_images(width);
    if (shape.size() == 0 && !asked.empty())
        throw tessera::ConfigError("--shifts needs square images of one or three channels; the data has " +
                                   std::to_string(width) + " features");
    std::vector<ShiftedImages> all;
    for (const auto& each : asked)
        all.push_back({each.name(), [like, shape, each, of = test_images(clients)] {
                           try {
                               return shifted(like, shape, each, of);
                           } catch (const tessera::ConfigError&) {
                               throw tessera::ConfigError(
                                   "--shifts " + each.name() +
                                   ": what is black and what is white is known of bytes with --normalise standard, "
                                   "unit or none and without feature shifts, and of numbers from 0 to 1 as they are");
                           }
                       }});
    return all;
}

// The files of --shift-dir, read as the clients' images are.
std::vector<ShiftedImages> shifts_in_files(const Options& o, const tessera::data::Dataset& like) {
    using tessera::ConfigError;
    const auto known = tessera::io::list_shifts(o.shift_dir);
    if (known.empty())
        throw ConfigError("--shift-dir " + o.shift_dir + ": there is no file NAME.npy of shifted images");
    constexpr std::size_t severities = 5;
    std::vector<ShiftedImages> all;
    const auto add = [&](const std::string& name, std::size_t severity) {
        all.push_back({name + ":" + std::to_string(severity), [o, like, name, severity] {
                           const auto& as = like.examples();
                           const auto images =
                               tessera::io::read_shift(o.shift_dir, name, severity, severities, as.classes);
                           const std::string where = "--shift-dir " + o.shift_dir + ": " + name + ".npy has ";
                           if (images.examples().width != as.width)
                               throw ConfigError(where + std::to_string(images.examples().width) +
                                                 " features, the clients' data " + std::to_string(as.width));
                           if (*o.normalise == "each") return tessera::data::standardised_each(images);
                           if (images.examples().storage != as.storage)
                               throw ConfigError(where +
                                                 "images that cannot be read as the clients' are: both must be bytes, "
                                                 "or both numbers that --normalise and --partition leave as they are");
                           return images.normalised(as.shift, as.scale);
                       }});
    };
    for (const auto& asked : o.shifts) {
        if (asked == "none") continue;
        if (asked == "all") {
            for (const auto& name : known)
                for (std::size_t severity = 1; severity <= severities; ++severity) add(name, severity);
            continue;
        }
        const auto colon = asked.rfind(':');
        const auto name = asked.substr(0, colon);
        const auto severity = colon == asked.npos ? std::nullopt : count_in(asked.substr(colon + 1));
        if (!severity || *severity < 1 || *severity > severities)
            throw ConfigError("--shifts " + asked + ": write NAME:SEVERITY with a severity from 1 to 5");
        if (std::ranges::find(known, name) == known.end())
            throw ConfigError("--shifts " + asked + ": " + o.shift_dir + " has no " + name + ".npy" +
                              perhaps(name, known));
        add(name, *severity);
    }
    return all;
}

}  // namespace

std::vector<ShiftedImages> shifts_of(const Options& o, const tessera::data::FederatedDataset& clients,
                                     const tessera::data::Dataset& like) {
    auto all = o.shift_dir.empty() ? made_shifts(o, clients, like) : shifts_in_files(o, like);
    for (auto at = all.begin(); at != all.end(); ++at)
        if (std::find_if(all.begin(), at, [&](const auto& other) { return other.name == at->name; }) != at)
            throw tessera::ConfigError("--shifts: " + at->name + " stands twice");
    return all;
}

void check_shifts(const Options& o, const tessera::data::FederatedDataset& clients,
                  const tessera::data::Dataset& like) {
    if (const auto asked = shifts_of(o, clients, like); !asked.empty()) asked[0].make();
}

}  // namespace lab

// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include <tessera/io/file.hpp>
#include <tessera/report/extra.hpp>

#include "commands.hpp"
#include "outputs.hpp"
#include "page/page.hpp"
#include "page/run_reader.hpp"

namespace lab {

int report(const ReportOptions& o) {
    std::string place = o.out;
    if (place.empty()) place = (o.file.ends_with(".json") ? o.file.substr(0, o.file.size() - 5) : o.file) + ".html";
    std::vector<Place> read{{"a run", o.file}};
    if (!o.figures.empty()) read.push_back({"--figures", o.figures});
    check_places({{"--out", place}}, read);
    tessera::io::check_writable(place);
    tessera::io::sweep_beside(place);
    const auto figures = o.figures.empty() ? std::vector<tessera::report::Extra>() : figures_in(o.figures);
    write_text(place, page::page_of(runs_in(o.file), o.title, figures));
    return 0;
}

}  // namespace lab

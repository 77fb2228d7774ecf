// SPDX-License-Identifier: BSD-3-Clause
// The style and the script inside every page: page.css and page.js, which the build compiles in. The script adds tooltips,
// switches for the series, zoom for the curves, and buttons that save a figure as SVG and its numbers as CSV; the page is
// whole without it. Colours are after Okabe and Ito, which stay apart under the common forms of colour blindness; each
// scheme shifts them until lines keep a contrast of 3 to 1 with its ground.
#pragma once

#include <string_view>

namespace lab::page {

extern const std::string_view style, script;

}  // namespace lab::page

// SPDX-License-Identifier: Apache-2.0
// Precompiled: what many files of the library and the tools include. Every file still includes
// what it uses: tools/check_includes.py (meson suite "style"), which has a list of names for every
// header that is here or in tests.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

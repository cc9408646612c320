// SPDX-License-Identifier: Apache-2.0
// Precompiled: what many files of the library and the tools include. Every file still includes
// what it uses; a build with -Db_pch=false shows what does not, as one step of
// .ci/run does for the sources that it compiles.
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

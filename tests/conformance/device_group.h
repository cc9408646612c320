// SPDX-License-Identifier: Apache-2.0
// A group engine for buffers on a GPU, behind one for buffers on the host: every call's input is
// copied to the device before, and its output back after it. So that the suite, which knows host
// memory, tests it.
#pragma once

#include <functional>

#include "transports/cuda/device.h"
#include "transports/group.h"

namespace echelon::test {

using MakeDeviceGroup = std::function<std::unique_ptr<GroupMedium>(const DeviceContext&)>;

// On device 0 of the process that calls it.
std::unique_ptr<GroupMedium> behind_host_memory(const MakeDeviceGroup& make);

}  // namespace echelon::test

// SPDX-License-Identifier: Apache-2.0
// Things that ranks of one host do to each other, tried by a process of its own, so that a system
// call filter that kills, or a library that crashes, harms nobody else.
#pragma once

#include <functional>

#include "tools/doctor/view.h"

namespace echelon::doctor {

// `body` runs in a child without stdout and stderr. It returns an errno below 256 and may say
// something.
Attempt attempt(const std::function<int(std::string& said)>& body);

Attempt try_memfd();                // make, size, seal and map an anonymous file
Attempt try_descriptor_of_other();  // a child opens a descriptor of this process through /proc
Attempt try_memory_of_other();      // a child reads this process's memory: ranks are no parents
                                    // of each other, which some kernels allow more

Attempt try_cuda();                         // says "12040" for CUDA 12.4, or why there is none
Attempt try_nccl(const std::string& path);  // says "21803" for 2.18.3, or why there is none
Attempt try_nvml();                         // says the driver's version, or why there is none

// Says what UCX finds, as resources_from() reads it.
Attempt try_ucx_resources();
std::vector<UcxResource> resources_from(const std::string& said);
// Opens UCX; says why it cannot be.
Attempt try_ucx(const UcxConfig& config);

}  // namespace echelon::doctor

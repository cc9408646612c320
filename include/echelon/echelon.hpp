// SPDX-License-Identifier: Apache-2.0
// RAII over the C ABI.
#pragma once
#include "echelon/echelon.h"

// SPDX-License-Identifier: Apache-2.0
// Precompiled: what many tests include.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "pch/library.h"

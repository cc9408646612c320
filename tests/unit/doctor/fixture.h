// SPDX-License-Identifier: Apache-2.0
// A host as a check sees it, made by hand.
#pragma once

#include <string>

#include "tools/doctor/checks.h"

namespace echelon::doctor {

// A host with nothing wrong, and a folder for its files below /proc and /sys.
class FakeHost {
 public:
  FakeHost();
  ~FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  void put(const std::string& path, const std::string& text) const;
  Nic& add_nic(const std::string& name, double gigabits, const std::string& address);

  View view;
  Probes& probes() { return view.probes; }
};

// "broken: found", or "ok: found" and so on; fails the test when a finding that is not ok lacks a
// reason or a remedy, or one that is ok has them.
std::string said(const Finding& finding);

bool contains(const std::string& text, const std::string& part);

}  // namespace echelon::doctor

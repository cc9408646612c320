// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_quiet.h"

#include <signal.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <utility>

namespace echelon {
namespace {

thread_local UcxQuiet* current = nullptr;

ucs_log_func_rc_t on_message(const char*, unsigned, const char*, ucs_log_level_t level,
                             const ucs_log_component_config_t*, const char* format, va_list args) {
  if (current == nullptr || level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  char text[300];
  std::vsnprintf(text, sizeof text, format, args);
  current->keep(text);
  return UCS_LOG_FUNC_RC_STOP;
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(on_message); });
}

}  // namespace

void release_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    const UcxQuiet quiet;  // it warns about those that it did not take
    for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(number);
  });
}

UcxQuiet::UcxQuiet() : outer_(std::exchange(current, this)) { install_once(); }

UcxQuiet::~UcxQuiet() { current = outer_; }

void UcxQuiet::keep(const char* text) {
  if (text_.empty()) text_ = text;
}

}  // namespace echelon

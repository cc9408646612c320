// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "lib/base/join.h"

namespace echelon::tools {
namespace {

template <typename T>
std::optional<T> to_number(const std::string& text) {
  T value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

template <typename T>
T number_from(const std::string& text, T least, T most, const char* kind) {
  const std::optional<T> value = to_number<T>(text);
  // "nan" is in no range.
  if (value && *value >= least && *value <= most) return *value;
  throw std::invalid_argument(
      fmt::format("\"{}\" is no {} from {} to {}", text, kind, least, most));
}

std::pair<std::string, std::string> names_and_value(const std::string& spelling) {
  const std::size_t space = spelling.find(' ');
  return {spelling.substr(0, space), spelling.substr(space + 1)};
}

// `parse`, whose errors become CLI11's and name the option.
Parse named(const std::string& names, const Parse& parse) {
  const std::string shown = names.substr(0, names.find(',', names.find(',') + 1));
  return [parse, shown](const std::string& text) {
    try {
      parse(text);
    } catch (const std::invalid_argument& e) {
      throw CLI::ValidationError(shown, e.what());
    }
  };
}

// The left column of the help: names and values as they were spelt, with nothing of CLI11's own.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    // What a flag stands for without a value: "--traffic{-}".
    const std::size_t otherwise = name.find('{');
    return otherwise == std::string::npos ? name : name.substr(0, otherwise) + "[=FILE]";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string& value = option->get_option_text();
    return (value.empty() ? "" : " " + value) + (option->get_required() ? " (required)" : "");
  }
};

// "" or what is wrong with the first word of a program that has commands.
std::string problem_with_command(const CLI::App& app, const std::string& word) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (word == command->get_name()) return "";
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (known.empty() || word == "-h" || word == "--help" || word == "--version") return "";
  const std::string expected =
      fmt::format("expected one of {}; see {} --help", known, app.get_name());
  if (word.empty()) return "no command; " + expected;
  return fmt::format("{} \"{}\"; {}",
                     word.starts_with('-') ? "a command comes first, not" : "unknown command", word,
                     expected);
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Option Command::option(const std::string& spelling, const std::string& help, const Parse& parse) {
  const auto [names, value] = names_and_value(spelling);
  return Option(*app_->add_option_function<std::string>(names, named(names, parse), help)
                     ->option_text(value));
}

Option Command::repeated(const std::string& spelling, const std::string& help, const Parse& parse) {
  const auto [names, value] = names_and_value(spelling);
  const auto take = [parse = named(names, parse)](const std::vector<std::string>& texts) {
    std::ranges::for_each(texts, parse);
  };
  return Option(*app_->add_option_function<std::vector<std::string>>(names, take, help)
                     ->option_text(value)
                     ->allow_extra_args(false)
                     ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Option Command::flag(const std::string& names, const std::string& help,
                     const std::function<void()>& given) {
  return Option(*app_->add_flag_callback(names, given, help));
}

Option Command::flag(const std::string& names, const std::string& help, bool& target) {
  return Option(*app_->add_flag(names, target, help));
}

Option Command::flag_or_file(const std::string& name, const std::string& otherwise,
                             std::string& target, const std::string& help) {
  return Option(*app_->add_flag(fmt::format("{}{{{}}}", name, otherwise), target, help));
}

void Command::internal_flag(const std::string& name, bool& target) {
  app_->add_flag(name, target)->group("");
}

void Command::examples(const std::string& text) { app_->footer(text); }

void Command::action(const std::function<int()>& body) {
  app_->callback([body] {
    const int status = body();
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

void Command::ends_at_first_word() { app_->prefix_command(); }

std::vector<std::string> Command::rest() const { return app_->remaining(); }

Program::Program(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->option_defaults()->take_last();
  app_->failure_message([this](const CLI::App*, const CLI::Error& error) {
    return fmt::format("{}: {}\n", speaker(), error.what());
  });
}

Program::~Program() = default;

Command Program::itself() { return Command(*app_); }

Command Program::command(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  return Command(*app_->add_subcommand(name, description));
}

void Program::version(const std::string& text) { app_->set_version_flag("--version", text); }

int Program::run(int argc, char** argv) {
  const std::string problem = problem_with_command(*app_, argc > 1 ? argv[1] : "");
  if (!problem.empty()) {
    fmt::print(stderr, "{}: {}\n", app_->get_name(), problem);
    return 2;
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app_->exit(e) == 0 ? 0 : 2;
  } catch (const UsageError& e) {
    fmt::print(stderr, "{}: {}\n", speaker(), e.what());
    return 2;
  }
  return 0;
}

std::string Program::speaker() const {
  const auto given = app_->get_subcommands();
  return given.empty() ? app_->get_name() : app_->get_name() + " " + given[0]->get_name();
}

Parse into(std::string& target) {
  return [&target](const std::string& text) { target = text; };
}

Parse whole_number(int& target, int least, int most) {
  return [&target, least, most](const std::string& text) {
    target = number_from(text, least, most, "whole number");
  };
}

Parse number(double& target, double least, double most) {
  return [&target, least, most](const std::string& text) {
    target = number_from(text, least, most, "number");
  };
}

Parse yes_or_no(bool& target) { return into(target, one_of<bool>({{"1", true}, {"0", false}})); }

Parse one_word(std::string& target, std::initializer_list<const char*> words) {
  return [&target,
          known = std::vector<std::string>(words.begin(), words.end())](const std::string& text) {
    if (std::ranges::count(known, text) == 0)
      throw std::invalid_argument(fmt::format("\"{}\" is none of {}", text, joined(known, ", ")));
    target = text;
  };
}

double parse_seconds(const std::string& text) {
  const std::optional<double> seconds = to_number<double>(text);
  if (seconds && std::isfinite(*seconds) && *seconds > 0) return *seconds;
  throw std::invalid_argument(fmt::format("\"{}\" is no number of seconds > 0", text));
}

}  // namespace echelon::tools

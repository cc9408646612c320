// SPDX-License-Identifier: Apache-2.0
// How commands declare their options. CLI11 stays behind this, in one file: wherever its headers
// are read, compiling takes ten seconds.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace echelon::tools {

// What was asked for cannot be: one line on standard error, and exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Takes the text of an option's value; throws std::invalid_argument for one that is wrong.
using Parse = std::function<void(const std::string&)>;

// One option, as long as its program lives.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  Option& required();
  Option& excludes(const Option& other);
  bool given() const;

 private:
  CLI::Option* option_;
};

// A command, as long as its program lives. A spelling is the names and how the help shows the
// value: "-n,--ranks N". What the help says of a default is part of the text. Targets must outlive
// the program's run.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  // Of an option that is given twice the last one counts.
  Option option(const std::string& spelling, const std::string& help, const Parse& parse);
  // Every one counts.
  Option repeated(const std::string& spelling, const std::string& help, const Parse& parse);
  Option flag(const std::string& names, const std::string& help,
              const std::function<void()>& given);
  Option flag(const std::string& names, const std::string& help, bool& target);
  // A flag that may be given as --name=FILE; without one `target` becomes `otherwise`.
  Option flag_or_file(const std::string& name, const std::string& otherwise, std::string& target,
                      const std::string& help);
  // For Echelon's own use: the help does not show it.
  void internal_flag(const std::string& name, bool& target);

  void examples(const std::string& text);  // at the end of the help
  // What is done once all options are known; the result is the exit status. May throw UsageError.
  void action(const std::function<int()>& body);

  void ends_at_first_word();  // which is no option: it and the rest are another program's
  std::vector<std::string> rest() const;

 private:
  CLI::App* app_;
};

// A program whose first word is a command, or one without commands.
class Program {
 public:
  Program(const std::string& name, const std::string& description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command itself();
  Command command(const std::string& name, const std::string& description);
  void version(const std::string& text);
  // The exit status: 2 for a command line that is wrong, after one line about it on standard error.
  // Lets through what a command throws but UsageError.
  int run(int argc, char** argv);
  std::string speaker() const;  // "echelon run", as far as a command has been given

 private:
  std::unique_ptr<CLI::App> app_;
};

// ---- values -------------------------------------------------------------------------------------

template <typename T>
Parse into(T& target, std::function<T(const std::string&)> parse) {
  return [&target, parse = std::move(parse)](const std::string& text) { target = parse(text); };
}

Parse into(std::string& target);
Parse whole_number(int& target, int least, int most);
Parse number(double& target, double least, double most);
Parse yes_or_no(bool& target);  // 1 or 0
// One of these, as it stands.
Parse one_word(std::string& target, std::initializer_list<const char*> words);

double parse_seconds(const std::string& text);  // a number > 0

template <typename T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

// What one of several words stands for.
template <typename T>
std::function<T(const std::string&)> one_of(Choices<T> list) {
  return [choices = std::vector(list)](const std::string& text) {
    std::string words;
    for (const auto& [word, value] : choices) {
      if (text == word) return value;
      words += fmt::format("{}{}", words.empty() ? "" : ", ", word);
    }
    throw std::invalid_argument(fmt::format("\"{}\" is none of {}", text, words));
  };
}

}  // namespace echelon::tools

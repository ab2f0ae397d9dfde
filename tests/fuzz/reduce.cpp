#include "reduce.h"

#include <algorithm>
#include <stdexcept>

#include "generate.h"

namespace precast::fuzz {
namespace {

std::string bits(const std::vector<bool>& v) {
  std::string text;
  for (bool b : v) text += b ? '1' : '0';
  return text;
}
std::vector<bool> parse_bits(const std::string& text, size_t n) {
  if (text.size() != n || text.find_first_not_of("01") != std::string::npos)
    throw std::invalid_argument("'" + text + "' does not fit the program: expected " + std::to_string(n) +
                                " digits 0 or 1");
  std::vector<bool> v;
  for (char c : text) v.push_back(c == '1');
  return v;
}

}  // namespace

Reduction whole(const Program& p) {
  return {p.seed, std::vector<bool>(p.steps.size(), true), std::vector<bool>(p.results.size(), true), p.backward};
}

std::string print(const Reduction& r) {
  return std::to_string(r.seed) + ":" + bits(r.steps) + ":" + bits(r.results) + (r.backward ? ":b" : ":");
}

Program parse_program(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == ':')
      parts.emplace_back();
    else
      parts.back() += c;
  if (parts[0].empty() || parts[0].find_first_not_of("0123456789") != std::string::npos ||
      (parts.size() != 1 && parts.size() != 4))
    throw std::invalid_argument("'" + text + "' names no program: expected SEED, or SEED:STEPS:RESULTS:b");
  const Program p = generate(std::stoull(parts[0]));
  if (parts.size() == 1) return p;
  const Reduction r{p.seed, parse_bits(parts[1], p.steps.size()), parse_bits(parts[2], p.results.size()),
                    parts[3] == "b"};
  const auto part = apply(p, r);
  if (!part) throw std::invalid_argument("'" + text + "' keeps a step without what it needs");
  return *part;
}

std::optional<Program> apply(const Program& p, const Reduction& r) {
  Program part = p;
  part.steps.clear();
  part.results.clear();
  part.inexact.resize(p.inputs.size());
  part.backward = r.backward;
  std::vector<int> renumbered(static_cast<size_t>(count_values(p, p.steps.size())), -1);
  auto old_value = static_cast<int>(p.inputs.size()), new_value = old_value;
  for (int i = 0; i < old_value; ++i) renumbered[static_cast<size_t>(i)] = i;
  bool complete = true;
  const auto renumber = [&](Ref& ref) {
    if (ref.value < 0) return;
    ref.value = renumbered[static_cast<size_t>(ref.value)];
    complete &= ref.value >= 0;
  };
  for (size_t i = 0; i < p.steps.size(); ++i) {
    Step step = p.steps[i];
    if (r.steps[i]) {
      for (Arg& arg : step.args) {
        if (auto* ref = std::get_if<Ref>(&arg)) renumber(*ref);
        if (auto* list = std::get_if<std::vector<Ref>>(&arg))
          for (Ref& ref : *list) renumber(ref);
      }
      for (int out = 0; out < step.n_outs; ++out) {
        renumbered[static_cast<size_t>(old_value + out)] = new_value++;
        part.inexact.push_back(p.inexact[static_cast<size_t>(old_value + out)]);
      }
      part.steps.push_back(step);
    }
    old_value += step.n_outs;
  }
  for (size_t i = 0; i < p.results.size(); ++i) {
    if (!r.results[i]) continue;
    Ref ref{p.results[i]};
    renumber(ref);
    part.results.push_back(ref.value);
  }
  if (!complete || part.results.empty()) return std::nullopt;
  return part;
}

}  // namespace precast::fuzz

#include "jit/options.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>

namespace precast {
namespace {

using jit::Settings;

struct OptionRow {
  const char* name;
  OptionValue value;  // by default
};
const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = {
      {"epilogue_fusion", true},      {"fallback_random", false},   {"max_autotune", false},
      {"reuse_outputs", false},       {"shape_padding", false},     {"trace.enabled", false},
      {"trace.graph_diagram", false}, {"triton.cudagraphs", false},
  };
  return rows;
}
const std::map<std::string, std::map<std::string, OptionValue>>& modes() {
  static const std::map<std::string, std::map<std::string, OptionValue>> table = {
      {"default", {}},
      {"reduce-overhead", {{"reuse_outputs", true}}},
      {"max-autotune", {{"max_autotune", true}, {"reuse_outputs", true}}},
      {"max-autotune-no-cudagraphs", {{"max_autotune", true}}},
  };
  return table;
}

struct BackendRow {
  BackendFunction function;  // empty: one of ours
  std::vector<std::string> tags;
};
std::mutex backends_mutex;
std::map<std::string, BackendRow>& backends() {
  static std::map<std::string, BackendRow> table = {
      {"inductor", {}}, {"eager", {{}, {"debug"}}}, {"aot_eager", {{}, {"debug"}}}};
  return table;
}
std::string& default_backend() {
  static std::string name = "inductor";
  return name;
}

std::atomic<int> cache_size_limit = 64;
std::atomic<int> stance_now = 0;
constexpr const char* kStances[] = {"default", "force_eager", "eager_on_recompile", "fail_on_recompile"};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

/// How many characters must change.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void unknown(const std::string& kind, const std::string& name, std::vector<std::string> names) {
  std::vector<std::string> near;
  for (const std::string& n : names)
    if (distance(n, name) <= std::max<size_t>(2, name.size() / 3) || n.find(name) != n.npos) near.push_back(n);
  throw std::invalid_argument("compile: unknown " + kind + " '" + name + "'; " +
                              (near.empty() ? "there are " + listed(names) : "did you mean " + listed(near) + "?"));
}

template <class Map>
std::vector<std::string> keys(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

std::string in_words(const OptionValue& v) {
  return std::visit(
      []<class T>(const T& x) -> std::string {
        if constexpr (std::is_same_v<T, std::string>)
          return x;
        else if constexpr (std::is_same_v<T, bool>)
          return x ? "true" : "false";
        else
          return std::to_string(x);
      },
      v);
}

void set_option(Settings& s, const std::string& name, const OptionValue& value) {
  const auto row = std::ranges::find(option_rows(), name, &OptionRow::name);
  if (row == option_rows().end()) {
    std::vector<std::string> names;
    for (const OptionRow& r : option_rows()) names.emplace_back(r.name);
    unknown("option", name, names);
  }
  if (value.index() != row->value.index())
    throw std::invalid_argument("compile: option '" + name + "' is " + in_words(value) + ", expected true or false");
  if (name == "triton.cudagraphs" && std::get<bool>(value))
    throw std::invalid_argument(
        "compile: option 'triton.cudagraphs' is for CUDA devices, and this is a CPU; mode \"reduce-overhead\" reuses "
        "output memory here");
  s.values[name] = value;
}

}  // namespace

namespace jit {

Settings settle(const CompileOptions& o) {
  Settings s;
  s.fullgraph = o.fullgraph, s.disable = o.disable, s.async = o.async, s.dynamic = o.dynamic;
  s.verify_every = o.verify_every;
  if (o.verify_every < 0)
    throw std::invalid_argument("compile: verify_every is " + std::to_string(o.verify_every) + ", expected 0 or more");
  for (const OptionRow& row : option_rows()) s.values[row.name] = row.value;
  if (o.mode && !o.options.empty())
    throw std::invalid_argument("compile: mode and options are both given; a mode is a set of options, so give one");
  if (o.mode) {
    const auto mode = modes().find(*o.mode);
    if (mode == modes().end()) unknown("mode", *o.mode, keys(modes()));
    for (const auto& [name, value] : mode->second) s.values[name] = value;
  }
  for (const auto& [name, value] : o.options) set_option(s, name, value);
  if (o.options.contains("epilogue_fusion") && s.flag("epilogue_fusion") && !o.options.contains("max_autotune"))
    throw std::invalid_argument("compile: option 'epilogue_fusion' needs 'max_autotune' as well");

  const std::lock_guard lock(backends_mutex);
  s.backend = o.backend ? o.backend->name() : default_backend();
  if (o.backend && o.backend->function()) {
    s.function = o.backend->function();
  } else {
    const auto row = backends().find(s.backend);
    if (row == backends().end()) unknown("backend", s.backend, keys(backends()));
    s.function = row->second.function;
  }
  s.key = s.backend + (s.fullgraph ? " fullgraph" : "") + (s.async ? " async" : "") +
          " dynamic=" + (s.dynamic ? *s.dynamic ? "true" : "false" : "auto") +
          " verify_every=" + std::to_string(s.verify_every);
  for (const auto& [name, value] : s.values) s.key += " " + name + "=" + in_words(value);
  return s;
}

StanceKind stance() { return static_cast<StanceKind>(stance_now.load(std::memory_order_relaxed)); }

}  // namespace jit

std::vector<std::string> list_backends(std::optional<std::vector<std::string>> exclude_tags) {
  const std::lock_guard lock(backends_mutex);
  std::vector<std::string> names;
  for (const auto& [name, row] : backends()) {
    const auto excluded = [&](const std::string& tag) {
      return exclude_tags && std::ranges::find(*exclude_tags, tag) != exclude_tags->end();
    };
    if (!std::ranges::any_of(row.tags, excluded)) names.push_back(name);
  }
  return names;
}
void register_backend(const std::string& name, BackendFunction function) {
  if (!function) throw std::invalid_argument("register_backend: the function of '" + name + "' is empty");
  const std::lock_guard lock(backends_mutex);
  if (!backends().try_emplace(name, BackendRow{std::move(function), {}}).second)
    throw std::invalid_argument("register_backend: there is a backend '" + name + "' already");
}
void set_default_backend(const std::string& name) {
  const std::lock_guard lock(backends_mutex);
  if (!backends().contains(name)) unknown("backend", name, keys(backends()));
  default_backend() = name;
}
std::string get_default_backend() {
  const std::lock_guard lock(backends_mutex);
  return default_backend();
}

std::map<std::string, OptionValue> list_options() {
  std::map<std::string, OptionValue> options;
  for (const OptionRow& row : option_rows()) options[row.name] = row.value;
  return options;
}
std::map<std::string, std::map<std::string, OptionValue>> list_mode_options() { return modes(); }

void set_cache_size_limit(int n) {
  if (n < 1) throw std::invalid_argument("set_cache_size_limit: " + std::to_string(n) + ", expected 1 or more");
  cache_size_limit = n;
}
int get_cache_size_limit() { return cache_size_limit; }

Stance::Stance(const std::string& name) {
  const auto at = std::ranges::find(kStances, name);
  if (at == std::end(kStances)) unknown("stance", name, {std::begin(kStances), std::end(kStances)});
  before_ = stance_now.exchange(static_cast<int>(at - std::begin(kStances)));
}
Stance::~Stance() {
  if (restores_) stance_now = before_;
}

}  // namespace precast

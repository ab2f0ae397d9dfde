#include "sized_forms.h"

#include <regex>

#include "ir/verify.h"

namespace precast::host_torch {

namespace {

using ir::Size;

constexpr ir::Symbol kSize{.id = 0, .hint = 5};
constexpr size_t kSamples = 4;

enum class Which { first_dims, all_dims, first_operand };

// The line with `to` in place of the size `from`.
std::string resized(const std::string& body, Which which, const std::string& from, int64_t to) {
  static const std::regex operand(R"(\b((?:u8|i8|i16|i32|i64|f16|f32|f64|bf16|bool|c64|c128)\[)([\d,]*)\])");
  std::string text;
  auto at = body.cbegin();
  for (std::sregex_iterator m(body.begin(), body.end(), operand), end; m != end; ++m) {
    text.append(at, (*m)[0].first);
    at = (*m)[0].second;
    std::stringstream numbers((*m)[2]);
    std::string sizes;
    size_t dim = 0;
    for (std::string n; std::getline(numbers, n, ','); ++dim) {
      const bool here = n == from && (which == Which::all_dims || dim == 0) &&
                        (which != Which::first_operand || text.find('[') == text.npos);
      sizes += (dim ? "," : "") + (here ? std::to_string(to) : n);
    }
    text += (*m)[1].str() + sizes + "]";
  }
  return text.append(at, body.cend());
}

// The polynomial of the second degree through all samples; a number where they are one.
std::optional<Size> fit(const std::vector<int64_t>& s, const std::vector<int64_t>& v) {
  const int64_t d1 = v[1] - v[0], d2 = v[2] - v[0], s1 = s[1] - s[0], s2 = s[2] - s[0];
  const int64_t above = d2 * s1 - d1 * s2, below = s1 * s2 * (s[2] - s[1]);
  if (above % below != 0) return {};
  const int64_t c = above / below, rest = d1 - c * s1 * (s[1] + s[0]);
  if (rest % s1 != 0) return {};
  const int64_t b = rest / s1, a = v[0] - b * s[0] - c * s[0] * s[0];
  for (size_t i = 0; i < s.size(); ++i)
    if (a + b * s[i] + c * s[i] * s[i] != v[i]) return {};
  const Size u = Size::symbol(kSize);
  return a + b * u + c * u * u;
}

// What `get` finds in each graph, as expressions.
template <class Get>
bool merge(ir::Dims& into, const std::vector<Recorded>& all, const std::vector<int64_t>& sizes, Get&& get) {
  std::vector<std::vector<int64_t>> lists;
  for (const Recorded& r : all) {
    const std::optional<std::vector<int64_t>> found = get(r.graph);
    if (!found || found->size() != (lists.empty() ? found->size() : lists[0].size())) return false;
    lists.push_back(*found);
  }
  into.clear();
  for (size_t i = 0; i < lists[0].size(); ++i) {
    std::vector<int64_t> values;
    for (const auto& list : lists) values.push_back(list[i]);
    const auto size = fit(sizes, values);
    if (!size) return false;
    into.push_back(*size);
  }
  return true;
}

std::optional<ir::Graph> merged(const std::vector<Recorded>& all, const std::vector<int64_t>& sizes) {
  ir::Graph g = all[0].graph;
  g.symbols = {kSize};
  for (const Recorded& r : all)
    if (r.graph.values.size() != g.values.size()) return {};
  for (size_t v = 0; v < g.values.size(); ++v) {
    const auto list = [&](auto member) {
      return [v, member](const ir::Graph& one) { return std::optional(ir::numbers(one.values[v].type.*member)); };
    };
    ir::Type& t = g.values[v].type;
    if (!merge(t.sizes, all, sizes, list(&ir::Type::sizes)) || !merge(t.strides, all, sizes, list(&ir::Type::strides)))
      return {};
  }
  if (ir::find_fault(g)) return {};
  return g;
}

std::optional<SizedForm> try_form(const Case& c, Which which, int64_t size) {
  SizedForm form;
  std::vector<Recorded> all;
  for (const int64_t more : {1, 2, 5, 9}) {
    Case other = c;
    other.body = resized(c.body, which, std::to_string(size), size + more);
    auto recorded = try_record(other, 1);
    if (!recorded) return {};
    form.sizes.push_back(size + more);
    form.at.push_back(other), all.push_back(std::move(*recorded));
  }
  auto graph = merged(all, form.sizes);
  if (!graph || !ir::is_symbolic(graph->values[0].type.sizes)) return {};
  form.graph = std::move(*graph);
  return form;
}

}  // namespace

std::optional<SizedForm> sized_form(const Case& c) {
  static const std::regex first(R"([a-z]\d+\[(\d+))");
  std::smatch m;
  if (c.body.find("]{") != c.body.npos || !std::regex_search(c.body, m, first)) return {};
  const int64_t size = std::stoll(m[1]);
  if (size == 0) return {};
  for (const Which which : {Which::first_dims, Which::all_dims, Which::first_operand})
    if (auto form = try_form(c, which, size)) return form;
  return {};
}

}  // namespace precast::host_torch

#include "open.h"

#include <algorithm>
#include <set>

#include "outcome.h"

namespace precast::fuzz {
namespace {

bool may_be_marked(const Program& p, size_t i) {
  const Input& in = p.inputs[i];
  for (const Input& other : p.inputs)
    if (other.alias_of == static_cast<int>(i)) return false;
  return in.role == Role::user && in.alias_of < 0 && in.layout != Layout::transposed && in.layout != Layout::sliced &&
         in.layout != Layout::expanded;
}

/// Dims of this size; of a few kinds of choice one.
std::vector<OpenDim> dims_of_size(Random& random, const Program& p, int64_t size, int& group) {
  const bool leading = random.chance(0.3), one = random.chance(0.2), apart = random.chance(0.3);
  std::vector<OpenDim> found;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    for (size_t d = 0; may_be_marked(p, i) && d < p.inputs[i].sizes.size(); ++d)
      if (p.inputs[i].sizes[d] == size && (!leading || d == 0))
        found.push_back({i, static_cast<int64_t>(d), group, !apart});
  if (one && !found.empty()) found = {random.choose(found)};
  if (apart)
    for (OpenDim& o : found) o.group = group++;
  else
    ++group;
  return found;
}

std::vector<OpenDim> random_choice(Random& random, const Program& p) {
  std::set<int64_t> sizes;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    if (may_be_marked(p, i))
      for (const int64_t s : p.inputs[i].sizes)
        if (s > 1 || random.chance(0.05)) sizes.insert(s);
  std::vector<OpenDim> all;
  int group = 0;
  for (int64_t n = random.chance(0.3) ? 2 : 1; n > 0 && !sizes.empty(); --n) {
    const int64_t size = random.choose(std::vector(sizes.begin(), sizes.end()));
    sizes.erase(size);
    const auto some = dims_of_size(random, p, size, group);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Eager runs it where all open sizes are larger.
bool runs_at_other_sizes(const Program& p) {
  for (const int64_t more : {3, 8}) {
    std::vector<int64_t> sizes;
    for (const OpenDim& o : p.open) {
      const auto g = static_cast<size_t>(o.group);
      if (sizes.size() <= g) sizes.resize(g + 1);
      sizes[g] = p.inputs[o.input].sizes[static_cast<size_t>(o.dim)] + more;
    }
    if (!try_eager(resized(p, sizes), Variant::capture).error.empty()) return false;
  }
  return true;
}

}  // namespace

void prepare_open(Random& random, std::vector<Input>& inputs) {
  if (!inputs.empty() && inputs.back().alias_of >= 0) inputs.pop_back();
  std::vector<int64_t> sizes;
  for (const Input& in : inputs)
    for (const int64_t s : in.sizes)
      if (s > 1) sizes.push_back(s);
  if (sizes.empty()) return;
  const int64_t size = random.choose(sizes);
  for (Input& in : inputs) {
    if (std::find(in.sizes.begin(), in.sizes.end(), size) == in.sizes.end()) continue;
    in.role = Role::user;
    if (in.layout != Layout::channels_last) in.layout = Layout::contiguous;
  }
}

void choose_open(Random& random, Program& p) {
  for (int attempt = 0; attempt < 12; ++attempt) {
    auto choice = random_choice(random, p);
    if (choice.empty()) continue;
    p.open = std::move(choice);
    if (runs_at_other_sizes(p)) return;
  }
}

Program resized(const Program& p, const std::vector<int64_t>& sizes) {
  Program other = p;
  for (const OpenDim& o : p.open)
    other.inputs[o.input].sizes[static_cast<size_t>(o.dim)] = sizes[static_cast<size_t>(o.group)];
  return other;
}

std::string print_open(const Program& p) {
  std::string text;
  for (const OpenDim& o : p.open)
    text += (text.empty() ? "open: v" : ", v") + std::to_string(o.input) + " dim " + std::to_string(o.dim) +
            (o.shape_id ? " one size " : " size ") + std::to_string(o.group);
  return text.empty() ? "" : text + "\n";
}

}  // namespace precast::fuzz

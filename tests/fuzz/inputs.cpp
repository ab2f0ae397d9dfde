#include "inputs.h"

#include <ATen/ATen.h>

namespace precast::fuzz {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kMaxElements = 1 << 13;  // there is room for a value to grow
const std::vector<at::ScalarType> kDtypes = {at::kFloat, at::kFloat, at::kFloat,    at::kFloat, at::kDouble,
                                             at::kHalf,  at::kHalf,  at::kBFloat16, at::kLong,  at::kInt,
                                             at::kShort, at::kChar,  at::kByte,     at::kBool};

int64_t volume(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

class Maker {
 public:
  Maker(Random& random, std::optional<at::ScalarType> dtype) : random_(random), forced_(dtype) {
    // Few sizes a program, so that shapes often fit; lengths around the width of vectors, seldom a long one.
    for (int i = 0; i < 3; ++i) pool_.push_back(random.choose({1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}));
    if (random.chance(0.08)) pool_[0] = 0;
    if (random.chance(0.08)) pool_[1] = random.choose({100, 257, 513, 1000, 4097, 8000});
    palette_ = {random.choose(kDtypes), random.choose(kDtypes), at::kFloat};
    if (forced_) palette_ = {*forced_};
  }

  void several() {
    for (int64_t n = random_.integer(2, 5); n > 0; --n) {
      Sizes sizes;
      for (int64_t rank = random_.choose({0, 1, 1, 2, 2, 2, 3, 3, 4}); rank > 0; --rank)
        sizes.push_back(random_.chance(0.15) ? 1 : size());
      while (volume(sizes) > kMaxElements) sizes.pop_back();
      if (forced_ && !inputs.empty() && random_.chance(0.25)) sizes = inputs[0].sizes;
      add(random_.choose(palette_), sizes);
    }
  }

  /// An index into dimensions of `below` entries.
  void index(int64_t below, Sizes sizes, bool wide) {
    if (below == 0) return;
    Input in{wide ? at::kLong : at::kInt, std::move(sizes)};
    in.index_below = below;
    push(in);
  }
  void some_index() {
    Sizes sizes;
    for (int64_t rank = random_.integer(1, 2); rank > 0; --rank) sizes.push_back(std::min<int64_t>(size(), 16));
    index(size(), sizes, random_.chance(0.8));
  }
  void mask() { push({at::kBool, inputs[0].sizes}); }
  void alias() {
    const Input& first = inputs[0];
    const int64_t n = volume(first.sizes);
    if (first.role != Role::user || first.layout != Layout::contiguous || n <= 1) return;
    Input in{first.dtype, {n / 2}};
    in.alias_of = 0;
    inputs.push_back(in);
  }

  void themed(Theme theme) {
    const at::ScalarType dtype =
        random_.choose({at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kDouble, at::kHalf, at::kBFloat16});
    const auto length = [&] { return random_.choose({1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 48, 65}); };
    const auto few = [&] { return random_.choose({1, 2, 3, 4, 5, 8}); };
    switch (theme) {
      case Theme::none:
        return;
      case Theme::matrix: {
        const int64_t m = length(), k = length(), n = length();
        const bool whole = random_.chance(0.15);
        for (const Sizes& sizes : {Sizes{m, k}, random_.chance(0.5) ? Sizes{k, n} : Sizes{n, k}, Sizes{n}, Sizes{m, n}})
          add(whole ? at::kLong : dtype, sizes);
        return;
      }
      case Theme::batched: {
        const int64_t b = few(), m = length(), k = few() * 3, n = few() * 2;
        for (const Sizes& sizes : {Sizes{b, m, k}, Sizes{b, k, n}, Sizes{k, n}, Sizes{m, n}}) add(dtype, sizes);
        return;
      }
      case Theme::image: {
        const int64_t n = random_.integer(1, 3), c = few(), out = few() * (random_.chance(0.3) ? c : 1);
        const int64_t h = random_.integer(2, 9), w = random_.integer(2, 17), kernel = random_.integer(1, 3);
        add(dtype, {n, c, h, w});
        if (random_.chance(0.3)) inputs.back().layout = Layout::channels_last;
        add(dtype, {out, random_.chance(0.7) || out % c ? c : 1, kernel, random_.integer(1, 3)});
        for (const int64_t channels : {out, c, c}) add(dtype, {channels});
        return;
      }
      case Theme::attention: {
        const Sizes lead = random_.chance(0.7) ? Sizes{random_.integer(1, 2), random_.integer(1, 3)} : Sizes{few()};
        const int64_t queries = random_.integer(1, 9), keys = random_.integer(1, 17), d = random_.choose({1, 4, 8, 16});
        for (const int64_t length : {queries, keys, keys}) {
          Sizes sizes = lead;
          sizes.insert(sizes.end(), {length, d});
          add(dtype, sizes);
        }
        add(dtype, {queries, keys});
        return;
      }
      case Theme::rows: {
        const int64_t d = length(), rows = few();
        add(dtype, random_.chance(0.5) ? Sizes{rows, d} : Sizes{random_.integer(1, 3), rows, d});
        add(dtype, {d});
        add(dtype, {d});
        return;
      }
      case Theme::table: {
        const int64_t rows = random_.integer(1, 12), columns = few(), n = few();
        const at::ScalarType any = random_.choose(kDtypes);
        add(any, {rows, columns});
        add(any, {n, columns});
        add(any, {n});
        index(std::min(rows, columns), {n}, random_.chance(0.8));
        index(rows, {n, columns}, true);
        index(rows, {n}, true);
        index(columns, {rows}, true);
        return;
      }
      case Theme::cell: {
        const int64_t batch = random_.integer(1, 4), in = few(), hidden = few(), gates = random_.choose({1, 3, 4});
        for (const Sizes& sizes : {Sizes{batch, in}, Sizes{batch, hidden}, Sizes{gates * hidden, in},
                                   Sizes{gates * hidden, hidden}, Sizes{gates * hidden}})
          add(dtype, sizes);
        return;
      }
    }
  }

  std::vector<Input> inputs;

 private:
  int64_t size() { return random_.choose(pool_); }

  void push(Input in) {
    in.seed = random_.bits() % 1000;
    inputs.push_back(std::move(in));
  }

  void add(at::ScalarType dtype, Sizes sizes) {
    Input in{forced_.value_or(dtype), std::move(sizes)};
    const size_t rank = in.sizes.size();
    if (rank > 1 && random_.chance(0.2)) in.layout = Layout::transposed;
    if (rank > 0 && random_.chance(0.1)) in.layout = Layout::sliced;
    if (rank == 4 && random_.chance(0.15)) in.layout = Layout::channels_last;
    if (at::isFloatingType(in.dtype) && random_.chance(0.4))
      in.role = Role::parameter;
    else if (random_.chance(0.15))
      in.role = Role::buffer;
    else if (rank > 0 && random_.chance(0.04))
      in.layout = Layout::expanded;
    push(std::move(in));
  }

  Random& random_;
  std::optional<at::ScalarType> forced_;
  Sizes pool_;
  std::vector<at::ScalarType> palette_;
};

}  // namespace

std::vector<Input> random_inputs(Random& random, Theme theme, std::optional<at::ScalarType> dtype) {
  Maker maker(random, dtype);
  maker.themed(theme);
  if (theme == Theme::none || random.chance(0.3)) maker.several();
  if (random.chance(theme == Theme::table ? 0.1 : 0.4)) maker.some_index();
  if (random.chance(0.3)) maker.mask();
  if (random.chance(0.08)) maker.alias();
  return maker.inputs;
}

}  // namespace precast::fuzz

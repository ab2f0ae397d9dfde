// LSTM layers: sizes around the tiles, directions, states, and the backward that shares what the forward kept.
#include "check.h"

using compiled::check;
using compiled::Program;

namespace {

struct Sizes {
  int64_t steps, batch, inputs, units;
};
struct Options {
  bool reverse = false, biases = true;
  std::string state{};  // "1," for states of three dims
  std::string gradients = "grad_output=%7, grad_hy=%8, grad_cy=%9";
  int backwards = 1;
};

std::string shape(std::vector<int64_t> sizes, const std::string& first = "") {
  std::string text = "f32[" + first;
  for (size_t d = 0; d < sizes.size(); ++d) text += (d > 0 ? "," : "") + std::to_string(sizes[d]);
  return text + "]";
}

/// Forward alone, or with backwards.
std::string text(const Sizes& s, const Options& l) {
  const auto n = [](int i) { return "%" + std::to_string(i); };
  const std::string x = shape({s.steps, s.batch, s.inputs}), w0 = shape({4 * s.units, s.inputs});
  const std::string w1 = shape({4 * s.units, s.units}), b = shape({4 * s.units});
  const std::string h = shape({s.batch, s.units}, l.state), y = shape({s.steps, s.batch, s.units});
  const std::string flag[] = {"false", "true"};
  std::string t = "graph(%0: " + x + ", %1: " + w0 + ", %2: " + w1 + ", %3: " + (l.biases ? b : w0) +
                  ", %4: " + (l.biases ? b : w1) + ", %5: " + h + ", %6: " + h + ", %7: " + y + ", %8: " + h +
                  ", %9: " + h + ") {\n";
  const std::string common = "mode=2, hidden_size=" + std::to_string(s.units) +
                             ", num_layers=1, has_biases=" + flag[l.biases] +
                             ", bidirectional=false, batch_first=false, batch_sizes=int[], reverse=" + flag[l.reverse];
  t += "%10: " + y + ", %11: " + h + ", %12: " + h +
       ", %13: u8[64] = aten::mkldnn_rnn_layer(input=%0, weight0=%1, weight1=%2, weight2=%3, weight3=%4, hx_=%5, "
       "cx_=%6, " +
       common + ", train=true)\n";
  std::string results = "%10, %11, %12";
  for (int k = 0; k < l.backwards; ++k) {
    const int o = 20 + 10 * k;
    const std::string types[] = {x, w0, w1, b, b, h, h};
    for (int i = 0; i < 7; ++i) {
      t += (i ? ", " : "") + n(o + i) + ": " + types[i];
      results += ", " + n(o + i);
    }
    t += " = aten::mkldnn_rnn_layer_backward(input=%0, weight1=%1, weight2=%2, weight3=%3, weight4=%4, hx_=%5, "
         "cx_tmp=%6, output=%10, hy_=%11, cy_=%12, " +
         l.gradients + ", " + common + ", train=true, workspace=%13)\n";
  }
  return t + "return (" + results + ")\n}";
}

std::vector<Program> programs() {
  struct Row {
    const char* name;
    Sizes sizes;
    Options options;
  };
  const Row rows[] = {
      {"forward", {5, 3, 4, 6}, {.backwards = 0}},
      {"both", {5, 3, 4, 6}, {}},
      {"reverse", {5, 3, 4, 6}, {.reverse = true}},
      {"no biases", {4, 2, 7, 9}, {.biases = false}},
      {"one step", {1, 3, 4, 6}, {}},
      {"one step, reverse", {1, 1, 4, 6}, {.reverse = true}},
      {"one row", {6, 1, 5, 17}, {}},
      {"one of all", {1, 1, 1, 1}, {}},
      {"whole vectors, states of three dims", {3, 8, 16, 32}, {.state = "1,"}},
      {"many rows", {3, 29, 5, 8}, {}},
      {"many pieces of a step", {3, 5, 6, 150}, {}},
      {"gradient of the output only",
       {4, 3, 4, 6},
       {.gradients = "grad_output=%7, grad_hy=undefined, grad_cy=undefined"}},
      {"gradient of the states only", {4, 3, 4, 6}, {.gradients = "grad_output=undefined, grad_hy=%8, grad_cy=%9"}},
      {"two backwards", {4, 3, 4, 6}, {.backwards = 2}},
  };
  std::vector<Program> all;
  for (const Row& r : rows) {
    Program p{r.name, text(r.sizes, r.options)};
    p.relative = p.absolute = r.sizes.units < 100 ? 5e-5 : 5e-4;
    p.threads = true;
    all.push_back(p);
  }
  return all;
}

}  // namespace

TEST_CASE("LSTM layers") { check(programs()); }

TEST_CASE("an LSTM whose workspace somebody else reads stays with the host") {
  std::string t = text({2, 1, 2, 3}, {});
  t.replace(t.find("return (%10"), 11, "return (%13, %10");
  compiled::Batch batch;
  CHECK(batch.emitted(batch.add(t)).host_ops.size() == 2);
}

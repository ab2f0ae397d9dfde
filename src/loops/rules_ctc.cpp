// Connectionist temporal classification: a routine of the preamble, with the lengths in the text.
#include <algorithm>
#include <numeric>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

/// Sizes, lists and the operands that both directions have.
bool start(Lowering& l, const ir::Node& n, int64_t states, Routine& r, std::vector<HostOperand>& reads) {
  const ir::Type &x = l.type(tensor(n, "log_probs")), &labels = l.type(tensor(n, "targets"));
  if (x.dim() != 3 || x.numel() == 0 || (x.dtype != Dtype::f32 && x.dtype != Dtype::f64))
    return l.refuse("no [steps, batch, classes] of f32 or f64");
  if (labels.dtype != Dtype::i64 && labels.dtype != Dtype::i32) return l.refuse("labels of another dtype");
  const Dims inputs = integers(n, "input_lengths"), lengths = integers(n, "target_lengths");
  const auto batch = static_cast<size_t>(x.sizes[1]);
  if (inputs.size() != batch || lengths.size() != batch) return l.refuse("lengths of another batch");
  Dims offsets(batch, 0);
  if (labels.dim() == 2)
    for (size_t b = 0; b < batch; ++b) offsets[b] = static_cast<int64_t>(b) * labels.sizes[1];
  else
    std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), int64_t{0});
  for (size_t b = 0; b < batch; ++b)
    if (inputs[b] < 0 || inputs[b] > x.sizes[0] || lengths[b] < 0 || 2 * lengths[b] >= states ||
        offsets[b] + lengths[b] > labels.numel())
      return l.refuse("a length beyond its tensor");

  r.dtype = x.dtype;
  r.sizes = {{"steps", x.sizes[0]}, {"batch", x.sizes[1]},          {"classes", x.sizes[2]},
             {"states", states},    {"blank", integer(n, "blank")}, {"zero_infinity", flag(n, "zero_infinity")}};
  r.lists = {{"input_lengths", inputs}, {"target_lengths", lengths}, {"offsets", offsets}};
  r.flops = 30.0 * static_cast<double>(x.sizes[0] * x.sizes[1] * states);
  r.reads = {{"log_probs", x.dtype}, {"targets", labels.dtype}};
  for (const char* arg : {"log_probs", "targets"}) reads.push_back(l.dense(tensor(n, arg)));
  return true;
}

bool forward(Lowering& l, const ir::Node& n) {
  if (n.outs.size() != 2 || n.outs[0].id == ir::kNoValue || n.outs[1].id == ir::kNoValue)
    return l.refuse("without one of its results");
  const ir::Type& alpha = l.type(n.outs[1].id);
  Routine r;
  std::vector<HostOperand> reads;
  if (!alpha.is_contiguous()) return l.refuse("results in another layout");
  if (!start(l, n, alpha.sizes.back(), r, reads)) return false;
  r.function = "ctc";
  r.writes = {{"nll", r.dtype}, {"alpha", r.dtype}};
  l.add_routine("ctc_loss", std::move(r), std::move(reads), {l.make_buffer(n.outs[0].id), l.make_buffer(n.outs[1].id)});
  return true;
}

bool backward(Lowering& l, const ir::Node& n) {
  const ir::Type& alpha = l.type(tensor(n, "log_alpha"));
  Routine r;
  std::vector<HostOperand> reads;
  if (!l.type(result(n)).is_contiguous()) return l.refuse("results in another layout");
  if (!start(l, n, alpha.sizes.back(), r, reads)) return false;
  r.function = "ctc_backward";
  for (const auto& [name, arg] :
       {std::pair{"nll", "neg_log_likelihood"}, {"alpha", "log_alpha"}, {"grad_nll", "grad"}}) {
    if (l.type(tensor(n, arg)).dtype != r.dtype) return l.refuse("operands of several dtypes");
    r.reads.push_back({name, r.dtype});
    reads.push_back(l.dense(tensor(n, arg)));
  }
  r.writes = {{"grad", r.dtype}};
  r.workspace_bytes = std::max<int64_t>(64, l.type(tensor(n, "log_probs")).sizes[1] * alpha.sizes.back() * 8);
  const BufferId grad = l.make_buffer(result(n));
  l.add_routine("ctc_loss_backward", std::move(r), std::move(reads), {grad});
  return true;
}

}  // namespace

void add_ctc_rules(Rules& rules) {
  rules["aten::_ctc_loss"] = forward;
  rules["aten::_ctc_loss_backward"] = backward;
}

}  // namespace precast::loops

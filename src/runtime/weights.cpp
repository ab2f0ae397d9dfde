#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "precast/error.h"

namespace precast::runtime {
namespace {

using Stored = std::map<std::string, io::Array>;

std::string missing(const std::string& name, const std::string& what, const std::filesystem::path& path,
                    const Stored& stored) {
  if (path.empty())
    return "the artifact needs weights: " + what +
           "; give a .safetensors file (`precast weights` makes one; `precast run` takes it as --weights)";
  std::string message = path.string() + " has no tensor '" + name + "', which the artifact needs as " + what;
  for (const auto& [key, array] : stored)
    if (key.size() > name.size() && key.ends_with("." + name))
      return message + "; it has '" + key + "': save the weights with --submodule " +
             key.substr(0, key.size() - name.size() - 1);
  return message;
}

Stored stored_in(const std::filesystem::path& path) {
  Stored stored;
  if (!path.empty())
    for (auto& named : io::read_safetensors(path)) stored.emplace(named.name, std::move(named.array));
  return stored;
}

}  // namespace

precast_tensor to_tensor(const io::Array& array) {
  static_assert(sizeof(precast_i64) == sizeof(int64_t));
  precast_tensor t{};
  t.data = array.data;
  t.sizes = reinterpret_cast<const precast_i64*>(ir::kept_numbers(array.type.sizes));
  t.strides = reinterpret_cast<const precast_i64*>(ir::kept_numbers(array.type.strides));
  t.identity = array.owner.get();
  t.ndim = static_cast<precast_i32>(array.type.dim());
  t.dtype = static_cast<precast_i32>(array.type.dtype);
  return t;
}

io::Array in_layout(io::Array array, const ir::Type& expected, const std::string& what) {
  if (expected.dtype == ir::Dtype::bf16 && array.type.dtype == ir::Dtype::u16) array.type.dtype = ir::Dtype::bf16;
  if (array.type.sizes != expected.sizes || array.type.dtype != expected.dtype) return array;
  io::Array laid_out = io::with_strides(array, ir::numbers(expected.strides));
  const io::Array a = io::contiguous(array), b = io::contiguous(laid_out);
  if (std::memcmp(a.data, b.data, static_cast<size_t>(a.type.span_bytes())) != 0)
    throw PrecompileError(what + " was captured as an expanded view, " + ir::to_string(expected) +
                          ", and the given values are not such a view");
  return laid_out;
}

Weights::Weights(const artifact::Signature& s, const Find& find) {
  std::vector<bool> requires_grad;
  for (const auto* list : {&s.params, &s.buffers})
    for (const artifact::TensorMeta& meta : *list) {
      const std::string what = (list == &s.params ? "parameter '" : "buffer '") + meta.name + "'";
      tensors_.push_back({meta.name, find(meta, what)});
      requires_grad.push_back(meta.requires_grad);
    }
  first_entry_.resize(tensors_.size(), s.slots.size());
  for (const artifact::ModuleSlot& slot : s.slots) {
    const auto i = static_cast<size_t>(slot.tensor);
    precast_named entry{slot.name.c_str(), slot.module, slot.is_buffer, to_tensor(tensors_.at(i).array)};
    entry.tensor.identity = &tensors_[i];  // tied slots share it
    if (requires_grad[i]) entry.tensor.flags |= PRECAST_REQUIRES_GRAD;
    first_entry_[i] = std::min(first_entry_[i], entries_.size());
    entries_.push_back(entry);
  }
}

Weights::Weights(const artifact::Signature& s, const std::filesystem::path& path)
    : Weights(s, [&, stored = stored_in(path)](const artifact::TensorMeta& meta, const std::string& what) {
        const auto found = stored.find(meta.name);
        if (found == stored.end()) throw PrecompileError(missing(meta.name, what, path, stored));
        return in_layout(found->second, meta.type, what);
      }) {}

Weights Weights::zeros(const artifact::Signature& s) {
  return {s, [](const artifact::TensorMeta& meta, const std::string&) { return io::allocate(meta.type); }};
}

}  // namespace precast::runtime

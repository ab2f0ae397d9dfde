#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file.h"
#include "util/errors.h"

namespace precast::io {
namespace {

using Json = nlohmann::ordered_json;

struct SafetensorsDtype {
  ir::Dtype dtype;
  std::string_view code;
};
constexpr SafetensorsDtype kDtypes[] = {
    {ir::Dtype::b8, "BOOL"}, {ir::Dtype::u8, "U8"},   {ir::Dtype::i8, "I8"},     {ir::Dtype::u16, "U16"},
    {ir::Dtype::i16, "I16"}, {ir::Dtype::u32, "U32"}, {ir::Dtype::i32, "I32"},   {ir::Dtype::u64, "U64"},
    {ir::Dtype::i64, "I64"}, {ir::Dtype::f16, "F16"}, {ir::Dtype::bf16, "BF16"}, {ir::Dtype::f32, "F32"},
    {ir::Dtype::f64, "F64"}, {ir::Dtype::c64, "C64"},
};
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(map_file(path)) {}

  std::vector<NamedArray> read() {
    const Json header = parse_header();
    std::vector<std::pair<uint64_t, NamedArray>> found;
    uint64_t covered = 0;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto [begin, array] = tensor(name, entry);
      covered += *byte_count(array.type.dtype, ir::numbers(array.type.sizes));
      found.emplace_back(begin, NamedArray{name, array});
    }
    std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
    check_no_overlap(found);
    if (covered != data_.size())
      fail("its tensors cover " + std::to_string(covered) + " of " + std::to_string(data_.size()) + " bytes of data");
    std::vector<NamedArray> result;
    for (auto& [begin, named] : found) result.push_back(std::move(named));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw PrecompileError(path_.string() + ": not a readable .safetensors file: " + what);
  }

  Json parse_header() {
    if (file_.bytes.size() < 8) fail("it is shorter than 8 bytes");
    uint64_t length = 0;
    std::memcpy(&length, file_.bytes.data(), 8);
    if (length > kMaxHeader || length > file_.bytes.size() - 8)
      fail("the header should be " + std::to_string(length) + " bytes long, more than the file holds");
    data_ = file_.bytes.subspan(8 + length);
    const char* text = reinterpret_cast<const char*>(file_.bytes.data()) + 8;
    std::set<std::string> names;
    int depth_of_names = 1;
    Json::parser_callback_t once = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::key && depth == depth_of_names &&
          !names.insert(parsed.get<std::string>()).second)
        fail("tensor '" + parsed.get<std::string>() + "' appears twice");
      return true;
    };
    try {
      Json header = Json::parse(text, text + length, once);
      if (!header.is_object()) fail("the header is not a JSON object");
      return header;
    } catch (const Json::exception& e) {
      fail(std::string("the header is not JSON: ") + e.what());
    }
  }

  uint64_t natural(const std::string& name, const Json& number) const {
    if (!number.is_number_unsigned()) fail("tensor '" + name + "': sizes and offsets must be whole numbers from 0");
    return number.get<uint64_t>();
  }

  std::pair<uint64_t, Array> tensor(const std::string& name, const Json& entry) const {
    const auto complain = [&](const std::string& what) { fail("tensor '" + name + "': " + what); };
    if (!entry.is_object()) complain("its entry is not an object");
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!entry.contains(key)) complain(std::string("its entry lacks '") + key + "'");
    if (!entry["dtype"].is_string()) complain("'dtype' is not a string");
    const std::string code = entry["dtype"].get<std::string>();
    const auto known = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& k) { return k.code == code; });
    if (known == std::end(kDtypes)) complain("dtype '" + code + "' is not supported");
    if (!entry["shape"].is_array()) complain("'shape' is not a list");
    std::vector<int64_t> sizes;
    for (const Json& size : entry["shape"])
      sizes.push_back(static_cast<int64_t>(std::min<uint64_t>(natural(name, size), INT64_MAX)));
    const std::optional<uint64_t> bytes = byte_count(known->dtype, sizes);
    if (!bytes) complain("its shape is too large");
    const Json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) complain("'data_offsets' is not a pair");
    const uint64_t begin = natural(name, offsets[0]), end = natural(name, offsets[1]);
    if (begin > end || end > data_.size()) complain("its data lies outside the file");
    if (end - begin != *bytes)
      complain("its shape needs " + std::to_string(*bytes) + " bytes and its data has " + std::to_string(end - begin));

    Array array{ir::contiguous(known->dtype, ir::sizes(sizes)), data_.data() + begin, file_.owner};
    if (*bytes && reinterpret_cast<uintptr_t>(array.data) % static_cast<uintptr_t>(ir::itemsize(known->dtype)) != 0) {
      const std::byte* from = array.data;
      array = allocate(array.type);
      std::memcpy(array.data, from, *bytes);
    }
    return {begin, array};
  }

  void check_no_overlap(const std::vector<std::pair<uint64_t, NamedArray>>& sorted) const {
    uint64_t end = 0;
    for (const auto& [begin, named] : sorted) {
      const uint64_t bytes = *byte_count(named.array.type.dtype, ir::numbers(named.array.type.sizes));
      if (bytes && begin < end) fail("tensor '" + named.name + "' overlaps another one");
      end = std::max(end, begin + bytes);
    }
  }

  const std::filesystem::path& path_;
  MappedFile file_;
  std::span<std::byte> data_;
};

}  // namespace

std::vector<NamedArray> read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& notes) {
  // Wide elements first: every tensor is then aligned without gaps, which the format does not allow.
  std::vector<const NamedArray*> order;
  for (const NamedArray& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return ir::itemsize(a->array.type.dtype) > ir::itemsize(b->array.type.dtype);
  });
  Json header = Json::object();
  for (const auto& [key, value] : notes) header["__metadata__"][key] = value;
  std::vector<Array> stored;
  uint64_t offset = 0;
  for (const NamedArray* t : order) {
    const ir::Type& type = t->array.type;
    const auto known =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& k) { return k.dtype == type.dtype; });
    if (known == std::end(kDtypes))
      throw PrecompileError(path.string() + ": tensor '" + t->name + "': safetensors has no dtype for " +
                            std::string(ir::name(type.dtype)));
    if (t->name == "__metadata__" || header.contains(t->name))
      throw PrecompileError(path.string() + ": two tensors are named '" + t->name + "'");
    stored.push_back(contiguous(t->array));
    const uint64_t bytes = *byte_count(type.dtype, ir::numbers(type.sizes));
    header[t->name] = {
        {"dtype", known->code}, {"shape", ir::numbers(type.sizes)}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(&length, 1)), as_bytes(text)};
  for (const Array& array : stored)
    pieces.push_back({array.data, static_cast<size_t>(*byte_count(array.type.dtype, ir::numbers(array.type.sizes)))});
  write_file(path, pieces);
}

}  // namespace precast::io

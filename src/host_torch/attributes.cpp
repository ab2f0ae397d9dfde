#include "host_torch/attributes.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <cmath>
#include <sstream>

#include "precast/error.h"

namespace precast::host_torch {

namespace {

using ir::Attr;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::optional<c10::Scalar> number(const Attr& a) {
  if (auto* b = std::get_if<bool>(&a)) return c10::Scalar(*b);
  if (auto* i = std::get_if<int64_t>(&a)) return c10::Scalar(*i);
  if (auto* d = std::get_if<double>(&a)) return c10::Scalar(*d);
  if (auto* c = std::get_if<std::complex<double>>(&a)) return c10::Scalar(c10::complex<double>(c->real(), c->imag()));
  return {};
}

/// The entries of a number list of any kind; an empty list of tensors stands for any empty list.
std::optional<std::vector<c10::Scalar>> numbers(const Attr& a, int32_t repeat) {
  std::vector<c10::Scalar> out;
  if (auto* l = std::get_if<std::vector<int64_t>>(&a))
    for (int64_t v : *l) out.emplace_back(v);
  else if (auto* l = std::get_if<std::vector<double>>(&a))
    for (double v : *l) out.emplace_back(v);
  else if (auto* l = std::get_if<std::vector<bool>>(&a))
    for (bool v : *l) out.emplace_back(v);
  else if (auto* l = std::get_if<std::vector<ir::Ref>>(&a); l && l->empty())
    return out;
  else if (auto n = number(a))
    out.assign(static_cast<size_t>(std::max(repeat, 1)), *n);
  else
    return {};
  return out;
}

const std::pair<const char*, c10::Layout> kLayouts[] = {{"strided", c10::Layout::Strided},
                                                        {"sparse", c10::Layout::Sparse},
                                                        {"sparse_csr", c10::Layout::SparseCsr},
                                                        {"mkldnn", c10::Layout::Mkldnn},
                                                        {"sparse_csc", c10::Layout::SparseCsc}};
const std::pair<const char*, c10::MemoryFormat> kFormats[] = {{"contiguous_format", c10::MemoryFormat::Contiguous},
                                                              {"preserve_format", c10::MemoryFormat::Preserve},
                                                              {"channels_last", c10::MemoryFormat::ChannelsLast},
                                                              {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d}};

/// An enumeration is written by number or by name.
template <class E, size_t N>
std::optional<c10::IValue> enumeration(const Attr& a, const std::pair<const char*, E> (&names)[N]) {
  if (auto* i = std::get_if<int64_t>(&a)) return c10::IValue(*i);
  if (auto* s = std::get_if<std::string>(&a))
    for (auto& [name, value] : names)
      if (*s == name) return c10::IValue(value);
  return {};
}

std::optional<c10::IValue> list(const Attr& a, const c10::Type& element, int32_t repeat) {
  auto entries = numbers(a, repeat);
  if (!entries) return {};
  auto fill = [&](auto result, auto convert) {
    for (const c10::Scalar& s : *entries) result.push_back(convert(s));
    return c10::IValue(std::move(result));
  };
  switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return fill(c10::List<int64_t>(), [](auto& s) { return s.toLong(); });
    case c10::TypeKind::FloatType:
      return fill(c10::List<double>(), [](auto& s) { return s.toDouble(); });
    case c10::TypeKind::BoolType:
      return fill(c10::List<bool>(), [](auto& s) { return s.toBool(); });
    case c10::TypeKind::NumberType:
      return fill(c10::List<at::Scalar>(), [](auto& s) { return s; });
    case c10::TypeKind::TensorType:
      return entries->empty() ? std::optional(c10::IValue(c10::List<at::Tensor>())) : std::nullopt;
    default:
      return {};
  }
}

std::optional<c10::IValue> convert(const Attr& a, const c10::Type& type, int32_t repeat) {
  if (std::holds_alternative<std::monostate>(a)) {
    if (type.kind() == c10::TypeKind::TensorType) return c10::IValue(at::Tensor());
    return type.kind() == c10::TypeKind::OptionalType ? std::optional(c10::IValue()) : std::nullopt;
  }
  const auto n = number(a);
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return convert(a, *type.castRaw<c10::OptionalType>()->getElementType(), repeat);
    case c10::TypeKind::TensorType: {
      if (!n) return {};
      at::Tensor t = at::scalar_to_tensor(*n);
      t.unsafeGetTensorImpl()->set_wrapped_number(true);
      return c10::IValue(std::move(t));
    }
    case c10::TypeKind::NumberType:
      if (n) return c10::IValue(*n);
      return {};
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (auto* d = std::get_if<ir::Dtype>(&a)) return c10::IValue(static_cast<int64_t>(*d));
      if (auto* i = std::get_if<int64_t>(&a)) return c10::IValue(*i);
      return {};
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      if (n && (n->isFloatingPoint() || n->isIntegral(false))) return c10::IValue(n->toDouble());
      return {};
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      if (auto* b = std::get_if<bool>(&a)) return c10::IValue(*b);
      return {};
    case c10::TypeKind::StringType:
      if (auto* s = std::get_if<std::string>(&a)) return c10::IValue(*s);
      return {};
    case c10::TypeKind::DeviceObjType:
      if (auto* d = std::get_if<ir::Device>(&a))
        return c10::IValue(c10::Device(static_cast<c10::DeviceType>(d->type), static_cast<c10::DeviceIndex>(d->index)));
      return {};
    case c10::TypeKind::LayoutType:
      return enumeration(a, kLayouts);
    case c10::TypeKind::MemoryFormatType:
      return enumeration(a, kFormats);
    case c10::TypeKind::ListType:
      return list(a, *type.castRaw<c10::ListType>()->getElementType(), repeat);
    default:
      return {};
  }
}

}  // namespace

c10::IValue to_ivalue(const Attr& a, const c10::Argument& parameter, const std::string& what) {
  if (auto v = convert(a, *parameter.real_type(), parameter.N().value_or(1))) return *std::move(v);
  throw PrecompileError(what + ": argument '" + parameter.name() + "' is " + parameter.real_type()->str() +
                        ", the graph gives " + in_words(a));
}

namespace {
/// -0 is not 0; any NaN is NaN.
bool same(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b); }
}  // namespace

bool equals(const c10::IValue& found, const Attr& expected) {
  return std::visit(Overloaded{
                        [&](bool b) { return found.isBool() && found.toBool() == b; },
                        [&](int64_t i) { return found.isInt() && found.toInt() == i; },
                        [&](double d) { return found.isDouble() && same(found.toDouble(), d); },
                        [&](const std::complex<double>& c) {
                          if (!found.isComplexDouble()) return false;
                          const auto f = found.toComplexDouble();
                          return same(f.real(), c.real()) && same(f.imag(), c.imag());
                        },
                        [&](const std::string& s) { return found.isString() && found.toStringRef() == s; },
                        [&](ir::Dtype d) { return found.isInt() && found.toInt() == static_cast<int64_t>(d); },
                        [&](const std::vector<int64_t>& l) { return found.isIntList() && found.toIntVector() == l; },
                        [&](const std::vector<double>& l) {
                          if (!found.isDoubleList()) return false;
                          const auto f = found.toDoubleVector();
                          return std::equal(f.begin(), f.end(), l.begin(), l.end(), same);
                        },
                        [&](const std::vector<bool>& l) {
                          if (!found.isBoolList()) return false;
                          const auto f = found.toBoolList();
                          return std::equal(f.begin(), f.end(), l.begin(), l.end(),
                                            [](bool a, bool b) { return a == b; });
                        },
                        [&](const auto&) { return false; },
                    },
                    expected);
}

std::string in_words(const c10::IValue& v) {
  if (v.isBool()) return in_words(Attr(v.toBool()));  // in the same words as what was expected
  if (v.isDouble()) return in_words(Attr(v.toDouble()));
  std::ostringstream out;
  out.precision(17);
  out << v;
  return out.str();
}

std::string in_words(const Attr& a) {
  std::ostringstream out;
  out.precision(17);
  auto list = [&](const auto& l) {
    out << '[';
    for (size_t i = 0; i < l.size(); ++i) out << (i ? ", " : "") << l[i];
    out << ']';
  };
  std::visit(Overloaded{
                 [&](std::monostate) { out << "None"; },
                 [&](bool b) { out << (b ? "true" : "false"); },
                 [&](const std::string& s) { out << '"' << s << '"'; },
                 [&](ir::Dtype d) { out << ir::name(d); },
                 [&](const ir::Device& d) { out << ir::name(d); },
                 [&](const ir::Ref&) { out << "a tensor"; },
                 [&](const std::vector<ir::Ref>& l) { out << "a list of " << l.size() << " tensors"; },
                 [&](const std::vector<int64_t>& l) { list(l); },
                 [&](const std::vector<double>& l) { list(l); },
                 [&](const std::vector<bool>& l) { list(l); },
                 [&](const auto& v) { out << v; },
             },
             a);
  return out.str();
}

}  // namespace precast::host_torch

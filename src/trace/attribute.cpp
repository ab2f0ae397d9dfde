#include "trace/attribute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Generator.h>

#include "trace/torch_internals.h"
#include "util/errors.h"

namespace precast::trace {

namespace {

std::optional<ir::Attr> list_attribute(const c10::IValue& v, const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (v.isIntList()) return v.toIntVector();
      if (v.isSymIntList()) {
        std::vector<int64_t> ints;
        for (const c10::SymInt& i : v.toSymIntVector()) ints.push_back(i.guard_int(__FILE__, __LINE__));
        return ints;
      }
      return {};
    case c10::TypeKind::FloatType:
      if (v.isDoubleList()) return v.toDoubleVector();
      return {};
    case c10::TypeKind::BoolType:
      if (v.isBoolList()) {
        std::vector<bool> bools;
        for (bool b : v.toBoolList()) bools.push_back(b);
        return bools;
      }
      return {};
    case c10::TypeKind::NumberType: {
      if (v.isIntList()) return v.toIntVector();
      if (v.isDoubleList()) return v.toDoubleVector();
      std::vector<int64_t> ints;
      std::vector<double> reals;
      for (const c10::IValue& item : v.toListRef()) {
        if (item.isInt()) ints.push_back(item.toInt());
        if (item.isDouble()) reals.push_back(item.toDouble());
      }
      if (ints.size() == v.toListRef().size()) return ints;
      if (reals.size() == v.toListRef().size()) return reals;
      return {};
    }
    default:
      return {};
  }
}

}  // namespace

ir::Attr to_attribute(const c10::Scalar& s) {
  if (s.isBoolean()) return s.toBool();
  if (s.isIntegral(false)) return s.toLong();
  if (s.isFloatingPoint()) return s.toDouble();
  const auto c = s.toComplexDouble();
  return std::complex<double>(c.real(), c.imag());
}

std::optional<ir::Attr> to_attribute(const c10::IValue& v, const c10::Type& type) {
  if (v.isNone()) return ir::Attr{};
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return to_attribute(v, *type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::SymBoolType:
      if (v.isScalar()) return to_attribute(v.toScalar());
      return {};
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::QSchemeType:
      if (v.isInt()) return v.toInt();
      if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
      return {};
    case c10::TypeKind::ScalarTypeType:
      if (v.isInt()) return static_cast<ir::Dtype>(v.toInt());
      return {};
    case c10::TypeKind::StringType:
      return v.toStringRef();
    case c10::TypeKind::DeviceObjType: {
      const c10::Device d = v.toDevice();
      return ir::Device{static_cast<int8_t>(d.type()), static_cast<int8_t>(d.index())};
    }
    case c10::TypeKind::GeneratorType:
      if (v.toGenerator() == at::detail::getDefaultCPUGenerator()) return ir::Attr{};
      return {};
    case c10::TypeKind::ListType:
      return list_attribute(v, *type.castRaw<c10::ListType>()->getElementType());
    default:
      return {};
  }
}

c10::Scalar number_in(const at::Tensor& t) {
  PRECAST_CHECK(t.numel() == 1, "a number is asked of a larger tensor");
  const auto* memory = static_cast<const char*>(address(t.storage().unsafeGetStorageImpl())) +
                       t.storage_offset() * static_cast<int64_t>(t.itemsize());
  return AT_DISPATCH_V2(t.scalar_type(), "number_in",
                        AT_WRAP([&] { return c10::Scalar(*reinterpret_cast<const scalar_t*>(memory)); }),
                        AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf,
                        at::kBFloat16, at::kBool, at::kComplexHalf);
}

}  // namespace precast::trace

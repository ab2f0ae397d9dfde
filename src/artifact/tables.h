// The calling convention as the driver's tables (precast_spec): built from metadata in the runtime,
// printed as C++ data into each artifact. One builder serves both.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "artifact/metadata.h"
#include "precast/artifact_abi.h"

namespace precast::artifact {

class Tables {
 public:
  /// `metadata` must outlive the tables, which point into it. Throws PrecompileError when it contradicts itself.
  explicit Tables(const Metadata& metadata);
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  const precast_spec& spec() const { return spec_; }

 private:
  precast_tensor_spec tensor(const std::string& name, const ir::Type&, bool read);
  void check(const Metadata&) const;
  void add_symbols(const Metadata&);
  /// Index of a number of the call that has this value, with a text for messages.
  int number(const ir::Size&);
  int number(precast_number_spec);

  std::deque<std::vector<precast_i64>> dims_;  // stable addresses
  std::vector<precast_tensor_spec> tensors_, outputs_;
  std::vector<precast_slot_spec> slots_;
  std::vector<precast_leaf_spec> leaves_;
  std::vector<precast_input_spec> inputs_;
  std::vector<precast_alias_spec> aliases_;
  std::vector<precast_write_spec> writes_;
  std::vector<precast_symbol_spec> symbols_;
  std::map<int, int> symbol_of_;              // by id
  std::vector<precast_number_spec> numbers_;  // behind the symbols
  std::vector<int> constraints_, slots_of_arena_;
  std::deque<std::string> texts_;
  precast_spec spec_{};
};

/// C++ definitions of all tables, ending with `static const precast_spec precast_the_spec`.
std::string print_tables(const precast_spec&);
/// A C++ string literal for any bytes.
std::string quote(std::string_view bytes);

}  // namespace precast::artifact

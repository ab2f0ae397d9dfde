// The tensors the caller passes, as graph inputs: one per storage. What they were before the call is
// kept, so that a refused call can be undone and an unseen effect on them is found.
#pragma once
#include <string>
#include <vector>

#include "trace/graph_builder.h"
#include "trace/recorder.h"
#include "trace/storage_table.h"

namespace precast::trace {

/// What the graph calls it: "fc1.weight" for "parameter 'fc1.weight'".
std::string short_name(const Source&);

class Inputs {
 public:
  /// One source: a param, buffer or user tensor, counted through in that order.
  struct Entry {
    const Source* source;
    c10::Storage storage;  // as it was at the start
    Window window;
    bool requires_grad = false;
    int group = -1;
  };
  /// Sources that share a storage. The graph input is the window of the only one, or the hull of them all.
  struct Group {
    std::vector<int> members;
    StorageState* state = nullptr;
    Window root;
    ir::ValueId value = ir::kNoValue;
    at::Tensor before;  // bytes of root at the first write
    std::vector<Bytes> written;
    std::vector<int> compared;  // groups whose memory fn asked about, whether it is this one's
  };

  Inputs(const Sources&, StorageTable&, GraphBuilder&, bool hash_contents);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Group>& groups() const { return groups_; }
  int count_params() const { return n_params_; }
  int count_module_tensors() const { return n_module_; }

  /// The refusal of a write that no operation shows.
  std::string raw_write(const Group&) const;
  /// To be called before an op writes `bytes` of an input's storage.
  void before_write(StorageState&, Bytes);
  /// fn has asked whether these two storages are one.
  void note_compared(const StorageState&, const StorageState&);
  /// A window of the group's storage with its contents from before the call.
  at::Tensor original(const Group&, const Window&) const;

  /// Refuses, by name, what no op shows: geometry, storage or requires_grad of an input, a rebound module slot, raw
  /// writes.
  void check_unchanged() const;
  /// Puts everything back as it was.
  void restore() const;

 private:
  void add(const std::vector<Source>&);
  void make_group(std::vector<int> members, StorageTable&, GraphBuilder&);

  const Sources& sources_;
  int n_params_ = 0, n_module_ = 0;
  bool hash_contents_;
  std::vector<Entry> entries_;
  std::vector<Group> groups_;
};

}  // namespace precast::trace

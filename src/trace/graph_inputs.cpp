#include "trace/graph_inputs.h"

#include <algorithm>
#include <optional>

#include "trace/graph_builder.h"

namespace precast::trace {

namespace {

class Finisher {
 public:
  Finisher(ir::Graph& graph, const Inputs& inputs) : graph_(graph), inputs_(inputs), split_(inputs.groups().size()) {
    for (size_t g = 0; g < inputs.groups().size(); ++g) {
      const Inputs::Group& group = inputs.groups()[g];
      result_.inputs.push_back({static_cast<int>(g), lowest_member(group), group.root});
    }
  }

  GraphInputs run() {
    for (size_t g = 0; g < inputs_.groups().size(); ++g) split(g);
    drop_unread();
    mark_read();
    add_aliases();
    return std::move(result_);
  }

 private:
  const Inputs::Entry& entry(int source) const { return inputs_.entries()[static_cast<size_t>(source)]; }

  int lowest_member(const Inputs::Group& g) const {
    return *std::min_element(g.members.begin(), g.members.end(),
                             [&](int a, int b) { return entry(a).window.offset < entry(b).window.offset; });
  }

  /// The member whose own memory holds all of w.
  std::optional<int> holder(const Inputs::Group& g, const Window& w) const {
    for (int m : g.members)
      if (entry(m).window == w) return m;
    for (int m : g.members) {
      const ir::Type& type = entry(m).window.type;
      if (is_dense(type) && !type.conj && !type.neg && entry(m).window.bytes().contains(w.bytes())) return m;
    }
    return {};
  }

  /// Gives each reader of an unwritten hull the one tensor it reads, if all readers have one.
  void split(size_t index) {
    const Inputs::Group& g = inputs_.groups()[index];
    const bool one = std::all_of(g.members.begin(), g.members.end(), [&](int m) { return entry(m).window == g.root; });
    if (one || !g.written.empty()) return;
    struct Read {
      ir::Node* view;  // null: the root itself
      int source;
    };
    std::vector<Read> reads;
    bool all_have_one = true, root_is_read = std::count(graph_.outputs.begin(), graph_.outputs.end(), g.value) > 0;
    const auto add = [&](ir::Node* view, const Window& w) {
      const auto source = holder(g, w);
      all_have_one = all_have_one && source;
      if (source) reads.push_back({view, *source});
    };
    for (ir::Node& n : graph_.nodes) {
      bool uses = false;
      ir::for_each_operand(n, [&](ir::Slot, ir::ValueId id) { uses = uses || id == g.value; });
      for (const ir::Shared& s : n.shared) uses = uses || s.base == g.value;
      if (!uses) continue;
      if (n.op == "prim::view")
        add(&n, {graph_.type(n.outs[0].id), g.root.offset + std::get<int64_t>(n.args[1].value)});
      else
        root_is_read = true;
    }
    if (root_is_read) add(nullptr, g.root);
    if (!all_have_one) return;
    split_[index] = true;
    std::vector<ir::ValueId> replacement(graph_.values.size(), ir::kNoValue);
    for (const Read& r : reads) {
      const ir::ValueId input = member_input(index, r.source);
      if (!r.view) {
        replacement[static_cast<size_t>(g.value)] = input;
        continue;
      }
      int64_t& offset = std::get<int64_t>(r.view->args[1].value);
      offset += g.root.offset - entry(r.source).window.offset;
      r.view->args[0].value = refer(input);
      const ir::ValueId out = r.view->outs[0].id;
      if (graph_.type(out) == graph_.type(input)) replacement[static_cast<size_t>(out)] = input;
    }
    replace(replacement);
  }

  ir::ValueId member_input(size_t group, int source) {
    for (size_t i = 0; i < result_.inputs.size(); ++i) {
      const GraphInputs::One& have = result_.inputs[i];
      if (i >= inputs_.groups().size() && have.group == static_cast<int>(group) && have.window == entry(source).window)
        return graph_.inputs[i];
    }
    result_.inputs.push_back({static_cast<int>(group), source, entry(source).window});
    graph_.inputs.push_back(graph_.add_value(entry(source).window.type, short_name(*entry(source).source)));
    return graph_.inputs.back();
  }

  void replace(const std::vector<ir::ValueId>& replacement) {
    const auto use = [&](ir::ValueId& id) {
      if (id >= 0 && static_cast<size_t>(id) < replacement.size() &&
          replacement[static_cast<size_t>(id)] != ir::kNoValue)
        id = replacement[static_cast<size_t>(id)];
    };
    for (ir::Node& n : graph_.nodes) {
      ir::for_each_operand(n, [&](ir::Slot, ir::ValueId& id) { use(id); });
      for (ir::Shared& s : n.shared) use(s.base);
    }
    for (ir::ValueId& id : graph_.outputs) use(id);
  }

  void drop_unread() {
    const std::vector<bool> unread = remove_dead(graph_);
    std::vector<ir::ValueId> ids;
    std::vector<GraphInputs::One> kept;
    for (size_t i = 0; i < unread.size(); ++i) {
      if (unread[i]) continue;
      ids.push_back(graph_.inputs[i]);
      kept.push_back(std::move(result_.inputs[i]));
    }
    graph_.inputs = std::move(ids);
    result_.inputs = std::move(kept);
    ir::renumber(graph_);
  }

  void mark_read() {
    result_.read.assign(inputs_.entries().size(), false);
    for (const GraphInputs::One& one : result_.inputs) {
      if (split_[static_cast<size_t>(one.group)])
        result_.read[static_cast<size_t>(one.source)] = true;
      else
        for (int m : inputs_.groups()[static_cast<size_t>(one.group)].members)
          result_.read[static_cast<size_t>(m)] = true;
    }
  }

  /// Memory that was shared must be shared again in the same way; memory that was not may not be, where a write would
  /// show it, or fn asked.
  void add_aliases() {
    const auto& groups = inputs_.groups();
    const auto read_members = [&](size_t g) {
      std::vector<int> members;
      for (int m : groups[g].members)
        if (result_.read[static_cast<size_t>(m)] || !groups[g].compared.empty()) members.push_back(m);
      return members;
    };
    for (size_t i = 0; i < groups.size(); ++i)
      for (const int j : groups[i].compared)
        if (static_cast<size_t>(j) != i)
          for (int a : groups[i].members)
            for (int b : groups[static_cast<size_t>(j)].members) result_.aliases.push_back({a, b, false, 0});
    for (size_t i = 0; i < groups.size(); ++i) {
      const std::vector<int> members = read_members(i);
      if (!split_[i])
        for (size_t k = 1; k < members.size(); ++k)
          result_.aliases.push_back(
              {members[0], members[k], true, entry(members[k]).window.offset - entry(members[0]).window.offset});
      if (groups[i].written.empty()) continue;
      for (size_t j = 0; j < groups.size(); ++j) {
        if (j == i || (j < i && !groups[j].written.empty())) continue;
        for (int a : members)
          for (int b : read_members(j)) result_.aliases.push_back({a, b, false, 0});
      }
    }
  }

  ir::Graph& graph_;
  const Inputs& inputs_;
  std::vector<bool> split_;
  GraphInputs result_;
};

}  // namespace

GraphInputs finish_inputs(ir::Graph& graph, const Inputs& inputs) { return Finisher(graph, inputs).run(); }

}  // namespace precast::trace

#include "trace/recorder.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "trace/dispatch.h"
#include "trace/dynamic.h"
#include "trace/gradients.h"
#include "trace/outcome.h"
#include "trace/replay.h"

namespace precast::trace {

namespace {

/// A message for an access to sealed memory, or nothing.
std::optional<std::string> raw_access(const OpRecorder& recorder, const std::string& message) {
  const auto number = sealed_number(message);
  if (!number) return {};
  const OpInfo* maker = recorder.storages.maker(*number);
  return "memory of " + (maker ? "a tensor made by " + maker->name : std::string("an input or gradient")) +
         " was read or written directly inside the recorded function (data_ptr, accessor, from_blob, printing), which "
         "no "
         "operation shows. Use tensor operations, or .item() for a number";
}

class Call {
 public:
  Call(const Sources& sources, const Options& options)
      : sources_(sources),
        options_(options),
        dynamic_(options.marks && Dynamic::wanted(sources) ? std::make_unique<Dynamic>(sources) : nullptr),
        inputs_(sources, recorder_.storages, recorder_.builder, options.verify),
        gradients_(inputs_, recorder_.storages) {
    recorder_.decompose = options.decompose;
    recorder_.name_places = options.name_places;
    recorder_.run_through = options.run_through && !dynamic_;
    recorder_.guards_gradients = options.guards_gradients;
    recorder_.on_refusal = [this] { gradients_.give_back(); };
    recorder_.before_unrecorded = [this] { gradients_.give_up(); };
    recorder_.watch_contents = options.verify;
    recorder_.dynamic = dynamic_.get();
    if (dynamic_) dynamic_->set_refusal([this](Check c, const std::string& m) { recorder_.refuse(c, m); });
  }

  /// An exception that leaves this is fn's own or a refusal.
  Recording run(const std::function<std::vector<Leaf>()>& fn) {
    std::vector<Leaf> results;
    try {
      results = call(fn);
    } catch (const RanThrough&) {
      finish_gradients();
      throw;
    } catch (const PrecompileError&) {
      undo();
      throw;
    } catch (...) {
      finish_gradients();
      throw;
    }
    try {
      return conclude(std::move(results));
    } catch (const PrecompileError& e) {
      if (recorder_.run_through) {
        finish_gradients();
        throw RanThrough(e.what());
      }
      undo();
      throw;
    } catch (...) {
      undo();
      throw;
    }
  }

 private:
  std::vector<Leaf> call(const std::function<std::vector<Leaf>()>& fn) {
    at::autocast::clear_cache();  // a weight that was cast before the call would look like a constant
    std::exception_ptr thrown;
    std::vector<Leaf> results;
    {
      RecordingScope scope(recorder_);
      random_.emplace();  // now that draws of other threads are seen
      recorder_.attach(&inputs_, &*random_);
      at::AutoGradMode grad_on(true);
      prepare_seals();
      try {
        if (dynamic_) dynamic_->begin();
        {
          const auto watch = options_.guards_gradients ? gradients_.watch() : nullptr;
          results = fn();
        }
        recorder_.empty_zeroed();
        if (dynamic_) dynamic_->end(&results);
      } catch (...) {
        thrown = std::current_exception();
        recorder_.empty_zeroed();
        if (dynamic_) dynamic_->end(nullptr);
      }
    }
    recorder_.unseal_all();
    at::autocast::clear_cache();
    if (const auto& refusal = recorder_.refusal()) {
      if (!recorder_.run_through) throw *refusal;
      gradients_.give_up();
      if (thrown) throw FnThrew{thrown};
      throw RanThrough(refusal->what());
    }
    if (!thrown) return results;
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      if (auto message = raw_access(recorder_, e.what())) refuse(Check::raw_access, *message);
      throw;
    }
  }

  void prepare_seals() {
    for (const Inputs::Group& g : inputs_.groups())
      if (options_.seal_inputs) {
        g.state->may_seal = true;
        recorder_.seal(*g.state);
      }
    for (const Gradients::Slot& slot : gradients_.slots())
      if (slot.state) recorder_.seal(*slot.state);
  }

  Recording conclude(std::vector<Leaf> results) {
    recorder_.check_foreign();
    recorder_.check_random("at the end");
    random_->release();
    inputs_.check_unchanged();
    gradients_.check_others();
    Outcome outcome(recorder_, inputs_, gradients_);
    outcome.add_results(results);
    outcome.add_writes();
    outcome.add_gradients();
    outcome.check_escapes(results);
    outcome.finish(sources_);
    ir::Graph& graph = recorder_.builder.graph;
    if (dynamic_) dynamic_->generalize(graph, outcome.signature);
    if (options_.accept) options_.accept(graph, outcome.signature);
    if (options_.verify) verify(graph, outcome);
    std::shared_ptr<const LaterReplay> replay;
    if (options_.verify_later && !dynamic_ && !recorder_.draws())
      replay = std::make_shared<const LaterReplay>(graph, inputs_, outcome);
    if (options_.discard && options_.discard())
      undo();
    else
      finish_gradients();
    return {std::move(graph),  std::move(outcome.signature),  std::move(results), recorder_.draws(),
            std::move(replay), std::move(outcome.found_grads)};
  }

  void verify(const ir::Graph& graph, const Outcome& outcome) {
    RandomState* random = recorder_.draws() ? &*random_ : nullptr;
    const Replay replay(inputs_, outcome);
    if (!dynamic_) return replay.verify(graph, random);
    const auto real = [this](const ir::Symbol& s) { return dynamic_->real(s); };
    replay.verify(ir::substitute(graph, real), random);
  }

  void finish_gradients() { options_.keep_gradients ? gradients_.restore() : gradients_.commit(); }

  void undo() {
    if (random_ && (recorder_.draws() || !recorder_.foreign_draws)) random_->set_state(random_->start());
    gradients_.restore();
    inputs_.restore();
  }

  const Sources& sources_;
  const Options options_;
  std::unique_ptr<Dynamic> dynamic_;
  OpRecorder recorder_;
  Inputs inputs_;
  Gradients gradients_;
  std::optional<RandomState> random_;
};

}  // namespace

Recording record(const Sources& sources, const std::function<std::vector<Leaf>()>& fn, const Options& options) {
  return Call(sources, options).run(fn);
}

}  // namespace precast::trace

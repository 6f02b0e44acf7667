//===- StepChoice.h - what the plan of a step chooses -----------*- C++ -*-===//
//
// visitChoices() lists the choices once. Command lines, reports, searches and readers of jobs go through the list. A
// new choice is a member of StepChoice, an entry of the list, and what the compiler does with it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COMPILER_STEPCHOICE_H
#define MOE_COMPILER_STEPCHOICE_H

#include <optional>
#include <string>

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Scheduling/Pipeline.h"

namespace mlir::moe {

/// The value of an enum whose names are in order.
template <class Enum> std::optional<Enum> parseName(ArrayRef<StringLiteral> names, StringRef name) {
  const auto *found = llvm::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Enum>(found - names.begin()));
}

/// Activations that the backward computes again instead of keeping them, from none to most: ops that only move memory
/// and save many bytes for their time; all that only move memory; all of a block that takes less than 4, 6, 8 or 12
/// times as long to compute as to write; all of a block.
enum class Recompute { None, Light, Selective, Cheap4, Cheap6, Cheap8, Cheap, Block };
/// "none", "light", "selective", "cheap-4", "cheap-6", "cheap-8", "cheap", "block".
StringRef getName(Recompute recompute);
std::optional<Recompute> parseRecompute(StringRef name);

/// The choices of a step. compileSchedule() takes the schedule parsed, and a graph with the batch and `maxLoad`.
struct StepChoice {
  ParallelAttr parallel; ///< null where a search does not vary it
  int64_t batch = 1;     ///< sequences of each data-parallel rank in a micro-batch
  /// Batches of the graph's inputs in a step, whose gradients are added up. More than one needs a graph with a loss.
  int64_t microBatches = 1;
  /// Stages of a pipeline on each of its devices. PipelineShape::check() says what the order needs.
  int64_t interleave = 1;
  PipelineOrder pipelineOrder = PipelineOrder::OneForwardOneBackward;
  /// Neighbouring micro-batches whose forwards are ordered together, and whose backwards are. It divides microBatches.
  int64_t sideBySide = 1;
  /// Beginnings of the stages, as moe-cut-stages takes them. Empty: stages take about equal time.
  SmallVector<int64_t> stageBoundaries;
  Recompute recompute = Recompute::None;
  int64_t zero = 0; ///< stage of ZeRO, with an optimizer
  /// Divides norms, dropout and residual sums by tokens over mp (moe-sequence-parallel).
  bool sequenceParallel = false;
  /// Sends keys and values round the members of cp, instead of gathering them (moe-ring-attention).
  bool ringAttention = false;
  std::string schedule; ///< as --schedule takes it
  /// Room for dropless rows, in times the even load. Absent: as the user asks for it.
  std::optional<double> maxLoad;

  /// The step's units, with all stages.
  PipelineShape getPipelineShape(bool train) const {
    int64_t pp = parallel.getPp();
    return {pp, pp * interleave, microBatches / sideBySide, train, pipelineOrder};
  }
};

/// Knowledge about a choice that is not in its type.
struct ChoiceInfo {
  StringLiteral option;       ///< name in command lines and in --vary
  StringLiteral words = "";   ///< "recompute {}", as describeChoices() says a value; empty: it leaves the choice out
  StringLiteral help = "";    ///< empty: a command line defines the option itself
  StringLiteral value = "";   ///< the name of the option's value in --help
  StringLiteral values = "";  ///< all values, joined by '|'; empty: they are many
  StringLiteral alone = "";   ///< the value of the option without one; empty: it needs one
  bool isWritten = false;     ///< describeOptions() names it at its default, too
  bool isHidden = false;      ///< from --help
  bool isSearched = false;    ///< --vary names it
  bool needsTraining = false; ///< it says nothing of a forward alone
  /// Whether groups can have another value than the default. Null: all can.
  bool (*hasEffect)(ParallelAttr) = nullptr;

  /// The key in JSON: "micro_batches".
  std::string getKey() const;
};

/// Calls `visit` with a pointer to each member, and what is known of it.
template <class Visitor> void visitChoices(Visitor &&visit) {
  visit(&StepChoice::parallel, ChoiceInfo{.option = "parallel"});
  visit(&StepChoice::batch, ChoiceInfo{.option = "batch", .isWritten = true, .isSearched = true});
  visit(&StepChoice::microBatches,
        ChoiceInfo{.option = "micro-batches",
                   .help = "Micro-batches of --batch sequences in one step, whose gradients are added up\n"
                           "   (gradient accumulation). Default: 1; in moe-plan from --global-batch",
                   .value = "number",
                   .isWritten = true});
  visit(&StepChoice::interleave,
        ChoiceInfo{.option = "interleave",
                   .words = "VPP {}",
                   .help = "Pipeline stages on each device (VPP). With 1f1b they need micro-batches that\n"
                           "   are a multiple of pp. Default: 1; 2 with zb-v and dualpipe-v",
                   .value = "number",
                   .isSearched = true,
                   .needsTraining = true});
  visit(&StepChoice::pipelineOrder,
        ChoiceInfo{.option = "pipeline",
                   .words = "{}",
                   .help = "Order of a pipeline's forwards and backwards: 1f1b, 1f1b-overlap, zb-h1,\n"
                           "   zb-v, dualpipe-v or search, the fastest that is found. 1f1b-overlap runs\n"
                           "   forwards beside backwards, also without a pipeline. All but 1f1b postpone\n"
                           "   weight gradients to where a device would wait. Default: 1f1b",
                   .value = "order",
                   .values = "1f1b|1f1b-overlap|zb-h1|zb-v|dualpipe-v|search",
                   .isSearched = true,
                   .needsTraining = true});
  visit(&StepChoice::sideBySide,
        ChoiceInfo{.option = "side-by-side",
                   .words = "{} side by side",
                   .help = "Neighbouring micro-batches whose forwards a device orders together, and whose\n"
                           "   backwards too. Exchanges of one then run beside attention and experts of\n"
                           "   another. It is equivalent to cutting a larger micro-batch into chunks of\n"
                           "   sequences. Default: 1",
                   .value = "number",
                   .isHidden = true,
                   .needsTraining = true});
  visit(&StepChoice::stageBoundaries,
        ChoiceInfo{.option = "stage-boundaries",
                   .help = "Where the stages of a pipeline begin, counted in parts of the model, and\n"
                           "   then the number of all parts. moe-plan prints such a list. Example for two\n"
                           "   stages of 8 parts: 0,4,8. Default: stages of about equal time on the cluster",
                   .value = "list",
                   .isHidden = true});
  visit(&StepChoice::recompute,
        ChoiceInfo{.option = "recompute",
                   .words = "recompute {}",
                   .help = "Activations to recompute in the backward: none, light, selective, cheap-4,\n"
                           "   cheap-6, cheap-8, cheap or block, from the fewest to all. selective: ops that\n"
                           "   only move memory. cheap: all that takes less than 12 times as long to compute\n"
                           "   as to write. Default: none; block without a value",
                   .value = "level",
                   .values = "none|light|selective|cheap-4|cheap-6|cheap-8|cheap|block",
                   .alone = "block",
                   .isSearched = true,
                   .needsTraining = true});
  visit(&StepChoice::zero,
        ChoiceInfo{.option = "zero",
                   .words = "ZeRO-{}",
                   .help = "State that is divided over data-parallel ranks (ZeRO): 1, that of the\n"
                           "   optimizer; 2, also the sums of gradients; 3, also the parameters (FSDP).\n"
                           "   Default: 0, none; 1 without a value",
                   .value = "0|1|2|3",
                   .values = "0|1|2|3",
                   .alone = "1",
                   .isSearched = true,
                   .needsTraining = true,
                   .hasEffect = [](ParallelAttr all) { return all.getTokenGroup().getSize() > 1; }});
  visit(&StepChoice::sequenceParallel,
        ChoiceInfo{.option = "sequence-parallel",
                   .words = "sequence parallel",
                   .help = "Divide tokens over mp in norms, dropout and residual sums. Default: off",
                   .isSearched = true,
                   .hasEffect = [](ParallelAttr all) { return all.getMp() > 1; }});
  visit(&StepChoice::ringAttention,
        ChoiceInfo{.option = "ring-attention",
                   .words = "ring attention",
                   .help = "Send keys and values round cp instead of gathering them. Default: off",
                   .isSearched = true,
                   .hasEffect = [](ParallelAttr all) { return all.getCp() > 1; }});
  visit(&StepChoice::schedule, ChoiceInfo{.option = "schedule"});
  visit(&StepChoice::maxLoad, ChoiceInfo{.option = "max-load", .isSearched = true});
}

/// The value of a choice as its option takes it; empty where none was chosen.
std::string getText(ParallelAttr parallel);
std::string getText(int64_t number);
std::string getText(bool flag);
std::string getText(PipelineOrder order);
std::string getText(Recompute recompute);
std::string getText(ArrayRef<int64_t> numbers);
std::string getText(const std::string &text);
std::string getText(std::optional<double> number);

/// Reads the value of an option into `value`; false where it is none.
bool parseText(StringRef text, int64_t &value);
bool parseText(StringRef text, PipelineOrder &value);
bool parseText(StringRef text, Recompute &value);
bool parseText(StringRef text, SmallVector<int64_t> &value);

/// "pp=1,dp=4,mp=2,ep=4,esp=2".
std::string describe(ParallelAttr parallel);
/// The schedule, and what else is chosen besides groups and micro-batches: "s1, VPP 4, recompute block, ZeRO-1".
std::string describeChoices(const StepChoice &choice);
/// Options of moe-compile: "--parallel=.. --batch=.. ..". Those at their defaults are left out.
std::string describeOptions(const StepChoice &choice);

/// Sizes of groups that are given.
struct GivenGroups {
  bool isOpen = false; ///< the others are searched
  std::optional<int64_t> pp, dp, cp, mp, ep, esp;
};
/// Reads `pp=1,dp=4,cp=1,mp=2,ep=4,esp=2`, or the same after `auto,`. Errors are reported at an unknown location.
FailureOr<GivenGroups> parseGroups(MLIRContext *context, StringRef text);
/// A size that is not given is 1, except dp, which is as large as the experts need: max(1, ep * esp / (cp * mp)).
FailureOr<ParallelAttr> makeParallel(MLIRContext *context, const GivenGroups &given);
/// Both, of groups that are not open.
FailureOr<ParallelAttr> parseParallel(MLIRContext *context, StringRef text);

} // namespace mlir::moe

#endif // MOE_COMPILER_STEPCHOICE_H

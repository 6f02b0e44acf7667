//===- RoutingCommandLine.cpp - what tokens choose, by options ------------===//
#include "RoutingCommandLine.h"

#include "CompileCommandLine.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

RoutingCommandLine::RoutingCommandLine(cl::OptionCategory &category)
    : file("routing", cl::desc("Routing trace: tokens of each rank for each expert. Default: even routing"),
           cl::value_desc("file"), cl::cat(category)),
      synthetic("synthetic-routing", cl::ValueOptional,
                cl::desc("Routing that is generated with the statistics of real training. Options and\n"
                         "   their defaults: preset=aux-loss,seed=0,iterations=1. Presets: aux-loss,\n"
                         "   global-loss and aux-free are balanced training, and unbalanced is late\n"
                         "   in training, from iteration first=500 on. skew=X sets how uneven the\n"
                         "   routing is"),
                cl::value_desc("options"), cl::cat(category)) {}

FailureOr<std::optional<RoutingSource>> RoutingCommandLine::getSource(MLIRContext &context) const {
  if (isSynthetic() && !file.empty())
    return emitError(UnknownLoc::get(&context)) << "--routing and --synthetic-routing are mutually exclusive";
  if (!isSynthetic() && file.empty())
    return std::optional<RoutingSource>();
  RoutingSource source;
  if (isSynthetic()) {
    llvm::Expected<SyntheticRouting> parsed = SyntheticRouting::parse(synthetic);
    if (!parsed)
      return reportError(context, parsed.takeError());
    source.synthetic = *parsed;
    return std::optional(std::move(source));
  }
  llvm::Expected<RoutingTrace> trace = RoutingTrace::load(file);
  if (!trace)
    return reportError(context, trace.takeError());
  source.trace = std::move(*trace);
  return std::optional(std::move(source));
}

std::string RoutingCommandLine::describe() const {
  if (isSynthetic()) {
    llvm::StringRef given = synthetic;
    SyntheticRouting routing = llvm::cantFail(SyntheticRouting::parse(given));
    llvm::SmallVector<std::string> parts;
    if (!given.contains("preset="))
      parts.push_back(("preset=" + routing.preset.name).str());
    if (!given.empty())
      parts.push_back(given.str());
    if (routing.first > 0 && !given.contains("first="))
      parts.push_back("first=" + std::to_string(routing.first));
    return "synthetic " + llvm::join(parts, ",");
  }
  return file.empty() ? "even" : file.getValue();
}

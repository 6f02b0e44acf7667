//===- JobCommandLine.cpp - a job of another framework --------------------===//
#include "CompileCommandLine.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ScopedPrinter.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

void CompileCommandLine::setStepDefaults(bool isOpen) {
  setDefault("seq", llvm::Twine(job->sequence));
  setDefault("dtype", job->dtype);
  if (isTraining()) {
    setDefault("optimizer", job->optimizer);
    setDefault("grad-dtype", job->wideGradients ? "f32" : "model");
    for (auto [option, number] : job->optimizerNumbers)
      setDefault(option, llvm::to_string(llvm::format("%.9g", number)));
  }
  if (isOpen && !isGiven("micro-batches"))
    setDefault("global-batch", llvm::Twine(job->globalBatch));
}

void CompileCommandLine::setPlanDefaults() {
  visitChoices([&](auto member, const ChoiceInfo &info) {
    std::string text = getText(job->plan.*member);
    bool isOther = (info.needsTraining && !isTraining()) || (info.option == "micro-batches" && isGiven("global-batch"));
    if (!text.empty() && !isOther)
      setDefault(info.option, text);
  });
}

LogicalResult CompileCommandLine::takeJob(MLIRContext &context, int64_t ranks) {
  StringRef file = importing.getMegatronFile();
  if (file.empty() == input.empty())
    return emitUsageError(context) << "expected a model or --megatron-args, and one of them"
                                   << (input.empty() ? "" : ", but got both");
  if (file.empty())
    return success();
  setInput(file);
  setDefault("whole-model", "true");
  llvm::Expected<ModelConfig> model = importing.parse(input);
  if (!model)
    return printError(model.takeError());
  if (!model->model)
    return emitUsageError(context) << "expected --whole-model with --megatron-args, which is a job of a whole model";
  llvm::Expected<const MegatronArguments *> arguments = importing.getMegatron();
  if (!arguments)
    return printError(arguments.takeError());
  bool isSearched = ranks > 0 || isOpen();
  if (ranks == 0)
    ranks = world > 0 ? int64_t(world) : getMegatronRanks(**arguments);
  if (ranks == 0)
    return emitUsageError(context) << "expected --world=RANKS with --megatron-args: '" << file
                                   << "' does not say how many ranks there are";
  context.loadDialect<MoeDialect>();
  llvm::Expected<MegatronJob> read =
      readMegatronJob(&context, **arguments, ranks, importing.countBlocks(*model), model->layer.experts);
  if (!read)
    return printError(read.takeError());
  job = std::move(*read);
  for (const ConfigRemark &remark : job->remarks)
    llvm::errs() << llvm::formatv("{0}:{1}:{2}: warning: {3}\n", file, remark.place.line, remark.place.column,
                                  remark.text);
  setStepDefaults(isSearched);
  if (!isSearched)
    setPlanDefaults();
  return success();
}

/// Lets stages of `plan` begin with these blocks; otherwise they take about equal time.
static void cutAtBlocks(MLIRContext &context, ArrayRef<int64_t> firstBlocks, const ModelSource &source,
                        const PlanOptions &options, Candidate &plan) {
  int64_t stages = plan.parallel.getPp() * plan.interleave;
  if (plan.parallel.getPp() == 1 || static_cast<int64_t>(firstBlocks.size()) != stages)
    return;
  std::string reason;
  if (std::optional<SmallVector<int64_t>> parts = getBlockParts(source, options, plan, reason))
    plan.stageBoundaries = getStageBoundaries(*parts, firstBlocks);
  if (plan.stageBoundaries.empty())
    emitWarning(UnknownLoc::get(&context))
        << "stages take about equal time, and do not begin with the blocks that are asked for"
        << (reason.empty() ? "" : ": " + reason);
}

FailureOr<SmallVector<int64_t>> CompileCommandLine::readStageBlocks(MLIRContext &context, int64_t stages,
                                                                    int64_t blocks) const {
  auto fail = [&] {
    return emitUsageError(context) << "expected --stage-blocks to name the blocks of " << stages
                                   << " stages, at least 0 each and " << blocks << " together";
  };
  SmallVector<int64_t> first;
  int64_t next = 0;
  for (int64_t count : stageBlocks) {
    if (count < 0 || count > blocks)
      return fail();
    first.push_back(next);
    next += count;
  }
  if (next != blocks || static_cast<int64_t>(first.size()) != stages)
    return fail();
  return first;
}

LogicalResult CompileCommandLine::setStages(Session &session, PlanOptions &options) const {
  if (isOpen() || !options.stageBoundaries.empty() || (!job && stageBlocks.empty()))
    return success();
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  FailureOr<ModelSource> source = getSource(session, shapes->front());
  if (failed(source))
    return failure();
  Candidate plan;
  static_cast<StepChoice &>(plan) = options;
  plan.batch = shapes->front().batch;
  FailureOr<SmallVector<int64_t>> first = job ? job->firstBlocks : SmallVector<int64_t>();
  if (!stageBlocks.empty())
    first = readStageBlocks(session.context, plan.parallel.getPp() * plan.interleave,
                            static_cast<int64_t>(source->kinds.size()));
  if (failed(first))
    return failure();
  cutAtBlocks(session.context, *first, *source, options, plan);
  if (!stageBlocks.empty() && plan.stageBoundaries.empty())
    return emitUsageError(session.context) << "stages cannot begin with the blocks of --stage-blocks; give each stage "
                                              "between the first and the last at least one block";
  options.stageBoundaries = plan.stageBoundaries;
  return success();
}

/// Adds `value` to values that are open.
template <class Values> static void addValue(Values &values, int64_t value) {
  if (values.size() > 1 && !llvm::is_contained(values, value))
    values.push_back(value);
}

void CompileCommandLine::addJob(ParallelSearchInput &search) const {
  if (!job)
    return;
  search.request.job = job->plan;
  cutAtBlocks(*search.options.parallel.getContext(), job->firstBlocks, search.source, search.options,
              *search.request.job);
  addValue(search.request.space.batches, job->plan.batch);
  addValue(search.request.space.interleaves, job->plan.interleave);
}

FailureOr<FrameworkAdvice> CompileCommandLine::advise(MLIRContext &context, const ParallelSearchInput &search,
                                                      const Candidate &chosen,
                                                      llvm::ArrayRef<FrameworkTarget> targets) const {
  if (isGraph())
    return emitUsageError(context) << "expected a configuration, whose sizes are arguments of a framework, but '"
                                   << input << "' is a model graph";
  llvm::Expected<ModelConfig> model = importing.parse(input);
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (!model)
    return printError(model.takeError());
  if (failed(shapes))
    return failure();
  if (!model->model)
    return emitUsageError(context) << "expected --whole-model: a framework trains whole models";
  model->model->blocks.truncate(importing.countBlocks(*model));
  const std::optional<MoeOptimizeOptions> &optimizer = search.options.optimizer;
  FrameworkAdvice advice{{std::move(*model), chosen, shapes->front().seq, getDType().str(), /*optimizer=*/""}, {}};
  advice.job.optimizer = !optimizer ? "" : optimizer->kind == OptimizerKind::Adam ? "adam" : "sgd";
  advice.job.wideGradients = search.options.wideGradients;
  advice.job.precision = search.options.cluster->precision;
  advice.job.precisionFramework = search.options.cluster->framework;
  if (description)
    advice.job.arguments = description->getArguments(getUse());
  advice.all = moe::advise(targets, advice.job, search.source, search.options);
  return advice;
}

//===- PlanAnswer.cpp - how to run a model on a cluster, in three lines ---===//
#include "moe/Report/PlanAnswer.h"

#include "moe/Cost/FrameworkProfile.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

/// Most columns of a line.
static constexpr size_t kMostColumns = 100;

/// Prints `text` after `title`, on as many lines as it needs. All lines but the last end in `joined`.
static void printLines(StringRef title, StringRef text, StringRef joined, llvm::raw_ostream &os) {
  constexpr StringLiteral indent = "        ";
  std::string line = title.str();
  SmallVector<StringRef> words;
  text.split(words, ' ');
  bool isFirst = true;
  for (StringRef word : words) {
    if (!isFirst && line.size() + 1 + word.size() + joined.size() > kMostColumns) {
      os << line << joined << "\n";
      line = indent.str();
      isFirst = true;
    }
    line += (isFirst ? "" : " ") + word.str();
    isFirst = false;
  }
  os << line << "\n";
}

/// Percentage of the step.
static double getShare(const StepFigures &step, double seconds) {
  return step.seconds > 0 ? 100 * seconds / step.seconds : 0;
}

static int64_t getGlobalBatch(const Candidate &one) { return one.batch * one.parallel.getDp() * one.microBatches; }

static void printSizes(StringRef title, const Candidate &one, llvm::raw_ostream &os) {
  ParallelAttr all = one.parallel;
  std::string text;
  llvm::raw_string_ostream(text) << "TP" << all.getMp() << " PP" << all.getPp() << " DP" << all.getDp() << " EP"
                                 << all.getEp() << " ETP" << all.getEsp() << " CP" << all.getCp() << ", MBS "
                                 << one.batch << ", GA " << one.microBatches << "; " << describeChoices(one);
  printLines(title, text, "", os);
}

static void printSpeed(const StepFigures &step, llvm::raw_ostream &os) {
  StepSpeed speed = step.getSpeed();
  if (speed.tokensPerSecond > 0)
    os << llvm::format(": %.0f tokens/s/GPU, %.0f TFLOP/s/GPU, MFU %.1f%%", speed.tokensPerSecond,
                       speed.flopsPerSecond * 1e-12, 100 * speed.mfu);
}

static const StepFigures &getStep(const Candidate &one) { return one.whole.seconds > 0 ? one.whole : one.estimate; }

static void printStep(const Candidate &one, llvm::raw_ostream &os) {
  const StepFigures &step = getStep(one);
  os << llvm::format("step    %.1f ms", step.seconds * 1e3) << (one.whole.seconds > 0 ? "" : " (estimated)");
  printSpeed(step, os);
  if (step.parts.getSum() > 0)
    os << llvm::format("\n        bubble %.1f%%, exposed communication %.1f%% (%.0f%% hidden)",
                       getShare(step, step.parts.bubble), getShare(step, step.parts.exposedCommunication),
                       100 * step.parts.getHiddenShare());
  os << "\n        how sure: ";
  if (step.high > 0)
    os << describeTimes({.low = step.low, .high = step.high, .steps = step.ownSteps, .isOwn = step.ownSteps > 0})
       << "\n";
  else
    os << "unknown: " << kNoMeasuredSteps << "\n";
}

/// Prints the used part of the memory.
static void printMemory(const PlanQuestion &question, const Candidate &one, llvm::raw_ostream &os) {
  os << llvm::format("%.1f GB", static_cast<double>(one.getBytes()) * 1e-9);
  if (question.memoryLimit > 0)
    os << llvm::format(" of %.1f GB", question.memoryLimit * 1e-9);
}

/// Prints the memory by the rows that arrive, on lines of their own.
static void printRoutedMemory(const PlanQuestion &question, const RoutedMemory &memory, llvm::raw_ostream &os) {
  auto print = [&](StringRef routing, const RoutedBytes &its) {
    os << llvm::format("        %6.1f GB with ", static_cast<double>(its.bytes) * 1e-9) << routing;
    if (its.load > 1)
      os << llvm::format(": the busiest rank has %.2f times the even load", its.load);
    if (question.memoryLimit > 0 && static_cast<double>(its.bytes) > question.memoryLimit)
      os << "; does not fit";
    os << "\n";
  };
  if (memory.worst.load <= 1) {
    os << "        the same with any routing, because each rank has all experts\n";
    return;
  }
  print("even routing, as the framework keeps the rows that arrive", memory.even);
  print("the expected routing", memory.expected);
  print("the worst routing", memory.worst);
}

/// Prints a row of the ladder.
static void printRung(const JobLadder &ladder, const Candidate &plan, int64_t changes, StringRef name,
                      llvm::raw_ostream &os) {
  JobGain gain = ladder.getGain(plan, changes);
  double change = gain.seconds - ladder.job.whole.seconds;
  os << llvm::format("        %9.1f %+10.1f  %5.2f ", gain.seconds * 1e3, change * 1e3, gain.times);
  if (gain.high > 0)
    os << llvm::format("(%.2f to %.2f)%c", gain.low, gain.high, gain.isClear ? ' ' : '~');
  else
    os << "(? to ?)       ";
  os << llvm::format(" %6.1f  ", static_cast<double>(plan.getBytes()) * 1e-9) << name
     << (ladder.fits(plan) ? "" : ": does not fit") << "\n";
}

/// Prints what each single change of the job gains, and then the choice.
static void printLadder(const JobLadder &ladder, llvm::raw_ostream &os) {
  os << "ladder  each change alone, made to the job\n"
     << "          step ms     change  times as fast           GB  what changes\n";
  for (const JobChange &change : ladder.changes)
    printRung(ladder, change.plan, 1, change.name, os);
  std::string name = "the plan above";
  if (ladder.bestChanges > 1)
    name += ", with " + std::to_string(ladder.bestChanges) + " changes";
  printRung(ladder, ladder.best, std::max<int64_t>(1, ladder.bestChanges), name, os);
  if (ladder.pairError > 0)
    os << llvm::format("        In brackets: two thirds of measured pairs were within %.0f%% of the predicted ratio.\n",
                       100 * std::expm1(ladder.pairError))
       << "        ~: the gain is within this error; measure both\n";
  else
    os << "        ?: no measured pairs are known, so that a gain is as sure as the predictions are\n";
}

/// Prints the job that the user runs, and what changes of it gain.
static void printJob(const PlanQuestion &question, const AnswerParts &parts, llvm::raw_ostream &os) {
  const JobLadder &ladder = *parts.ladder;
  const Candidate &job = ladder.job;
  printSizes("job     ", job, os);
  if (job.whole.seconds == 0) {
    os << "        not simulated: " << job.reason << "\n";
    return;
  }
  os << llvm::format("        %.1f ms", job.whole.seconds * 1e3);
  printSpeed(job.whole, os);
  os << "\n        ";
  printMemory(question, job, os);
  if (!ladder.fits(job))
    os << ", more than there is, in MoePlan's plan of it";
  os << "\n";
  if (parts.jobMemory)
    printRoutedMemory(question, *parts.jobMemory, os);
  printLadder(ladder, os);
}

/// Prints the parts of the framework that were compared, several on a line.
static void printTrials(const PlanQuestion &question, llvm::raw_ostream &os) {
  if (question.trials.size() < 2)
    return;
  std::string line = "        compared:";
  for (auto [index, trial] : llvm::enumerate(question.trials)) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << " " << trial.first << " ";
    if (trial.second > 0)
      stream << llvm::format("%.1f ms", trial.second * 1e3);
    else
      stream << "has no plan";
    text += index + 1 < question.trials.size() ? "," : "";
    if (line.size() + text.size() > kMostColumns) {
      os << line << "\n";
      line = "       ";
    }
    line += text;
  }
  os << line << "\n";
}

void mlir::moe::printAnswer(const PlanQuestion &question, const Candidate &chosen, const AnswerParts &parts,
                            llvm::raw_ostream &os) {
  os << question.model << " on " << question.gpus << " x " << question.device << " (" << question.cluster << "), ";
  if (question.sequence > 0)
    os << "a step of " << getGlobalBatch(chosen) << " sequences of " << question.sequence << " tokens, "
       << question.dtype;
  else
    os << "a step of the graph's tokens";
  if (!question.precision.empty())
    os << ", products in " << question.precision;
  if (!question.optimizer.empty())
    os << ", " << question.optimizer;
  os << "\n";
  if (int64_t all = question.parameters, active = question.activeParameters; all > 0) {
    os << llvm::format("model   %.2f G parameters", static_cast<double>(all) * 1e-9);
    if (active < all)
      os << llvm::format(", of which a token uses %.2f G", static_cast<double>(active) * 1e-9);
    os << "\n";
  }
  os << "for     "
     << (question.framework.empty()
             ? "MoePlan's own runtime; --framework=NAME plans for another framework"
             : question.framework + " with " + FrameworkUse{question.dispatcher, question.graph}.describe() +
                   ", and only what it runs")
     << "\n";
  printTrials(question, os);
  printSizes("groups  ", chosen, os);
  // A shell joins these lines.
  printLines("        ", describeOptions(chosen), " \\", os);
  printStep(chosen, os);
  os << "memory  ";
  printMemory(question, chosen, os);
  os << " on the fullest device" << (question.precision.empty() ? "" : ", with all activations in the plan's types")
     << "\n";
  if (parts.memory)
    printRoutedMemory(question, *parts.memory, os);
  if (parts.ladder)
    printJob(question, parts, os);
}

static void writeRung(llvm::json::OStream &json, const JobLadder &ladder, const Candidate &plan, int64_t changes,
                      StringRef name) {
  JobGain gain = ladder.getGain(plan, changes);
  json.object([&] {
    json.attribute("change", name);
    json.attribute("changes", changes);
    json.attribute("options", describeOptions(plan));
    json.attribute("seconds", gain.seconds);
    json.attribute("times_as_fast", gain.times);
    if (gain.high > 0) {
      json.attribute("times_low", gain.low);
      json.attribute("times_high", gain.high);
      json.attribute("is_clear", gain.isClear);
    }
    json.attribute("memory_bytes", plan.getBytes());
    json.attribute("fits", ladder.fits(plan));
  });
}

static void writeRoutedMemory(llvm::json::OStream &json, const std::optional<RoutedMemory> &memory) {
  if (!memory)
    return;
  json.attributeArray("memory_by_routing", [&] {
    auto write = [&](StringRef routing, const RoutedBytes &its) {
      json.object([&] {
        json.attribute("routing", routing);
        json.attribute("load", its.load);
        json.attribute("bytes", its.bytes);
      });
    };
    write("even", memory->even);
    write("expected", memory->expected);
    write("worst", memory->worst);
  });
}

static void writeJob(llvm::json::OStream &json, const AnswerParts &parts) {
  const JobLadder &ladder = *parts.ladder;
  const Candidate &job = ladder.job;
  json.attributeObject("job", [&] {
    json.attribute("parallel", describe(job.parallel));
    json.attribute("options", describeOptions(job));
    if (job.whole.seconds == 0)
      return json.attribute("unknown", job.reason);
    StepSpeed speed = job.whole.getSpeed();
    json.attribute("seconds", job.whole.seconds);
    json.attribute("tokens_per_second_per_gpu", speed.tokensPerSecond);
    json.attribute("mfu", speed.mfu);
    json.attribute("memory_bytes", job.getBytes());
    writeRoutedMemory(json, parts.jobMemory);
    json.attributeArray("ladder", [&] {
      for (const JobChange &change : ladder.changes)
        writeRung(json, ladder, change.plan, 1, change.name);
      writeRung(json, ladder, ladder.best, std::max<int64_t>(1, ladder.bestChanges), "the plan");
    });
  });
}

void mlir::moe::writeAnswer(const PlanQuestion &question, const Candidate &chosen, const AnswerParts &parts,
                            llvm::raw_ostream &os) {
  ParallelAttr all = chosen.parallel;
  const StepFigures &step = getStep(chosen);
  StepSpeed speed = step.getSpeed();
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("model", question.model);
    json.attribute("parameters", question.parameters);
    json.attribute("active_parameters", question.activeParameters);
    json.attribute("cluster", question.cluster);
    json.attribute("device", question.device);
    json.attribute("framework", question.framework.empty() ? "moeplan" : question.framework);
    if (!question.framework.empty()) {
      json.attribute("dispatcher", question.dispatcher);
      json.attribute("cuda_graph", question.graph);
    }
    json.attribute("gpus", question.gpus);
    if (question.sequence > 0) {
      json.attribute("sequence", question.sequence);
      json.attribute("global_batch", getGlobalBatch(chosen));
      json.attribute("dtype", question.dtype);
    }
    if (!question.precision.empty())
      json.attribute("precision", question.precision);
    json.attribute("optimizer", question.optimizer);
    json.attributeObject("megatron", [&] {
      json.attribute("tensor_model_parallel_size", all.getMp());
      json.attribute("pipeline_model_parallel_size", all.getPp());
      json.attribute("data_parallel_size", all.getDp());
      json.attribute("expert_model_parallel_size", all.getEp());
      json.attribute("expert_tensor_parallel_size", all.getEsp());
      json.attribute("context_parallel_size", all.getCp());
      json.attribute("virtual_pipeline_model_parallel_size", chosen.interleave);
      json.attribute("overlap_moe_expert_parallel_comm", chosen.pipelineOrder == PipelineOrder::Overlapped1F1B);
      json.attribute("micro_batch_size", chosen.batch);
      json.attribute("gradient_accumulation_steps", chosen.microBatches);
    });
    visitChoices([&](auto member, const ChoiceInfo &info) {
      if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(chosen.*member)>>)
        json.attribute(info.getKey(), chosen.*member);
      else if (std::string text = getText(chosen.*member); !text.empty())
        json.attribute(info.getKey(), text);
    });
    json.attribute("options", describeOptions(chosen));
    json.attribute("is_estimate", chosen.whole.seconds == 0);
    json.attribute("seconds", step.seconds);
    json.attribute("tokens_per_second_per_gpu", speed.tokensPerSecond);
    json.attribute("flops_per_second_per_gpu", speed.flopsPerSecond);
    json.attribute("mfu", speed.mfu);
    json.attribute("bubble_seconds", step.parts.bubble);
    json.attribute("exposed_communication_seconds", step.parts.exposedCommunication);
    json.attribute("hidden_communication_seconds", step.parts.hiddenCommunication);
    json.attribute("memory_bytes", chosen.getBytes());
    json.attribute("memory_limit_bytes", question.memoryLimit);
    writeRoutedMemory(json, parts.memory);
    if (parts.ladder)
      writeJob(json, parts);
    auto writeRaw = [&](StringRef key, StringRef value) {
      if (value.empty())
        return;
      json.attributeBegin(key);
      json.rawValue(value.trim());
      json.attributeEnd();
    };
    writeRaw("frameworks", parts.frameworks);
    writeRaw("explanation", parts.explanation);
  });
  os << "\n";
}

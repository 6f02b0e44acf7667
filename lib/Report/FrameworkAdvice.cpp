//===- FrameworkAdvice.cpp - a plan in other frameworks, in words ---------===//
#include "Json.h"

#include "moe/Report/Explanations.h"

using namespace mlir;
using namespace mlir::moe;

static std::string getArguments(const Advice &one, const PlannedJob &job) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeArguments(one, job, os);
  return text;
}

void mlir::moe::printAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os) {
  for (const Advice &one : advice.all)
    os << "== to use this in " << getNames(one.target.framework).title
       << " (moe-plan --emit=" << getNames(one.target.framework).name << ") ==\n\n"
       << getArguments(one, advice.job) << "\n";
}

static void writeOmission(llvm::json::OStream &json, const Omission &one) {
  json.attribute("feature", one.feature);
  json.attribute("reason", one.reason);
  if (!one.instead.empty())
    json.attribute("instead", one.instead);
  if (one.seconds > 0)
    json.attribute("seconds", one.seconds);
  else
    json.attribute("unknown", one.unknown);
  if (one.isRefused)
    json.attribute("refused", true);
}

void mlir::moe::writeAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.array([&] {
    for (const Advice &one : advice.all)
      json.object([&] {
        json.attribute("name", getNames(one.target.framework).name);
        json.attribute("title", getNames(one.target.framework).title);
        json.attribute("version", one.target.getTag());
        if (one.isRefused()) {
          json.attribute("unknown", "the framework cannot run the plan");
        } else if (one.runnable.whole.seconds > 0) {
          json.attribute("seconds", one.runnable.whole.seconds);
          json.attribute("memory_bytes", one.runnable.getBytes());
        } else {
          json.attribute("unknown", one.unknown);
        }
        writeObjects(json, "omissions", one.omissions, writeOmission);
        json.attribute("model_gaps", one.modelGaps);
        json.attribute("arguments", getArguments(one, advice.job));
      });
  });
}

//===- Call.cpp - one call of a plan, resolved ----------------------------===//

#include "core/Call.h"

#include "core/Metadata.h"

namespace moert {

std::string operandText(const View &view) {
  return shapeText({view.dims.begin(), view.dims.begin() + view.rank}) + " " + dtypeName(view.dtype);
}

Status Repetition::check(int64_t count) const {
  if (count >= 0 && count <= most)
    return {};
  return Status::error(MOERT_ERROR_OVERFLOW, "expected a loop to run 0 to ", most,
                       " times, which is what the plan has, but it is to run ", count, " times");
}

int64_t usedRows(const Call &call) {
  if (call.countsView < 0 || !call.views[call.countsView])
    return -1;
  const View &counts = call.views[call.countsView];
  const int32_t *values = counts.as<int32_t>();
  int64_t columns = counts.rank ? counts.dims[counts.rank - 1] : 1;
  int64_t begin = columns * call.countsPart / call.countsParts;
  int64_t end = columns * (call.countsPart + 1) / call.countsParts;
  int64_t rows = 0;
  for (int64_t first = 0, e = counts.elements(); first < e; first += columns)
    for (int64_t i = begin; i < end; ++i)
      rows += values[first + i];
  return rows;
}

std::string callName(const Program &program, const Call &call) {
  std::string text = "op " + std::to_string(call.op) + " " + kindName(call.kind);
  const bool hasLabel = call.op < std::ssize(program.ops) && !program.ops[call.op].label.empty();
  return hasLabel ? text + " '" + program.ops[call.op].label + "'" : text;
}

} // namespace moert

//===- Report.cpp - what moe-run prints -----------------------------------===//

#include "run/Report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

using nlohmann::json;

namespace moert::run {
namespace {

struct StepTimes {
  double min = 0, median = 0, max = 0; ///< ms
};

StepTimes stepTimes(std::vector<double> seconds) {
  if (seconds.empty())
    return {};
  std::sort(seconds.begin(), seconds.end());
  size_t count = seconds.size();
  double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  return {seconds.front() * 1e3, median * 1e3, seconds.back() * 1e3};
}

/// A number or text as JSON; null for 0 or an empty text.
template <class T> json orNull(const T &value) { return value == T() ? json(nullptr) : json(value); }

json departureJson(const std::optional<Departure> &departure) {
  if (!departure)
    return nullptr;
  return {{"op", departure->op},         {"rank", departure->rank}, {"ranks", departure->ranks},
          {"before", departure->before}, {"next", departure->next}, {"after", departure->after},
          {"cause", departure->cause}};
}

json verificationJson(const Verification *verification) {
  if (!verification)
    return nullptr;
  json values = json::array();
  for (const Comparison &value : verification->values)
    values.push_back({{"name", value.name},
                      {"relative_error", value.relativeError},
                      {"bound", value.bound},
                      {"mostly_rounding", value.isRounding()}});
  return {{"ok", verification->ok()},
          {"dtype", verification->dtype},
          {"draws", verification->draws},
          {"rounded_runs", verification->roundedRuns},
          {"tokens", verification->tokens},
          {"near_ties", verification->nearTies},
          {"near_jumps", verification->nearJumps},
          {"crossed_jumps", verification->crossed},
          {"all_jumps_searched", verification->searchesJumps},
          {"max_relative_error", verification->maxError()},
          {"departure", departureJson(verification->departure)},
          {"values", values}};
}

/// Calls visit(program, op, totals) for each op of each program.
template <class Visit> void forEachOp(const Report &report, Visit visit) {
  const OpTotals *totals = report.result.ops.data();
  for (const Program &program : report.programs)
    for (const Op &op : program.ops)
      visit(program, op, *totals++);
}

/// Bytes of the largest arena of `space`.
int64_t arenaBytes(const Report &report, int32_t space) {
  int64_t most = 0;
  for (const Program &program : report.programs)
    most = std::max(most, program.arenaBytes[space]);
  return most;
}

/// Objects for each collective and group that ran. Calls are those of one rank, in the program with the most calls.
json collectivesJson(const Report &report) {
  struct Sum {
    std::map<const Program *, double> calls;
    double bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  forEachOp(report, [&](const Program &program, const Op &op, const OpTotals &totals) {
    if (op.group < 0 || totals.collectives == 0)
      return;
    Sum &sum = sums[{op.name, report.groupOf(op)}];
    sum.calls[&program] += totals.collectives / static_cast<double>(program.numRanks);
    sum.bytes += totals.bytesReceived;
  });
  json result = json::array();
  for (const auto &[key, sum] : sums) {
    double calls = 0;
    for (const auto &[program, count] : sum.calls)
      calls = std::max(calls, count);
    result.push_back({{"collective", key.first},
                      {"group", key.second},
                      {"calls", std::llround(calls)},
                      {"bytes_received", std::llround(sum.bytes)}});
  }
  return result;
}

json memoryJson(const ArenaUse (&arenas)[2]) {
  auto use = [](const ArenaUse &arena) { return json{{"planned", arena.planned}, {"measured", arena.measured}}; };
  return {{"device", use(arenas[MOERT_SPACE_DEVICE])}, {"host_pinned", use(arenas[MOERT_SPACE_HOST_PINNED])}};
}

template <class... Args> std::string format(const char *pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// Text of at most `width` columns. Longer text is cut in the middle.
std::string fitted(const std::string &text, size_t width) {
  if (text.size() <= width)
    return text;
  size_t tail = (width - 2) / 2;
  return text.substr(0, width - 2 - tail) + ".." + text.substr(text.size() - tail);
}

/// Prints the table of a program. `totals` are those of its ops.
void printProgram(const Report &report, const Program &program, const OpTotals *totals, std::ostream &out) {
  auto ranks = static_cast<double>(program.numRanks);
  out << format("%5s  %-40s %-12s %-8s %9s %9s %9s\n", "op", "name (label)", "stream", "group", "MB", "GFLOP", "ms");
  for (size_t i = 0; i < program.ops.size(); ++i, ++totals) {
    const Op &op = program.ops[i];
    std::string name = op.label.empty() ? op.name : op.name + " (" + op.label + ")";
    double bytes = totals->bytesSent > 0 ? totals->bytesSent : totals->bytes;
    out << format("%5zu  %-40s %-12s %-8s %9.3f %9.3f %9.3f\n", i, fitted(name, 40).c_str(),
                  fitted(program.streams[static_cast<size_t>(op.stream)], 12).c_str(),
                  fitted(report.groupOf(op), 8).c_str(), bytes / ranks * 1e-6, totals->flops / ranks * 1e-9,
                  totals->seconds / ranks * 1e3);
  }
}

/// Text of a program's ranks, "ranks 0 to 3".
std::string ranksText(const Program &program) {
  int64_t last = program.firstRank + program.numRanks - 1;
  return last == program.firstRank ? "rank " + std::to_string(last)
                                   : "ranks " + std::to_string(program.firstRank) + " to " + std::to_string(last);
}

void printOps(const Report &report, std::ostream &out) {
  const OpTotals *totals = report.result.ops.data();
  bool several = report.programs.size() > 1;
  for (const Program &program : report.programs) {
    if (several)
      out << (&program == report.programs.data() ? "" : "\n") << ranksText(program) << ":\n";
    printProgram(report, program, totals, out);
    totals += program.ops.size();
  }
  out << "MB (read and written, or sent on the group), GFLOP and ms are means over the ranks"
      << (several ? " of a program.\n" : ".\n");
}

void printMemory(const ArenaUse (&arenas)[2], int64_t otherBytes, std::ostream &out) {
  auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
  const ArenaUse &device = arenas[MOERT_SPACE_DEVICE], &host = arenas[MOERT_SPACE_HOST_PINNED];
  out << format("used of it: %.3f MB device, %.3f MB host\n", megabytes(device.measured), megabytes(host.measured));
  if (otherBytes > 0)
    out << format("besides it, workspaces and libraries of a process: %.3f MB device\n", megabytes(otherBytes));
}

/// Prints the results that pass because rounding explains nearly all of them.
void printRounding(const Verification &verification, std::ostream &out) {
  std::string names;
  int64_t count = 0;
  for (const Comparison &value : verification.values)
    if (value.ok() && value.isRounding())
      names += (count++ ? ", '" : "'") + value.name + "'";
  if (count)
    out << "mostly rounding, so that little of " << (count == 1 ? "it" : "them") << " is tested: " << names << "\n";
}

/// Prints the verification of a plan whose values are elements of a field.
void printExactVerification(const Verification &verification, std::ostream &out) {
  const auto differing = std::count_if(verification.values.begin(), verification.values.end(),
                                       [](const Comparison &value) { return !value.ok(); });
  out << format("verification %s: %lld of %zu results are exactly equal, with %lld draws of the inputs\n",
                verification.ok() ? "ok" : "FAILED", static_cast<long long>(verification.values.size()) - differing,
                verification.values.size(), static_cast<long long>(verification.draws));
}

void printGradients(const Verification &verification, std::ostream &out) {
  for (const Comparison &value : verification.values)
    out << format("%s: relative error %.3g, of %.3g allowed\n", value.name.c_str(), value.relativeError, value.bound);
  out << format("verification %s: gradients against difference quotients of the loss\n",
                verification.ok() ? "ok" : "FAILED");
}

void printVerification(const Verification &verification, std::ostream &out) {
  if (verification.dtype == dtypeName(kFieldType))
    return printExactVerification(verification, out);
  out << format("\n%-58s %15s %15s %8s\n", "result", "relative error", "rounding bound", "");
  for (const Comparison &value : verification.values)
    out << format("%-58s %15.3g %15.3g %8s\n", fitted(value.name, 58).c_str(), value.relativeError, value.bound,
                  value.ok() ? "ok" : "FAILED");
  if (verification.nearTies > 0)
    out << format("rounding chose other experts than the reference's for %lld of %lld tokens, which it followed\n",
                  static_cast<long long>(verification.nearTies), static_cast<long long>(verification.tokens));
  if (verification.nearJumps > 0)
    out << format("rounding can move %lld arguments of ReLUs and clamps across a jump of the derivative; the reference "
                  "followed the plan for %lld%s\n",
                  static_cast<long long>(verification.nearJumps), static_cast<long long>(verification.crossed),
                  verification.searchesJumps ? "" : ", and they are too many to try all");
  out << format("verification %s: largest relative error %.3g in %s, rounding measured by %lld runs\n",
                verification.ok() ? "ok" : "FAILED", verification.maxError(), verification.dtype.c_str(),
                static_cast<long long>(verification.roundedRuns));
  printRounding(verification, out);
}

/// Adds times, and what ops computed and sent.
void addFigures(const Report &report, json &root) {
  double flops = 0;
  std::map<std::string, double> bytesSent;
  forEachOp(report, [&](const Program &, const Op &op, const OpTotals &totals) {
    flops += totals.flops;
    if (op.group >= 0)
      bytesSent[report.groupOf(op)] += totals.bytesSent;
  });
  json bytes = json::object();
  for (const auto &[group, sent] : bytesSent)
    bytes[group] = std::llround(sent);
  StepTimes times = stepTimes(report.result.stepSeconds);
  json all = json::array();
  for (double seconds : report.result.stepSeconds)
    all.push_back(seconds * 1e3);
  root.update({{"step_ms", {{"min", times.min}, {"median", times.median}, {"max", times.max}, {"all", all}}},
               {"flops", flops},
               {"rank_flops", report.result.rankFlops},
               {"bytes", bytes},
               {"collectives", collectivesJson(report)},
               {"arena_bytes",
                {{"device", arenaBytes(report, MOERT_SPACE_DEVICE)},
                 {"host_pinned", arenaBytes(report, MOERT_SPACE_HOST_PINNED)}}},
               {"other_device_bytes", report.result.otherBytes},
               {"emulate_links", orNull(report.options.emulateLinks)}});
}

} // namespace

void printJson(const Report &report, std::ostream &out) {
  json root = {{"backend", report.options.backend},          {"ranks", report.result.ranks},
               {"iters", report.result.stepSeconds.size()},  {"seed", report.options.seed},
               {"batch", orNull(report.metadata.batch)},     {"sequence", orNull(report.metadata.sequence)},
               {"schedule", report.metadata.schedule},       {"compiler", orNull(report.metadata.compiler)},
               {"memory", memoryJson(report.result.arenas)}, {"verify", verificationJson(report.verification)}};
  if (!report.isVerdict())
    addFigures(report, root);
  out << root.dump(2) << "\n";
}

void printTables(const Report &report, std::ostream &out) {
  if (report.isVerdict())
    return report.options.gradients ? printGradients(*report.verification, out)
                                    : printVerification(*report.verification, out);
  printOps(report, out);
  StepTimes times = stepTimes(report.result.stepSeconds);
  out << format("\n%lld ranks, %zu steps: median %.3f ms (%.3f to %.3f)\n", static_cast<long long>(report.result.ranks),
                report.result.stepSeconds.size(), times.median, times.min, times.max);
  if (report.metadata.batch)
    out << format("batch %lld, sequence %lld, ", static_cast<long long>(report.metadata.batch),
                  static_cast<long long>(report.metadata.sequence));
  out << "schedule " << report.metadata.schedule;
  if (!report.metadata.compiler.empty())
    out << ", compiled by MoePlan " << report.metadata.compiler;
  out << "\n";
  out << format("%sarena of a rank: %.3f MB device, %.3f MB host\n", report.programs.size() > 1 ? "largest " : "",
                static_cast<double>(arenaBytes(report, MOERT_SPACE_DEVICE)) * 1e-6,
                static_cast<double>(arenaBytes(report, MOERT_SPACE_HOST_PINNED)) * 1e-6);
  printMemory(report.result.arenas, report.result.otherBytes, out);
  if (report.verification)
    printVerification(*report.verification, out);
}

} // namespace moert::run

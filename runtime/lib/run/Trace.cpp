//===- Trace.cpp - a step as a Perfetto/Chrome trace ----------------------===//

#include "core/OutputFile.h"
#include "run/Report.h"

#include <nlohmann/json.hpp>

#include <set>

using nlohmann::json;

namespace moert::run {
namespace {

json nameEvent(const char *kind, int64_t rank, int64_t stream, const std::string &name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", rank}, {"tid", stream}, {"args", {{"name", name}}}};
}

json opEvent(const RankTime &entry, const Program &program, const Report &report) {
  const moert_op_time &time = entry.time;
  const Op &op = program.ops[static_cast<size_t>(time.op)];
  double scale = op.rows > 0 && time.rows >= 0 ? static_cast<double>(time.rows) / static_cast<double>(op.rows) : 1;
  bool sends = op.group >= 0;
  json event = {{"ph", "X"},
                {"name", sends ? op.name + " [" + report.groupOf(op) + "]" : op.name},
                {"cat", sends ? "communication" : "compute"},
                {"pid", entry.rank},
                {"tid", time.stream},
                {"ts", time.begin_s * 1e6},
                {"dur", (time.end_s - time.begin_s) * 1e6},
                {"args",
                 {{"op", time.op},
                  {"label", op.label},
                  {"flops", op.flops * scale},
                  {"bytes", (sends ? op.bytesSent : op.bytes) * scale}}}};
  // The number of an op is unique only in its program.
  if (report.programs.size() > 1)
    event["args"]["first_rank"] = program.firstRank;
  if (time.rows >= 0)
    event["args"]["rows"] = time.rows;
  return event;
}

} // namespace

Status writeTrace(const std::string &path, const Report &report) {
  OutputFile file;
  MOERT_RETURN_IF_ERROR(file.open(path));
  file << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char *separator = "\n";
  auto put = [&](const json &event) {
    file << separator << event.dump();
    separator = ",\n";
  };
  std::set<int64_t> named;
  for (const RankTime &entry : report.result.lastStep) {
    const Program &program = report.programs[programIndex(report.programs, entry.rank)];
    if (named.insert(entry.rank).second) {
      put(nameEvent("process_name", entry.rank, 0, "rank " + std::to_string(entry.rank)));
      for (size_t stream = 0; stream < program.streams.size(); ++stream)
        put(nameEvent("thread_name", entry.rank, static_cast<int64_t>(stream), program.streams[stream]));
    }
    put(opEvent(entry, program, report));
  }
  file << "\n]}\n";
  return file.close();
}

} // namespace moert::run

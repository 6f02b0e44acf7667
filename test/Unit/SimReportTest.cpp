//===- SimReportTest.cpp - reports of a simulated step --------------------===//
//
// A step made by hand in which all figures are small integers:
//
//   seconds        0 1 2 3 4 5 6 7 8 9 10
//   ranks 0-2        |mm | |a|              compute
//                        |all_to_all|       comm
//   rank 3           |  mm   |     |add|    compute
//                            |a2a  |        comm
//
//===----------------------------------------------------------------------===//
#include "../../lib/Report/PageTimeline.h"
#include "SimPrograms.h"
#include "moe/Report/SimOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace mlir::moe;
using llvm::StringRef;
namespace json = llvm::json;

static SimLaunch makeLaunch(std::string kernel, Resource resource, uint32_t stream, int32_t group = -1) {
  SimLaunch launch;
  launch.kernel = std::move(kernel);
  launch.label = "layer0";
  launch.cost.resource = resource;
  launch.stream = stream;
  launch.group = group;
  return launch;
}

static SimBuffer makeBuffer(int64_t bytes, int32_t firstLaunch, int32_t lastLaunch) {
  SimBuffer buffer;
  buffer.bytes = bytes;
  buffer.firstLaunch = firstLaunch;
  buffer.lastLaunch = lastLaunch;
  return buffer;
}

static SimProgram makeProgram() {
  SimProgram program;
  program.name = "rank";
  program.streams = {"compute", "comm"};
  program.groups = {{"ep", 2, 1}};
  program.launches = {makeLaunch("matmul", Resource::Matrix, 0), makeLaunch("all_to_all", Resource::Network, 1, 0),
                      makeLaunch("add", Resource::Memory, 0)};
  program.buffers = {makeBuffer(100, 0, 2), makeBuffer(10, 0, 1), makeBuffer(20, 2, 2), makeBuffer(1000, 0, 2)};
  program.buffers[0].isArgument = true;
  program.buffers[3].isHost = true;
  return program;
}

/// The first of the two simulated ranks stands for `alike` ranks.
static SimResult makeResult(int64_t alike = 3) {
  SimResult result;
  result.seconds = 10;
  result.programs = {makeProgram()};
  result.ranks = {{0, alike, 0}, {alike, 1, 0}};
  // rank, launch, begin, end, cause, rows, FLOPs, bytes
  result.times = {{0, 0, 1, 3, -1, -1, 800, 40}, {1, 0, 1, 5, -1, -1, 1600, 40}, {0, 2, 4, 5, 0, -1, 0, 12},
                  {0, 1, 3, 8, 1, 16, 0, 50},    {1, 1, 5, 8, 1, 32, 0, 30},     {1, 2, 8, 10, 3, -1, 0, 12}};
  result.roofline = {1000, 2, 4, 4000};
  return result;
}

static SimHeader makeHeader() {
  return {"plan.mlir", "toy", "baseline", "train", "closed-form", "even", "", 2, 200, ""};
}

static json::Value parseJson(StringRef text) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (value)
    return *value;
  ADD_FAILURE() << llvm::toString(value.takeError());
  return nullptr;
}

static json::Value writeAndParse(const SimResult &result, const SimReport &report,
                                 const Comparison *comparison = nullptr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeJson(makeHeader(), result, report, comparison, os);
  return parseJson(text);
}
static json::Value writeAndParse(const SimResult &result, const Comparison *comparison = nullptr) {
  return writeAndParse(result, makeReport(result), comparison);
}

static std::string writePage(const SimResult &result, llvm::ArrayRef<MeasuredOp> measured = {}) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeHtml("moe-sim 'a b'", makeHeader(), result, makeReport(result), measured, nullptr, os);
  return text;
}

/// The object in a page.
static json::Value getPageData(StringRef page) {
  StringRef data = page.split("<script type=\"application/json\" id=\"data\">").second.split("</script>").first;
  return parseJson(data);
}

static std::string writeTraceText(const SimResult &result) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTrace(result, os);
  return text;
}

/// The trace of `result`, all of whose ranks are simulated, as a measurement.
static std::vector<MeasuredOp> measure(const SimResult &result) {
  llvm::Expected<std::vector<MeasuredOp>> ops = parseTrace(writeTraceText(result), "run.trace");
  if (ops)
    return *ops;
  ADD_FAILURE() << llvm::toString(ops.takeError());
  return {};
}

// A rank's kinds of work are unions of intervals. Communication is exposed while no computation runs.
TEST(SimReport, RankUse) {
  SimReport report = makeReport(makeResult());
  ASSERT_EQ(report.ranks.size(), 2u);
  EXPECT_EQ(report.numRanks, 4);
  EXPECT_DOUBLE_EQ(report.ranks[0].compute, 3);
  EXPECT_DOUBLE_EQ(report.ranks[0].communication, 5);
  EXPECT_DOUBLE_EQ(report.ranks[0].exposedCommunication, 4);
  EXPECT_DOUBLE_EQ(report.ranks[0].hiddenCommunication, 1);
  EXPECT_DOUBLE_EQ(report.ranks[0].getHiddenShare(), 0.2);
  EXPECT_DOUBLE_EQ(report.ranks[0].copy, 0);
  EXPECT_DOUBLE_EQ(report.ranks[1].compute, 6);
  EXPECT_DOUBLE_EQ(report.ranks[1].exposedCommunication, 3);
  ASSERT_EQ(report.ranks[0].streams.size(), 2u);
  EXPECT_EQ(report.ranks[0].streams[1].stream, "comm");
  EXPECT_DOUBLE_EQ(report.ranks[0].streams[0].busy, 3);
  EXPECT_DOUBLE_EQ(report.ranks[0].streams[0].idle, 7);
}

static void expectParts(const StepParts &parts, double compute, double exposed, double bubble, double other) {
  EXPECT_DOUBLE_EQ(parts.compute, compute);
  EXPECT_DOUBLE_EQ(parts.exposedCommunication, exposed);
  EXPECT_DOUBLE_EQ(parts.bubble, bubble);
  EXPECT_DOUBLE_EQ(parts.other, other);
}

// The parts add up to the step, or to the requested parts of it. Without stages there is no bubble.
TEST(SimReport, Parts) {
  SimResult result = makeResult();
  SimReport report = makeReport(result);
  expectParts(report.ranks[0], 3, 4, 0, 3);
  expectParts(report.ranks[1], 6, 3, 0, 1);
  expectParts(report.mean, 3.75, 3.75, 0, 2.5);
  expectParts(getStepParts(result, 2, 6), (3 * 2 + 3) / 4.0, (3 * 2 + 1) / 4.0, 0, 0);
}

/// A stage of 1F1B on one rank: a forward takes 1 s, a backward 2 s, and a transfer `transfer` seconds.
static SimProgram makeStage(int64_t stage, int64_t stages, int64_t microBatches, int64_t transfer) {
  Maker maker(1, stage);
  SimProgram &program = maker.program;
  uint32_t compute = maker.stream("compute");
  auto addChannel = [&](int64_t from, int64_t to) -> std::pair<uint32_t, int32_t> {
    if (std::min(from, to) < 0 || std::max(from, to) >= stages)
      return {0, -1};
    std::string name = "pp." + std::to_string(from) + "." + std::to_string(to);
    program.groups.push_back({name, 2, to - from, from, 1});
    return {maker.stream(name.c_str()), static_cast<int32_t>(program.groups.size()) - 1};
  };
  auto before = addChannel(stage - 1, stage), after = addChannel(stage, stage + 1);
  auto backIn = addChannel(stage + 1, stage), backOut = addChannel(stage, stage - 1);
  auto link = [&](uint32_t from, uint32_t to) {
    maker.record(program.numEvents, from);
    maker.wait(program.numEvents++, to);
  };
  auto work = [&](auto in, int64_t seconds, auto out) {
    if (in.second >= 0) {
      maker.exchange(in.first, in.second, Collective::Broadcast, transfer);
      link(in.first, compute);
    }
    maker.compute(compute, seconds);
    if (out.second < 0)
      return;
    link(compute, out.first);
    maker.exchange(out.first, out.second, Collective::Broadcast, transfer);
  };
  int64_t ahead = std::min(stages - 1 - stage, microBatches);
  for (int64_t i = 0; i < microBatches + ahead; ++i) {
    if (i < microBatches)
      work(before, 1, after);
    if (i >= ahead)
      work(backIn, 2, backOut);
  }
  return program;
}

static SimResult runPipeline(int64_t stages, int64_t microBatches, int64_t transfer) {
  ClusterProfile profile = makeProfile(stages);
  addInterference(profile, true, true, false, 1, 1, 1);
  std::vector<SimProgram> programs;
  for (int64_t stage = 0; stage < stages; ++stage)
    programs.push_back(makeStage(stage, stages, microBatches, transfer));
  llvm::Expected<SimResult> result = run(std::move(programs), profile);
  if (result)
    return std::move(*result);
  ADD_FAILURE() << llvm::toString(result.takeError());
  return {};
}

// Equal stages wait for (pp - 1) / (m + pp - 1) of the step, and their transfers are not exposed communication.
TEST(SimReport, Bubble) {
  SimReport report = makeReport(runPipeline(4, 8, 0));
  ASSERT_EQ(report.ranks.size(), 4u);
  for (const RankUse &rank : report.ranks)
    expectParts(rank, 24, 0, 9, 0);
  expectParts(makeReport(runPipeline(1, 8, 0)).mean, 24, 0, 0, 0);
  SimResult slow = runPipeline(4, 8, 1);
  report = makeReport(slow);
  for (const RankUse &rank : report.ranks)
    expectParts(rank, 24, 0, slow.seconds - 24, 0);
}

// Waits for a rank's own stage count as exposed communication or as the rest, also in a pipeline.
TEST(SimReport, OwnStageIsNoBubble) {
  SimResult result = makeResult();
  // Rank 3 is another stage, for which the others wait at the end.
  result.programs.push_back(makeProgram());
  result.ranks[1].program = 1;
  SimReport report = makeReport(result);
  expectParts(report.ranks[0], 3, 4, 2, 1);
  expectParts(report.ranks[1], 6, 3, 0, 1);
}

TEST(SimReport, Speed) {
  StepWork work{4000, 80};
  SimReport report = makeReport(makeResult(), work);
  EXPECT_DOUBLE_EQ(report.speed.flopsPerSecond, 100);
  EXPECT_DOUBLE_EQ(report.speed.tokensPerSecond, 2);
  EXPECT_DOUBLE_EQ(report.speed.mfu, 0.1);
  json::Value value = writeAndParse(makeResult(), report);
  EXPECT_EQ(value.getAsObject()->getObject("speed")->getNumber("mfu"), 0.1);
  value = writeAndParse(makeResult());
  EXPECT_FALSE(value.getAsObject()->getObject("speed")->getNumber("mfu"));
}

// Work of one kind on two streams counts once while it overlaps. Copies are a kind of their own.
TEST(SimReport, OverlapCountsOnce) {
  SimResult result = makeResult();
  result.programs[0].launches[2].cost.resource = Resource::Network;
  EXPECT_DOUBLE_EQ(makeReport(result).ranks[0].communication, 5);
  result.programs[0].launches[2].cost.resource = Resource::HostLink;
  SimReport report = makeReport(result);
  EXPECT_DOUBLE_EQ(report.ranks[0].copy, 1);
  EXPECT_DOUBLE_EQ(report.ranks[0].compute, 2);
  EXPECT_DOUBLE_EQ(report.ranks[0].exposedCommunication, 5);
}

// A simulated rank has the weight of the ranks that it stands for.
TEST(SimReport, MeansOverRanks) {
  SimReport report = makeReport(makeResult());
  EXPECT_DOUBLE_EQ(report.mean.compute, 3.75);
  EXPECT_DOUBLE_EQ(report.mean.exposedCommunication, 3.75);
  EXPECT_DOUBLE_EQ(report.mean.streams[0].busy, 3.75);
  EXPECT_DOUBLE_EQ(report.mean.streams[0].idle, 6.25);
  ASSERT_EQ(report.kernels.size(), 3u);
  EXPECT_EQ(report.kernels[0].kernel, "all_to_all [ep]");
  EXPECT_EQ(report.kernels[0].resource, Resource::Network);
  EXPECT_DOUBLE_EQ(report.kernels[0].launches, 1);
  EXPECT_DOUBLE_EQ(report.kernels[0].seconds, 4.5);
  EXPECT_DOUBLE_EQ(report.kernels[0].bytes, 45);
  EXPECT_EQ(report.kernels[1].kernel, "matmul");
  EXPECT_DOUBLE_EQ(report.kernels[1].seconds, 2.5);
  EXPECT_DOUBLE_EQ(report.kernels[1].flops, 1000);
  EXPECT_DOUBLE_EQ(report.kernels[2].seconds, 1.25);
}

// The critical path crosses ranks where an exchange waited, and covers the step without gaps.
TEST(SimReport, CriticalPath) {
  SimReport report = makeReport(makeResult());
  ASSERT_EQ(report.criticalPath.size(), 4u);
  const int32_t times[] = {-1, 1, 3, 5};
  const double ends[] = {1, 5, 8, 10};
  double begin = 0;
  for (auto [piece, time, end] : llvm::zip_equal(report.criticalPath, times, ends)) {
    EXPECT_EQ(piece.time, time);
    EXPECT_DOUBLE_EQ(piece.begin, begin);
    EXPECT_DOUBLE_EQ(piece.end, end);
    begin = piece.end;
  }
  EXPECT_DOUBLE_EQ(report.critical.waiting, 1);
  EXPECT_DOUBLE_EQ(report.critical.compute, 6);
  EXPECT_DOUBLE_EQ(report.critical.communication, 3);
  EXPECT_DOUBLE_EQ(report.kernels[0].criticalSeconds, 3);
  EXPECT_DOUBLE_EQ(report.kernels[1].criticalSeconds, 4);
  EXPECT_DOUBLE_EQ(report.kernels[2].criticalSeconds, 2);
}

// A launch that began after its cause ended waited for its issue.
TEST(SimReport, CriticalPathWaits) {
  SimResult result = makeResult();
  result.times[5] = {1, 2, 9, 10, 4, -1, 0, 12};
  SimReport report = makeReport(result);
  ASSERT_EQ(report.criticalPath.size(), 5u);
  EXPECT_EQ(report.criticalPath[3].time, -1);
  EXPECT_DOUBLE_EQ(report.criticalPath[3].begin, 8);
  EXPECT_DOUBLE_EQ(report.critical.waiting, 2);
}

// Buffers live from the begin of the first launch to the end of the last, arguments always. Host memory is separate.
TEST(SimReport, Memory) {
  SimResult result = makeResult();
  auto expect = [&](uint32_t rank, std::vector<std::pair<double, double>> expected) {
    std::vector<MemoryPoint> points = getMemoryOverTime(result, rank);
    ASSERT_EQ(points.size(), expected.size());
    for (auto [point, pair] : llvm::zip_equal(points, expected)) {
      EXPECT_DOUBLE_EQ(point.seconds, pair.first);
      EXPECT_DOUBLE_EQ(point.bytes, pair.second);
    }
  };
  expect(0, {{0, 100}, {1, 110}, {4, 130}, {5, 110}, {8, 100}});
  // At 8 s one buffer takes the place of another.
  expect(1, {{0, 100}, {1, 110}, {8, 120}, {10, 100}});
  SimReport report = makeReport(result);
  EXPECT_EQ(report.largestMemoryRank, 0u);
  EXPECT_DOUBLE_EQ(report.ranks[0].peakBytes, 130);
  EXPECT_DOUBLE_EQ(report.ranks[1].peakBytes, 120);
}

// Between a narrow product and the gradient of its weights only the quantised rows stay, or also the rows themselves if
// another launch reads them later.
TEST(SimReport, MemoryOfNarrowRows) {
  SimResult result;
  SimProgram &program = result.programs.emplace_back();
  program.streams = {"compute"};
  for (const char *kernel : {"matmul", "add", "matmul_wgrad", "attention_grad"}) {
    program.launches.push_back(makeLaunch(kernel, Resource::Matrix, 0));
    program.launches.back().dtype = "bf16";
    auto launch = static_cast<uint32_t>(program.launches.size()) - 1;
    result.times.push_back({0, launch, static_cast<double>(launch), launch + 1.0});
  }
  result.ranks = {{0, 1, 0}};
  program.buffers = {makeBuffer(100, 0, 2)};
  program.launches[0].inputs = program.launches[2].inputs = {0};
  auto getBytes = [&] {
    std::vector<double> bytes;
    for (const MemoryPoint &point : getMemoryOverTime(result, 0))
      bytes.push_back(point.bytes);
    return bytes;
  };
  EXPECT_EQ(getBytes(), (std::vector<double>{100, 0}));
  NarrowProduct product{{"matmul"}, "bf16"}, gradient{{"matmul_wgrad"}, "bf16", /*ofWeights=*/true};
  product.leastSide = gradient.leastSide = 0;
  result.precision = {"narrow", {product, gradient}, /*keptShare=*/0.25};
  EXPECT_EQ(getBytes(), (std::vector<double>{100, 25, 100, 0}));
  program.launches[3].inputs = {0};
  program.buffers[0].lastLaunch = 3;
  EXPECT_EQ(getBytes(), (std::vector<double>{100, 125, 100, 0}));
  // A launch that writes the buffer begins with other rows.
  program.launches[1].outputs = {0};
  EXPECT_EQ(getBytes(), (std::vector<double>{100, 0}));
}

// FasterMoE's Eq. 4 to 6. Without communication both roofs are the peak.
TEST(SimReport, Roofline) {
  SimResult result = makeResult();
  SimReport report = makeReport(result);
  EXPECT_DOUBLE_EQ(report.roofline.seconds, 10);
  EXPECT_DOUBLE_EQ(report.roofline.ratio, 0.5);
  EXPECT_DOUBLE_EQ(report.roofline.mean, 100);
  EXPECT_DOUBLE_EQ(report.roofline.ideal, 500);
  EXPECT_DOUBLE_EQ(report.roofline.semiIdeal, 1000.0 / 3);
  EXPECT_DOUBLE_EQ(report.roofline.getShareOfIdeal(), 0.2);
  result.roofline.linkSeconds = 1;
  EXPECT_DOUBLE_EQ(makeReport(result).roofline.ideal, 1000);
  result.roofline.linkSeconds = 0;
  EXPECT_DOUBLE_EQ(makeReport(result).roofline.ideal, 1000);
  EXPECT_DOUBLE_EQ(makeReport(result).roofline.semiIdeal, 1000);
}

// Plans beside the plan itself: a table that fits a terminal, and points after its own.
TEST(SimReport, RooflineOfSeveralPlans) {
  SimResult result = makeResult();
  SimReport report = makeReport(result);
  json::Value alone = writeAndParse(result);
  EXPECT_EQ(alone.getAsObject()->getObject("roofline")->getArray("points")->size(), 1u);
  report.others.push_back({"baseline+shadow:4,simulate+smart:2,topology", 5, 2, 200, 1000, 2000.0 / 3});
  report.others.push_back({"s1", 8, 0, 125, 1000, 1000});
  std::string text;
  llvm::raw_string_ostream os(text);
  printText(makeHeader(), result, report, os);
  StringRef table = StringRef(text).split("schedule  ").second.split("\n\n").first;
  for (StringRef part : {"mean, ideal, semi kFLOP/s", "10000.000     0.5    0.100    0.500    0.333   20.0%",
                         "baseline+shadow:4,simula..   5000.000       2    0.200    1.000    0.667   20.0%",
                         "s1                           8000.000       -    0.125    1.000    1.000   12.5%"})
    EXPECT_TRUE(table.contains(part)) << part.str() << "\n" << text;
  for (StringRef line : llvm::split(table, '\n'))
    EXPECT_LE(line.size(), 80u) << line.str();
  json::Value value = writeAndParse(result, report);
  const json::Object *roofline = value.getAsObject()->getObject("roofline");
  EXPECT_EQ(roofline->getNumber("r_cc"), 0.5);
  const json::Array &points = *roofline->getArray("points");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].getAsObject()->getString("schedule"), makeHeader().schedule);
  EXPECT_EQ(points[0].getAsObject()->getNumber("step_s"), 10);
  EXPECT_EQ(points[1].getAsObject()->getString("schedule"), "baseline+shadow:4,simulate+smart:2,topology");
  EXPECT_EQ(points[1].getAsObject()->getNumber("r_cc"), 2);
  EXPECT_EQ(points[1].getAsObject()->getNumber("mean_flops_per_s"), 200);
  EXPECT_EQ(points[1].getAsObject()->getNumber("share_of_ideal"), 0.2);
  EXPECT_FALSE(points[2].getAsObject()->getNumber("r_cc"));
}

// An empty step has a report, too, in all forms.
TEST(SimReport, Empty) {
  SimResult result;
  EXPECT_TRUE(makeReport(result).criticalPath.empty());
  EXPECT_TRUE(writeAndParse(result).getAsObject());
  EXPECT_TRUE(getPageData(writePage(result)).getAsObject());
  std::string text;
  llvm::raw_string_ostream os(text);
  printText(makeHeader(), result, makeReport(result), os);
  result.programs = {makeProgram()};
  result.ranks = {{0, 1, 0}};
  EXPECT_TRUE(writeAndParse(result).getAsObject());
  EXPECT_TRUE(getPageData(writePage(result)).getAsObject());
}

// The text names the bound of the step, and no line is wider than a terminal.
TEST(SimReport, Text) {
  std::string text;
  llvm::raw_string_ostream os(text);
  SimResult result = makeResult();
  printText(makeHeader(), result, makeReport(result, {4000, 80}), os);
  for (StringRef part :
       {"speed       100 FLOP/s a device, MFU 10.0%, 2 tokens/s a device",
        "time        computation 37.5%, exposed communication 37.5%, bubble 0.0%, other 25.0%",
        "4 ranks (2 simulated, the others do the same)", "step        10000.000 ms",
        "computation 60.0%, communication 30.0%, copies 0.0%, waiting 10.0%",
        "communication 3750.000 ms of 4500.000 ms a rank", "130 B at most, 65.0% of a device's 200 B",
        "R_CC 0.5: ideal 500 FLOP/s, semi-ideal 333 FLOP/s", "slowest     rank 3: computes 6000.000 ms",
        "fastest     ranks 0-2 (3 alike): computes 3000.000 ms"})
    EXPECT_TRUE(StringRef(text).contains(part)) << part.str() << "\n" << text;
  for (StringRef line : llvm::split(text, '\n'))
    EXPECT_LE(line.size(), 100u) << line.str();
}

// The JSON object has the documented keys.
TEST(SimReport, Json) {
  json::Value value = writeAndParse(makeResult());
  const json::Object *object = value.getAsObject();
  ASSERT_TRUE(object);
  EXPECT_EQ(object->getNumber("step_s"), 10);
  EXPECT_EQ(object->getInteger("num_ranks"), 4);
  EXPECT_EQ(object->getString("cluster"), "toy");
  const json::Object *rank = (*object->getArray("ranks"))[0].getAsObject();
  EXPECT_EQ(rank->getInteger("count"), 3);
  EXPECT_EQ(rank->getNumber("exposed_communication_s"), 4);
  EXPECT_EQ(rank->getNumber("bubble_s"), 0);
  EXPECT_EQ(rank->getNumber("other_s"), 3);
  const json::Object *op = (*object->getArray("ops"))[1].getAsObject();
  EXPECT_EQ(op->getString("kernel"), "all_to_all [ep]");
  EXPECT_EQ(op->getNumber("begin_s"), 3.5);
  EXPECT_EQ(op->getNumber("end_s"), 8);
  const json::Array *path = object->getArray("critical_path");
  ASSERT_EQ(path->size(), 4u);
  EXPECT_FALSE((*path)[0].getAsObject()->get("kernel"));
  EXPECT_EQ((*path)[2].getAsObject()->getString("kernel"), "all_to_all [ep]");
  EXPECT_EQ((*path)[2].getAsObject()->getInteger("rank"), 0);
  EXPECT_EQ(object->getObject("memory")->getNumber("peak_bytes"), 130);
  EXPECT_EQ(object->getObject("roofline")->getNumber("r_cc"), 0.5);
  EXPECT_FALSE(object->get("comparison"));
}

// A trace has one process for each simulated rank and an event for each launch, as moe-run writes them.
TEST(SimReport, Trace) {
  json::Value value = parseJson(writeTraceText(makeResult()));
  ASSERT_TRUE(value.getAsObject());
  const json::Array &events = *value.getAsObject()->getArray("traceEvents");
  ASSERT_EQ(events.size(), 2 * 3 + 6u);
  EXPECT_EQ(events[0].getAsObject()->getObject("args")->getString("name"), "ranks 0-2 (3 alike)");
  EXPECT_EQ(events[3].getAsObject()->getObject("args")->getString("name"), "rank 3");
  EXPECT_EQ(events[4].getAsObject()->getString("name"), "thread_name");
  const json::Object &event = *events[10].getAsObject();
  EXPECT_EQ(event.getString("ph"), "X");
  EXPECT_EQ(event.getString("name"), "all_to_all [ep]");
  EXPECT_EQ(event.getString("cat"), "communication");
  EXPECT_EQ(event.getInteger("pid"), 3);
  EXPECT_EQ(event.getInteger("tid"), 1);
  EXPECT_EQ(event.getNumber("ts"), 5e6);
  EXPECT_EQ(event.getNumber("dur"), 3e6);
  const json::Object &args = *event.getObject("args");
  EXPECT_EQ(args.getInteger("op"), 1);
  EXPECT_EQ(args.getString("label"), "layer0");
  EXPECT_EQ(args.getNumber("bytes"), 30);
  EXPECT_EQ(args.getInteger("rows"), 32);
  EXPECT_FALSE(events[6].getAsObject()->getObject("args")->get("rows"));
}

// A launch of a pipeline names its unit, and launches of one micro-batch have one colour.
TEST(SimReport, TraceOfUnits) {
  SimResult result = makeResult();
  for (auto [number, launch] : llvm::enumerate(llvm::drop_end(result.programs[0].launches))) {
    launch.microBatch = static_cast<int32_t>(5 * number);
    launch.stage = 2;
    launch.isBackward = launch.isOfWeights = number == 1;
  }
  json::Value value = parseJson(writeTraceText(result));
  std::vector<std::optional<StringRef>> colours;
  for (const json::Value &event : *value.getAsObject()->getArray("traceEvents")) {
    if (event.getAsObject()->getString("ph") != "X")
      continue;
    const json::Object &args = *event.getAsObject()->getObject("args");
    bool isBackward = args.getInteger("op") == 1, hasUnit = args.getInteger("op") != 2;
    EXPECT_EQ(args.getInteger("micro_batch"), hasUnit ? std::optional<int64_t>(isBackward ? 5 : 0) : std::nullopt);
    EXPECT_EQ(args.getInteger("stage"), hasUnit ? std::optional<int64_t>(2) : std::nullopt);
    EXPECT_EQ(args.getBoolean("backward"), hasUnit ? std::optional(isBackward) : std::nullopt);
    EXPECT_EQ(args.getBoolean("weights"), isBackward ? std::optional(true) : std::nullopt);
    colours.push_back(event.getAsObject()->getString("cname"));
  }
  const std::optional<StringRef> first = "rail_response", second = "rail_animation";
  EXPECT_EQ(colours,
            (std::vector{first, first, std::optional<StringRef>(), second, second, std::optional<StringRef>()}));
}

// The runtime's own traces are read.
TEST(SimReport, ParseTrace) {
  llvm::Expected<std::vector<MeasuredOp>> ops = parseTrace(R"({"displayTimeUnit": "ms", "traceEvents": [
{"args":{"name":"rank 0"},"name":"process_name","ph":"M","pid":0,"tid":0},
{"args":{"bytes":147456.0,"flops":0.0,"label":"layer0","op":3},"cat":"communication","dur":1.5,"name":"all_to_all [ep]","ph":"X","pid":2,"tid":1,"ts":10.25}
]})",
                                                           "run.trace");
  ASSERT_TRUE(static_cast<bool>(ops)) << llvm::toString(ops.takeError());
  ASSERT_EQ(ops->size(), 1u);
  EXPECT_EQ((*ops)[0].rank, 2);
  EXPECT_EQ((*ops)[0].stream, 1);
  EXPECT_EQ((*ops)[0].op, 3);
  EXPECT_EQ((*ops)[0].name, "all_to_all [ep]");
  EXPECT_DOUBLE_EQ((*ops)[0].begin, 10.25e-6);
  EXPECT_DOUBLE_EQ((*ops)[0].end, 11.75e-6);
}

// Other files are refused with the file's name and the error.
TEST(SimReport, ParseTraceErrors) {
  auto expectError = [](const std::string &text, StringRef expected) {
    llvm::Expected<std::vector<MeasuredOp>> ops = parseTrace(text, "run.trace");
    ASSERT_FALSE(static_cast<bool>(ops)) << text;
    std::string message = llvm::toString(ops.takeError());
    EXPECT_TRUE(StringRef(message).starts_with("run.trace:")) << message;
    EXPECT_TRUE(StringRef(message).contains(expected)) << message;
  };
  auto event = [](const std::string &text) { return "{\"traceEvents\": [{\"ph\": \"X\"" + text + "}]}"; };
  const std::string good = R"(, "pid": 0, "tid": 0, "ts": 1, "dur": 1, "name": "add")";
  expectError("", "run.trace:1:1: error: expected a trace in JSON: ");
  expectError("{\"traceEvents\":\n [}", "run.trace:2:3: error: expected a trace in JSON: ");
  expectError("[]", "run.trace:1:1: error: expected a JSON object but got []");
  expectError("{\"traceEvents\": 3}", "'traceEvents': expected an array");
  expectError("{\"traceEvents\": []}", "expected launches");
  expectError("{\"traceEvents\": [7]}", "run.trace:1:18: error: 'traceEvents[0]': expected an object but got 7");
  expectError(event(", \"pid\": -1"), "'traceEvents[0].pid': expected an integer that is not negative but got -1");
  expectError(event(", \"pid\": 0"),
              "'traceEvents[0].tid': expected an integer that is not negative but the key is missing");
  expectError(event(R"(, "pid": 0, "tid": 0, "ts": "x")"), "'traceEvents[0].ts': expected a number but got \"x\"");
  expectError(event(R"(, "pid": 0, "tid": 0, "ts": 1, "dur": -2)"), "dur': expected a number that is not negative");
  expectError(event(R"(, "pid": 0, "tid": 0, "ts": 1, "dur": 1, "name": 4)"),
              "name': expected a string that is not empty but got 4");
  expectError(event(good), "'traceEvents[0].args': expected an object but the key is missing");
  expectError(event(good + ", \"args\": 1"), "'traceEvents[0].args': expected an object but got 1");
  expectError(event(good + ", \"args\": {}"), "'traceEvents[0].args.op': expected an integer");
  expectError(std::string(100000, '['), "run.trace:1:1: error: expected a trace in JSON nested at most 64 deep");
  expectError("{\"traceEvents\": [\"\xff\xfe\"]}", "expected a trace in JSON");
  std::string whole = writeTraceText(makeResult());
  for (size_t size = 0; size + 4 < whole.size(); size += 7)
    expectError(whole.substr(0, size), "expected a trace in JSON");
}

// The error for a missing file names the file.
TEST(SimReport, LoadTrace) {
  llvm::Expected<std::vector<MeasuredOp>> ops = loadTrace("no/such.trace");
  ASSERT_FALSE(static_cast<bool>(ops));
  EXPECT_TRUE(StringRef(llvm::toString(ops.takeError())).starts_with("no/such.trace: error: "));
}

// A prediction that equals the measurement has no error, for any begin of the measurement.
TEST(SimReport, CompareWithItself) {
  SimResult result = makeResult(1);
  std::vector<MeasuredOp> measured = measure(result);
  for (MeasuredOp &op : measured) {
    op.begin += 100;
    op.end += 100;
  }
  llvm::Expected<Comparison> comparison = compare(result, measured);
  ASSERT_TRUE(static_cast<bool>(comparison)) << llvm::toString(comparison.takeError());
  ASSERT_EQ(comparison->kernels.size(), 3u);
  for (const KernelComparison &kernel : comparison->kernels) {
    EXPECT_NEAR(kernel.getError(), 0, 1e-12);
    EXPECT_DOUBLE_EQ(kernel.launches, 1);
  }
  // The step is measured from the first launch, and predicted from its issue.
  EXPECT_NEAR(comparison->step.measuredSeconds, 9, 1e-12);
  EXPECT_DOUBLE_EQ(comparison->step.predictedSeconds, 10);
  const json::Value value = writeAndParse(result, &*comparison);
  EXPECT_EQ(value.getAsObject()->getObject("comparison")->getArray("kernels")->size(), 3u);
}

// Sums and errors of a measurement that differs. One of its predicted ranks stands for two.
TEST(SimReport, CompareSums) {
  SimResult result = makeResult(2);
  // The third rank runs as the first does, in twice the time.
  std::vector<MeasuredOp> measured;
  for (const SimTime &time : result.times)
    for (int64_t rank = 0; rank < 3; ++rank)
      if ((rank < 2) == (time.rank == 0))
        measured.push_back({rank, time.launch == 1, time.launch, 0, 2 * (time.end - time.begin),
                            getLaunchName(result.programs[0], time.launch)});
  llvm::Expected<Comparison> comparison = compare(result, measured);
  ASSERT_TRUE(static_cast<bool>(comparison)) << llvm::toString(comparison.takeError());
  EXPECT_EQ(comparison->kernels[0].kernel, "all_to_all [ep]");
  EXPECT_DOUBLE_EQ(comparison->kernels[0].measuredSeconds, 26.0 / 3);
  EXPECT_DOUBLE_EQ(comparison->kernels[0].predictedSeconds, 13.0 / 3);
  EXPECT_DOUBLE_EQ(comparison->kernels[0].getError(), -0.5);
  std::string text;
  llvm::raw_string_ostream os(text);
  printComparison(*comparison, os);
  EXPECT_TRUE(StringRef(text).contains("8666.667      4333.333    -50.0%")) << text;
}

// A trace of another plan is refused, and the error names the first difference.
TEST(SimReport, CompareErrors) {
  SimResult result = makeResult(1);
  auto expectError = [&](llvm::function_ref<void(std::vector<MeasuredOp> &)> change, StringRef expected) {
    std::vector<MeasuredOp> measured = measure(result);
    change(measured);
    llvm::Expected<Comparison> comparison = compare(result, measured);
    ASSERT_FALSE(static_cast<bool>(comparison)) << expected.str();
    EXPECT_EQ(llvm::toString(comparison.takeError()), expected);
  };
  using Ops = std::vector<MeasuredOp>;
  expectError([](Ops &ops) { ops[0].rank = 2; }, "the trace is of another plan: expected 2 ranks but got rank 2");
  expectError([](Ops &ops) { ops[0].op = 3; }, "the trace is of another plan: expected 3 ops but got op 3 of rank 0");
  expectError([](Ops &ops) { ops[3].name = "all_to_all"; },
              "the trace is of another plan: expected 'all_to_all [ep]' as op 1 of rank 0 but got 'all_to_all'");
  expectError([](Ops &ops) { ops[0].stream = 1; },
              "the trace is of another plan: expected op 0 of rank 0 on stream 0 but got stream 1");
  expectError([](Ops &ops) { ops.push_back(ops[0]); }, "expected a trace of one step but got op 0 of rank 0 twice");
  expectError([](Ops &ops) { ops.pop_back(); }, "the trace is of another plan: expected op 2 of rank 1 but got none");
  expectError([](Ops &ops) { ops.clear(); }, "the trace is of another plan: expected op 0 of rank 0 but got none");
}

// Names and labels cannot break out of the page's data, which is read back unchanged.
TEST(SimReport, PageEscapes) {
  SimResult result = makeResult();
  const std::string label = "</script><!--<b>\"&'\x01\x7f\\u003c{{data}}";
  result.programs[0].launches[0].label = label;
  result.programs[0].launches[1].kernel = "\xff<i>";
  std::string page = writePage(result);
  EXPECT_EQ(StringRef(page).count("</script>"), 2u);
  EXPECT_FALSE(StringRef(page).contains("<!--"));
  EXPECT_FALSE(StringRef(page).contains("<i>"));
  for (StringRef reference : {"http:", "https:", "src=", "@import", "fetch("})
    EXPECT_FALSE(StringRef(page).contains(reference)) << reference.str();
  // A pattern of the page itself.
  EXPECT_EQ(StringRef(page).count("url("), StringRef(page).count("url(#"));
  json::Value data = getPageData(page);
  ASSERT_TRUE(data.getAsObject());
  const json::Object &timeline = *data.getAsObject()->getObject("timeline");
  const json::Object &program = *(*timeline.getArray("programs"))[0].getAsObject();
  // A launch is five numbers, the third of which is its label's.
  auto number = static_cast<size_t>(*(*program.getArray("launches"))[2].getAsInteger());
  EXPECT_EQ((*timeline.getArray("names"))[number].getAsString(), label);
}

// The page's arrays give launches as number, gap on the stream and duration, and differences from the first rank.
TEST(SimReport, PageLanes) {
  SimResult result = makeResult(1);
  json::Value data = getPageData(writePage(result, measure(result)));
  const json::Object &timeline = *data.getAsObject()->getObject("timeline");
  EXPECT_EQ(timeline.getInteger("intervals"), 0);
  ASSERT_EQ(timeline.getArray("rows")->size(), 2u);
  const json::Object &row = *(*timeline.getArray("rows"))[1].getAsObject();
  EXPECT_EQ(row.getString("name"), "rank 1");
  const int64_t second = 10'000'000;
  EXPECT_EQ(timeline.getBoolean("whole"), true);
  const json::Object &predicted = *row.getObject("predicted");
  EXPECT_EQ(*predicted.getArray("launches"),
            json::Array({0, second, 4 * second, 1, 5 * second, 3 * second, 2, 3 * second, 2 * second}));
  // Measured times count from the first launch on any rank.
  EXPECT_EQ(*row.getObject("measured")->getArray("launches"),
            json::Array({0, 0, 4 * second, 1, 4 * second, 3 * second, 2, 3 * second, 2 * second}));
  EXPECT_EQ(*predicted.getArray("figures"), json::Array({0, -1, 1600, 40, 1, 32, 0, 30}));
}

// With very many launches the page keeps those of some ranks, and the utilisation of the others, and stays of moderate
// size.
TEST(SimReport, PageOfManyRanks) {
  SimResult one = makeResult(1), result = one;
  result.ranks.clear();
  result.times.clear();
  constexpr uint32_t ranks = 1024;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    result.ranks.push_back({rank, 1, 0});
  for (int repeat = 0; repeat < 70; ++repeat)
    for (SimTime time : one.times)
      for (uint32_t pair = 0; pair < ranks; pair += 2) {
        time.rank = pair + time.rank % 2;
        result.times.push_back(time);
      }
  std::string page = writePage(result);
  EXPECT_LT(page.size(), 2'000'000u);
  json::Value data = getPageData(page);
  const json::Object &timeline = *data.getAsObject()->getObject("timeline");
  EXPECT_EQ(timeline.getInteger("intervals"), 94);
  size_t detailed = 0;
  for (const json::Value &row : *timeline.getArray("rows"))
    detailed += row.getAsObject()->get("predicted") != nullptr;
  // Ranks with the most computation, the median, the least, and the rank on the critical path.
  EXPECT_EQ(detailed, 4u);
  // Matrix work of an even rank is from 1 to 3 of 10 seconds.
  StringRef busy = *(*timeline.getArray("rows"))[0].getAsObject()->getString("busy");
  ASSERT_EQ(busy.size(), 4 * 94u);
  EXPECT_EQ(busy[8], 'A');
  EXPECT_EQ(busy[10], '/');
  EXPECT_EQ(busy[27], '/');
  EXPECT_EQ(busy[29], 'A');
}

// With very many micro-batches the page has the launches of one, and the utilisation of streams at all times.
TEST(SimReport, PageOfManyMicroBatches) {
  SimResult one = makeResult(1), result = one;
  constexpr int64_t microBatches = 8000;
  result.times.clear();
  for (int64_t i = 0; i < microBatches; ++i)
    for (SimTime time : one.times) {
      time.begin += static_cast<double>(i) * one.seconds;
      time.end += static_cast<double>(i) * one.seconds;
      time.cause = -1;
      result.times.push_back(time);
    }
  result.seconds = one.seconds * microBatches;
  std::string page = writePage(result);
  EXPECT_LT(page.size(), 200'000u);
  json::Value data = getPageData(page);
  const json::Object &timeline = *data.getAsObject()->getObject("timeline");
  EXPECT_EQ(timeline.getBoolean("whole"), false);
  EXPECT_EQ(timeline.getBoolean("period"), true);
  EXPECT_EQ(*timeline.getNumber("to_s") - *timeline.getNumber("from_s"), one.seconds);
  const json::Object &predicted = *(*timeline.getArray("rows"))[0].getAsObject()->getObject("predicted");
  EXPECT_EQ(predicted.getArray("launches")->size(), 3 * 3u);
  // A lane: stream, kind of work, and one digit for each interval.
  const json::Array &lane = *(*predicted.getArray("lanes"))[0].getAsArray();
  EXPECT_EQ(lane[2].getAsString()->size(), 1024u);
}

using Strings = std::vector<std::string>;

namespace {
/// One device whose launches are given by their times, in the order of their begins.
struct UnitSteps {
  SimResult result;
  UnitSteps() {
    result.programs = {makeProgram()};
    result.programs[0].launches.clear();
    result.programs[0].buffers.clear();
    result.ranks = {{0, 1, 0}};
    result.roofline = {1000, 2, 4, 4000};
  }
  void add(SimLaunch launch, double begin, double end) {
    auto number = static_cast<uint32_t>(result.programs[0].launches.size());
    result.programs[0].launches.push_back(std::move(launch));
    result.times.push_back({0, number, begin, end});
    result.seconds = std::max(result.seconds, end);
  }
  void addForward(int32_t microBatch, double begin, double end, int32_t stage = 0) {
    SimLaunch launch = makeLaunch("matmul", Resource::Matrix, 0);
    launch.microBatch = microBatch;
    launch.stage = stage;
    add(launch, begin, end);
  }
  void addBackward(int32_t microBatch, double begin, double end, bool isOfWeights = false) {
    addForward(microBatch, begin, end);
    SimLaunch &launch = result.programs[0].launches.back();
    launch.isBackward = true;
    launch.isOfWeights = isOfWeights;
  }
  void addExchange(double begin, double end, int32_t group = 0) {
    add(makeLaunch("all_to_all", Resource::Network, 1, group), begin, end);
  }
  PageDevice getDevice() const {
    PagePipeline pipeline = makePagePipeline(result, makePageTimeline(result, makeReport(result), {}));
    return pipeline.devices.empty() ? PageDevice() : pipeline.devices.front();
  }
  /// Pieces as text. "F1" is the forward of micro-batch 1. B is a backward, W weight gradients, M a whole micro-batch,
  /// and O the rest. A "w" follows if weight gradients are included, and "|" in a window. Begin, end and own seconds
  /// are last.
  Strings getPieces() const {
    Strings texts;
    for (const PagePiece &piece : getDevice().pieces) {
      std::string text(1, "FBWMO"[static_cast<size_t>(piece.work)]);
      text += (piece.microBatch < 0 ? "" : std::to_string(piece.microBatch)) + (piece.hasWeights ? "w" : "");
      texts.push_back(
          llvm::formatv("{0}{1} {2}-{3} {4}", text, piece.isWindow ? "|" : "", piece.begin, piece.end, piece.compute));
    }
    return texts;
  }
};
} // namespace

// Launches of one unit are one piece, until the device waits. Other launches are only shown between micro-batches.
TEST(SimReport, PiecesOfUnits) {
  UnitSteps steps;
  steps.addForward(0, 0, 1);
  steps.addForward(0, 1, 2, /*stage=*/-1);
  steps.add(makeLaunch("add", Resource::Memory, 0), 2, 3);
  steps.addForward(0, 3, 4);
  steps.addForward(1, 4, 5);
  steps.addForward(1, 7, 8);
  steps.addForward(1, 8, 9, /*stage=*/1);
  steps.addBackward(0, 9, 10);
  steps.addBackward(0, 10, 11, /*isOfWeights=*/true);
  steps.addBackward(0, 11, 12);
  steps.addBackward(0, 12, 13, /*isOfWeights=*/true);
  steps.add(makeLaunch("adam", Resource::Memory, 0), 13, 14);
  EXPECT_EQ(steps.getPieces(),
            (Strings{"F0 0.00-4.00 3.00", "F1 4.00-5.00 1.00", "F1 7.00-8.00 1.00", "F1 8.00-9.00 1.00",
                     "B0w 9.00-12.00 3.00", "W0 12.00-13.00 1.00", "O 13.00-14.00 1.00"}));
  EXPECT_EQ(steps.getDevice().pieces[0].stage, 0);
  EXPECT_EQ(steps.getDevice().pieces[3].stage, 1);
}

// Alternating forward and backward form a window. A launch in the middle of the other direction does not.
TEST(SimReport, PiecesOfWindows) {
  UnitSteps steps;
  for (int i = 0; i < 4; ++i) {
    steps.addForward(1, 2 * i, 2 * i + 1);
    steps.addBackward(0, 2 * i + 1, 2 * i + 2);
  }
  steps.addBackward(1, 8, 9);
  steps.addForward(2, 9, 9.1);
  steps.addBackward(1, 9.1, 19);
  EXPECT_EQ(steps.getPieces(),
            (Strings{"F1| 0.00-7.00 4.00", "B0| 1.00-8.00 4.00", "B1 8.00-19.00 10.90", "F2 9.00-9.10 0.10"}));
}

// Without stages a micro-batch is one piece. A single one makes no picture.
TEST(SimReport, PiecesWithoutStages) {
  UnitSteps steps;
  steps.addForward(0, 0, 1, /*stage=*/-1);
  EXPECT_TRUE(steps.getDevice().pieces.empty());
  steps.addForward(1, 1, 2, /*stage=*/-1);
  EXPECT_EQ(steps.getPieces(), (Strings{"M0 0.00-1.00 1.00", "M1 1.00-2.00 1.00"}));
}

// The part of a stage's exchanges that no computation covers is exposed. An exchange ends no piece.
TEST(SimReport, ExposedExchanges) {
  UnitSteps steps;
  SimGroup channel = {"pp", 2, 1};
  channel.span = 1;
  steps.result.programs[0].groups.push_back(channel);
  steps.addForward(0, 0, 2);
  steps.addExchange(1, 4);
  steps.addExchange(3, 5);
  steps.addForward(0, 5, 6);
  steps.addExchange(5, 9);
  steps.addForward(0, 7, 8);
  steps.addExchange(10, 11, /*group=*/1);
  steps.addForward(1, 11, 12);
  EXPECT_EQ(steps.getDevice().exposed, (std::vector<std::pair<double, double>>{{2, 5}, {6, 7}, {8, 9}}));
  EXPECT_EQ(steps.getPieces(), (Strings{"F0 0.00-8.00 4.00", "F1 11.00-12.00 1.00"}));
}

// With very many pieces the page has those that begin first, and names the last time.
TEST(SimReport, PageOfManyPieces) {
  UnitSteps steps;
  for (int32_t i = 0; i < 20'000; ++i)
    steps.addForward(i, i, i + 1);
  std::string page = writePage(steps.result);
  EXPECT_LT(page.size(), 2'000'000u);
  json::Value data = getPageData(page);
  const json::Object &pipeline = *data.getAsObject()->getObject("pipeline");
  EXPECT_EQ(pipeline.getNumber("to_s"), 6000);
  EXPECT_EQ(pipeline.getInteger("num_micro_batches"), 20'000);
  const json::Array &pieces = *(*pipeline.getArray("devices"))[0].getAsObject()->getArray("pieces");
  ASSERT_EQ(pieces.size(), 7 * 6000u);
  // The second piece: micro-batch, stage, work, neither window nor weights, gap, duration and own seconds.
  EXPECT_EQ(json::Array(llvm::make_range(pieces.begin() + 7, pieces.begin() + 14)),
            json::Array({1, 0, 0, 0, 5000, 5000, 5000}));
}

// A page shows at most 64 devices, and the number of all.
TEST(SimReport, PageOfManyDevices) {
  SimResult one = makeResult(1), result = one;
  constexpr uint32_t stages = 70;
  result.programs.assign(stages, one.programs[0]);
  result.ranks.clear();
  result.times.clear();
  for (uint32_t stage = 0; stage < stages; ++stage) {
    result.ranks.push_back({stage, 1, stage});
    result.times.push_back({stage, 0, 0, 1});
  }
  json::Value data = getPageData(writePage(result));
  const json::Object &pipeline = *data.getAsObject()->getObject("pipeline");
  EXPECT_EQ(pipeline.getInteger("num_devices"), stages);
  EXPECT_EQ(pipeline.getArray("devices")->size(), 64u);
}

//===- CalibrateTest.cpp - the parts that no machine's speed affects ------===//

#include "calibrate/Calibrate.h"
#include "calibrate/MoeCalibrate.h"
#include "calibrate/Ranks.h"
#include "core/Shapes.h"
#include "host/Kernels.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

using namespace moert;
using namespace moert::calibrate;
using nlohmann::json;
using testing::HasSubstr;

namespace {

std::vector<Sample> line(double latency, double perByte, std::vector<double> sizes) {
  std::vector<Sample> samples;
  for (double bytes : sizes)
    samples.push_back({bytes, latency + perByte * bytes});
  return samples;
}

int runTool(std::vector<std::string> arguments, std::string &out, std::string &err) {
  std::ostringstream output, errors;
  int status = runMain(arguments, output, errors, false);
  out = output.str();
  err = errors.str();
  return status;
}

} // namespace

// The fit finds a line again from samples on it.
TEST(Fit, ExactLine) {
  Fit fit = fitLine(line(2, 0.5, {1, 2, 4, 100}));
  EXPECT_NEAR(fit.latency, 2, 1e-9);
  EXPECT_NEAR(fit.perByte, 0.5, 1e-9);
  EXPECT_NEAR(fit.r2, 1, 1e-9);
  EXPECT_NEAR(fit.relativeError, 0, 1e-9);
}

// Seconds are 1 and 3 at one size. The sum of (p / s - 1)^2 is least at p = (1/1 + 1/3) / (1 + 1/9) = 1.2, and not at
// their mean.
TEST(Fit, ErrorsAreRelative) {
  Fit fit = fitLine({{1, 1}, {1, 3}});
  EXPECT_NEAR(fit.at(1), 1.2, 1e-9);
  EXPECT_NEAR(fit.relativeError, (0.2 + 0.6) / 2, 1e-9);
}

// A line that would begin below zero begins at zero, one that would fall is flat.
TEST(Fit, NothingNegative) {
  Fit steep = fitLine({{1, 0.5}, {10, 20}, {20, 50}});
  EXPECT_EQ(steep.latency, 0);
  EXPECT_GT(steep.perByte, 0);
  Fit falling = fitLine({{1, 4}, {10, 2}});
  EXPECT_EQ(falling.perByte, 0);
  EXPECT_NEAR(falling.latency, (0.25 + 0.5) / (0.0625 + 0.25), 1e-9);
}

// A single size gives a rate and no latency. Between 1 and 4, 2 is the middle in logarithms: between 8 and 2 that is 4,
// a third more than 3. The next axis is skipped.
TEST(Fit, NeighbourError) {
  EXPECT_NEAR(neighbourError({1, 2, 4}, {8, 3, 2}, 1), 1.0 / 3, 1e-12);
  EXPECT_NEAR(neighbourError({1, 2, 4}, {8, 8, 3, 4, 2, 2}, 2), (1.0 / 3 + 0) / 2, 1e-12);
  EXPECT_EQ(neighbourError({1, 4}, {8, 2}, 1), 0);
}

TEST(Fit, OneSize) {
  Fit fit = fitLine({{8, 4}});
  EXPECT_EQ(fit.latency, 0);
  EXPECT_NEAR(fit.perByte, 0.5, 1e-9);
}

// R^2 is that of the logarithms: residuals log 1.2 and log 0.4 over a variance of log 3.
TEST(Fit, SaysHowGoodItIs) {
  Fit fit = fitLine({{1, 1}, {1, 3}});
  double residual = std::pow(std::log(1.2), 2) + std::pow(std::log(0.4), 2);
  EXPECT_NEAR(fit.r2, 1 - residual / (std::pow(std::log(3), 2) / 2), 1e-9);
}

// Operands of one call do not overlap. Calls return to the beginning after the reach.
TEST(Pool, IsARing) {
  HostBench bench;
  Pool pool;
  ASSERT_TRUE(pool.create(bench, MOERT_F64).ok());
  pool.setReach(1000);
  pool.beginCall();
  View a = pool.input({10, 10}), b = pool.input({3});
  EXPECT_EQ(b.as<char>() - a.as<char>(), 1024);
  EXPECT_EQ(a.dtype, MOERT_F64);
  EXPECT_EQ(a.dims[1], 10);
  pool.beginCall();
  EXPECT_EQ(pool.input({3}).data, a.data);
  EXPECT_NE(pool.output({3}).data, a.data);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(std::abs(a.as<double>()[i]), 0.1);
    EXPECT_LE(std::abs(a.as<double>()[i]), 1);
  }
}

// Every kernel that is no product has an entry for each kind of activation, score or policy that it knows, with figures
// that a profile may hold. Bytes are those that the compiler counts: both inputs and the output of an addition, and the
// part that a slice reads and writes.
TEST(Calibrate, AllKernels) {
  HostBench bench;
  Pool pool;
  ASSERT_TRUE(pool.create(bench, MOERT_F32).ok());
  Settings settings;
  settings.quick = true;
  std::vector<KernelFit> fits;
  Status status = calibrateKernels(pool, settings, fits);
  ASSERT_TRUE(status.ok()) << status.message;
  std::map<std::string, int> entries;
  for (const KernelFit &fit : fits) {
    ++entries[fit.calls.kernel];
    EXPECT_EQ(fit.dtype, "f32");
    EXPECT_GE(fit.fit.latency, 0);
    EXPECT_GT(fit.fit.perByte, 0);
    EXPECT_TRUE(std::isfinite(fit.fit.perByte));
    EXPECT_LE(fit.fit.r2, 1);
    if (fit.calls.kernel == "add" || fit.calls.kernel == "slice") {
      EXPECT_EQ(fit.samples[0].bytes, (fit.calls.kernel == "add" ? 3 : 2) * 512 * 4);
    }
  }
  for (int kind = 0; !isCollective(static_cast<Kind>(kind)); ++kind) {
    std::string name = kindName(static_cast<Kind>(kind));
    bool isProduct = name.find("matmul") != std::string::npos;
    int kinds = name.rfind("activation", 0) == 0          ? static_cast<int>(kLastActivation) + 1
                : name == "choose_shadows"                ? 3
                : name == "route" || name == "route_grad" ? 2
                                                          : 1;
    EXPECT_EQ(entries[name], isProduct ? 0 : kinds) << name;
  }
}

// Ranks meet as in a plan, and an error of a call ends the step with its text.
TEST(Ranks, RunSteps) {
  std::unique_ptr<Ranks> ranks;
  ASSERT_TRUE(Ranks::create({.ranks = 3, .arenaBytes = 4096}, ranks).ok());
  auto gather = [&](int64_t elements) {
    return [&ranks, elements](moert_rank_t rank) {
      moert_buffer in = Ranks::buffer(MOERT_F32, 0, {2}), out = Ranks::buffer(MOERT_F32, 1024, {elements});
      return moert_all_gather(rank, Ranks::kMeet, &in, &out, 0, &ranks->group(), Ranks::kMeet);
    };
  };
  Ranks::StepTime time;
  Status status = ranks->run(gather(6), time);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_GT(time.issue, 0);
  status = ranks->run(gather(7), time);
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(status.message, HasSubstr("all_gather"));
}

// The profile has the keys of docs/Clusters.md, and the numbers that were put in.
TEST(Profile, Writes) {
  Profile profile;
  profile.name = "here";
  profile.description = "a test";
  profile.deviceName = "CPU \"x\"";
  profile.source = "made up";
  profile.processors = 2;
  profile.memoryBytes = 1e9;
  profile.memoryBytesPerSecond = 2e9;
  profile.launchSeconds = 1e-7;
  profile.kernelSeconds = 2e-7;
  profile.rates = {
      {"f32", 4e9, {{{}, 1, {1, 2}, {1}, {1}, {0.5, 1}}, {{{"matmul", {1, 0}}}, 64, {1}, {64}, {1}, {0.25}}}}};
  profile.kernels = {{{"activation", {3}}, "f32", {1e-6, 5e-10, 0.99, 0.01}, {{10, 1.005e-6}}}};
  profile.exchanges = {{"all_gather", "", 3, 4, 3, 4, {1e-6, 1e-9, 1, 0}, {}}};
  profile.exchanges.push_back({"all_to_all", "", 8, 8, 8, 8, {}, {{1, 1e-5}, {2, 2e-5}, {4, 3e-5}}, true});
  profile.rates[0].curves.push_back({{{"grouped_matmul", {}}}, 1, {1}, {2}, {3}, {0.5, 0.75}, true, "", {4, 8}});
  profile.attention = {{"f32", 64, 2, {32, 64}, {8}, {0.25, 0.5}}};
  profile.reservedBytes = 3e8;
  profile.sustained = 0.9;
  profile.speeds = {{1, 0.5}, {1, 0.25}, {1, 1}};
  std::ostringstream out;
  writeProfile(profile, out);
  json root = json::parse(out.str());
  EXPECT_EQ(root["moeplan_cluster"], 1);
  EXPECT_EQ(root["nodes"], 1);
  EXPECT_EQ(root["device"]["name"], "CPU \"x\"");
  EXPECT_EQ(root["device"]["launch_s"], 1e-7);
  const json &rate = root["device"]["rates"][0];
  EXPECT_EQ(rate["efficiency"]["values"], json({0.5, 1.0}));
  EXPECT_FALSE(rate["efficiency"].contains("calls"));
  EXPECT_EQ(rate["special"][0]["calls"][0], json({{"kernel", "matmul"}, {"params", {1, 0}}}));
  EXPECT_EQ(rate["special"][0]["columns_multiple_of"], 64);
  EXPECT_EQ(rate["special"][1]["groups"], json({4, 8}));
  EXPECT_EQ(root["device"]["attention"][0]["products"], 2);
  EXPECT_EQ(root["device"]["reserved_bytes"], 3e8);
  EXPECT_EQ(root["device"]["sustained"], 0.9);
  const json &curve = root["collectives"][1];
  EXPECT_FALSE(curve.contains("alpha_s"));
  EXPECT_EQ(curve["points"].size(), 3u);
  EXPECT_GT(curve["relative_error"], 0);
  const json &kernel = root["device"]["kernels"][0];
  EXPECT_EQ(kernel["params"], json::array({3}));
  EXPECT_EQ(kernel["bytes_per_s"], 2e9);
  EXPECT_EQ(kernel["points"], json::array({json::array({10.0, 1.005e-6})}));
  const json &exchange = root["collectives"][0];
  EXPECT_FALSE(exchange.contains("dtype"));
  EXPECT_EQ(exchange["members"], json({{"min", 3}, {"max", 4}}));
  EXPECT_EQ(exchange["per_node"], exchange["members"]);
  EXPECT_EQ(root["processors"]["speed"]["memory"], json({1.0, 0.25}));
  for (const json *entry :
       std::initializer_list<const json *>{&root["device"], &rate, &kernel, &exchange, &root["processors"]})
    EXPECT_EQ((*entry)["source"].get<std::string>().substr(0, 7), "made up");
}

TEST(Options, Accepted) {
  Options options;
  ASSERT_TRUE(parseOptions({"-o", "x.json", "--backend=host", "--workers=3", "--quick"}, options).ok());
  EXPECT_EQ(options.output, "x.json");
  EXPECT_EQ(options.workers, 3);
  EXPECT_TRUE(options.quick);
}

// Each wrong command line ends with status 2 and says what was expected.
TEST(Tool, WrongUse) {
  const std::pair<std::vector<std::string>, const char *> cases[] = {
      {{}, "expected an output file"},
      {{"-o"}, "-o: expected a value"},
      {{"-o", "x", "--backend=mpi"}, "--backend: expected host, cuda or cuda-loopback but got 'mpi'"},
      {{"-o", "x", "--backend=cuda", "--workers=2"}, "expected --backend=host with --workers but got --backend=cuda"},
      {{"-o", "x", "--workers=0"}, "--workers: expected an integer from 1 to 4096 but got '0'"},
      {{"-o", "x", "--workers=2x"}, "but got '2x'"},
      {{"-o", "x", "--backend="}, "--backend: expected a value"},
      {{"-o", "x", "--worker=2"}, "unknown option '--worker'; did you mean --workers?"},
      {{"-o", "x", "y"}, "unexpected argument 'y'"},
      {{"-o", "x", "--backend=cuda", "--products=y"}, "-o and --products are mutually exclusive"},
      {{"-o", "x", "--limit=5"}, "expected --products with --limit"},
      {{"--products=y", "--backend=cuda", "--limit=soon"},
       "--limit: expected a number of seconds that is not negative but got 'soon'"},
      {{"--products=y"}, "expected --backend=cuda or --backend=cuda-loopback with --products"},
      {{"--products=/nowhere/x.json", "--backend=cuda-loopback"}, "'/nowhere/x.json': cannot be written"},
      {{"-o", "/nowhere/x.json"}, "'/nowhere/x.json': cannot be written"},
  };
  for (const auto &[arguments, text] : cases) {
    std::string out, err;
    EXPECT_EQ(runTool(arguments, out, err), 2) << text;
    EXPECT_THAT(err, HasSubstr(text));
    EXPECT_EQ(out, "");
  }
}

TEST(Tool, Help) {
  std::string out, err;
  EXPECT_EQ(runTool({"--help"}, out, err), 0);
  EXPECT_THAT(out, HasSubstr("usage: moe-calibrate"));
  EXPECT_THAT(out, HasSubstr("\n  -o FILE  "));
  out.clear();
  EXPECT_EQ(runTool({"--version"}, out, err), 0);
  EXPECT_THAT(out, testing::StartsWith("moe-calibrate (MoePlan) "));
}

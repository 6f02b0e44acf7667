//===- OptionsTest.cpp ----------------------------------------------------===//

#include "run/Options.h"
#include "run/Agreement.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace moert;
using namespace moert::run;
using testing::HasSubstr;

TEST(Options, All) {
  Options options;
  Status status = parseOptions({"p.so", "--backend=cuda", "--batch=2", "--seq=16", "--iters=3", "--verify",
                                "--seed=18446744073709551615", "--load=a", "--load=f", "--save=b",
                                "--save-checkpoint=g", "--trace=c", "--timeout=0.5", "--workers=2", "--json",
                                "--emulate-links=share/parm-b.json", "--routing=d", "--record-routing=e"},
                               options);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(options.plan, "p.so");
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.timeout, 0.5);
  EXPECT_EQ(options.emulateLinks, "share/parm-b.json");
  EXPECT_EQ(options.routing, "d");
  EXPECT_EQ(options.recordRouting, "e");
  EXPECT_THAT(options.loads, testing::ElementsAre("a", "f"));
  EXPECT_EQ(options.saveCheckpoint, "g");
  EXPECT_EQ(options.batch, 2);
  EXPECT_EQ(options.seq, 16);
  EXPECT_TRUE(options.verify && options.json);
}

TEST(Options, ShardBytes) {
  for (auto [text, bytes] : std::vector<std::pair<std::string, int64_t>>{{"123", 123},
                                                                         {"500MB", 500'000'000},
                                                                         {"5GiB", int64_t(5) << 30},
                                                                         {"1.5kb", 1500},
                                                                         {"2 TB", 2'000'000'000'000}}) {
    Options options;
    EXPECT_EQ(parseOptions({"a.so", "--save-checkpoint=x", "--shard-bytes=" + text}, options).message, "");
    EXPECT_EQ(options.shardBytes, bytes);
  }
}

TEST(Options, Wrong) {
  for (auto [arguments, text] : std::vector<std::pair<std::vector<std::string>, const char *>>{
           {{}, "expected a plan"},
           {{"a.so", "b.so"}, "unexpected argument 'b.so'"},
           {{"a.so", "--rate=0.1", "--iter=2"}, "unknown option '--iter'; did you mean --iters?"},
           {{"a.so", "--frobnicate"}, "unknown option '--frobnicate'; moe-run --help lists the options"},
           {{"a.so", "--batch=0"}, "--batch: expected a positive integer but got '0'"},
           {{"a.so", "--seq=2,4"}, "--seq: expected a positive integer but got '2,4'"},
           {{"a.so", "--iters=2x"}, "but got '2x'"},
           {{"a.so", "--iters"}, "--iters: expected a value"},
           {{"a.so", "--save", "--json"}, "--save: expected a value but got '--json'"},
           {{"a.so", "--seed=-1"}, "--seed: expected an integer that is not negative but got '-1'"},
           {{"a.so", "--timeout=nan"}, "--timeout: expected a positive number of seconds but got 'nan'"},
           {{"a.so", "--timeout=inf"}, "--timeout: expected a positive number of seconds but got 'inf'"},
           {{"a.so", "--workers=100000"}, "--workers: expected an integer from 1 to 4096 but got '100000'"},
           {{"a.so", "--emulate-links"}, "--emulate-links: expected a value"},
           {{"a.so", "--routing="}, "--routing: expected a value"},
           {{"a.so", "--tf32"}, "--tf32 is for backends cuda and cuda-loopback, but the backend is 'host'"},
           {{"a.so", "--load"}, "--load: expected a value"},
           {{"a.so", "--reference", "--emulate-links=x"}, "--reference and --emulate-links are mutually exclusive"},
           {{"a.so", "--verify=f32"}, "--verify: expected no value or one of f64, exact and gradients but got 'f32'"},
           {{"a.so", "--verify=f64", "--save-checkpoint=x"},
            "cannot be combined with --verify=f64, exact or gradients"},
           {{"a.so", "--verify=exact", "--backend=mpi"}, "--verify=exact runs on backend host"},
           {{"a.so", "--verify=exact", "--load=x"}, "cannot be combined with --load or --save"},
           {{"a.so", "--verify", "--reference"}, "--reference and --verify are mutually exclusive"},
           {{"a.so", "--save-checkpoint=x", "--shard-bytes=5PB"},
            "--shard-bytes: expected bytes, as in 80GB, 74.5GiB or 80000000000, but got '5PB'; units are"},
           {{"a.so", "--save-checkpoint=x", "--shard-bytes=0"}, "but got '0'"},
           {{"a.so", "--save-checkpoint=x", "--shard-bytes=99999999TB"}, "but got '99999999TB'"},
           {{"a.so", "--shard-bytes=1MB"}, "expected --shard-bytes with --save-checkpoint or with --checkpoint=DIR/"},
           {{"a.so", "--train", "--data=x", "--checkpoint=f", "--keep=3"}, "expected --keep with --checkpoint=DIR/"},
           {{"a.so", "--data-type=int32"}, "expected --train with --data, --data-type"}}) {
    Options options;
    EXPECT_THAT(parseOptions(arguments, options).message, HasSubstr(text));
  }
}

static std::string helpText(const char *option) {
  Options options;
  EXPECT_EQ(parseOptions({option}, options).message, "");
  return options.information;
}

// Values may follow after a space, and the last of several counts.
TEST(Options, Forms) {
  Options options;
  ASSERT_EQ(
      parseOptions({"--iters", "2", "--verify", "a.so", "--iters=010", "--load", "x", "--load", "y", "--json"}, options)
          .message,
      "");
  EXPECT_EQ(options.plan, "a.so");
  EXPECT_EQ(options.iters, 10);
  EXPECT_TRUE(options.verify && options.json);
  EXPECT_THAT(options.loads, testing::ElementsAre("x", "y"));
}

TEST(Options, Help) {
  const std::string help = helpText("--help");
  EXPECT_THAT(help, testing::StartsWith("usage: moe-run PLAN.so [options]\n"));
  EXPECT_LE(std::ranges::count(help, '\n'), 100);
  EXPECT_THAT(help, Not(HasSubstr("--tf32")));
  EXPECT_THAT(helpText("--help-hidden"), HasSubstr("--tf32"));
  for (const char *usage : {"\n  --iters=N  ", "\n  --verify[=f64|exact|gradients]\n", "\n  --json  ",
                            "\n  --data-type=bytes|uint16|int32|uint32|int64\n", "\n  --checkpoint-every=N\n"})
    EXPECT_THAT(help, HasSubstr(usage));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 110u) << line;
}

// Each option that --help lists is compared between processes, or known to concern a single process.
TEST(Options, Agreement) {
  const std::set<std::string> ofOne = {"--backend", "--save",    "--trace", "--timeout",    "--no-cuda-graph",
                                       "--tf32",    "--workers", "--json",  "--log",        "--help",
                                       "--digest",  "--version", "--keep",  "--help-hidden"};
  const std::map<std::string, std::string> values = {{"--rate", "0.5"}, {"--final-rate", "0.5"}};
  const std::string file = testing::TempDir() + "agreement-" + std::to_string(::getpid());
  std::ofstream(file) << "some text";
  auto textOf = [](std::vector<std::string> arguments) {
    Options options;
    arguments.insert(arguments.begin(), "p.so");
    (void)parseOptions(arguments, options);
    return agreementText(options);
  };
  const std::vector<std::string> training = {"--train", "--data=" + file};
  std::istringstream help(helpText("--help-hidden"));
  size_t compared = 0;
  for (std::string line; std::getline(help, line);) {
    size_t begin = line.find("--"), end = line.find_first_of(" =[", begin);
    if (begin == std::string::npos || begin > 4)
      continue;
    std::string name = line.substr(begin, end - begin);
    if (ofOne.count(name))
      continue;
    bool takesValue = end != std::string::npos && line[end] == '=';
    auto value = values.find(name);
    std::string option = name + (!takesValue ? "" : "=" + (value != values.end() ? value->second : "7"));
    std::vector<std::string> with = training;
    with.push_back(name == "--data" ? "--data=/none" : option);
    // Options that conflict with training are compared without it.
    EXPECT_TRUE(textOf(with) != textOf(training) || textOf({option}) != textOf({})) << name;
    ++compared;
  }
  EXPECT_GT(compared, 15u);
  std::remove(file.c_str());
}

// Files are compared by their contents, not by their paths. Large files are not read completely.
TEST(Options, AgreementOnFiles) {
  const std::string path = testing::TempDir() + "agreement-" + std::to_string(::getpid()) + ".safetensors";
  std::string bytes("\x02\0\0\0\0\0\0\0{}", 10);
  bytes.resize(10 << 20, 'x');
  auto write = [&] { std::ofstream(path, std::ios::binary) << bytes; };
  write();
  std::string before = sampledText(path);
  EXPECT_THAT(before, testing::StartsWith("10485760 bytes, SHA-256 "));
  write();
  EXPECT_EQ(sampledText(path), before);
  bytes[5 << 20] = 'y';
  write();
  EXPECT_NE(sampledText(path), before);
  bytes = "short";
  write();
  EXPECT_THAT(sampledText(path), testing::StartsWith("5 bytes, "));
  std::remove(path.c_str());
  EXPECT_EQ(sampledText(path), "cannot be read");
  EXPECT_EQ(wholeFileText(path), "cannot be read");
}

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
  Status status = parseOptions({"p.so", "--backend=cuda", "--ranks=8", "--batch=2", "--seq=16", "--iters=3", "--verify",
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
           {{"a.so", "b.so"}, "expected one plan"},
           {{"a.so", "--rank=2"}, "unknown option '--rank'"},
           {{"a.so", "--ranks=0"}, "expected a positive integer for --ranks but got '0'"},
           {{"a.so", "--batch=0"}, "expected a positive integer for --batch but got '0'"},
           {{"a.so", "--seq=2,4"}, "expected a positive integer for --seq but got '2,4'"},
           {{"a.so", "--ranks=2x"}, "but got '2x'"},
           {{"a.so", "--iters"}, "expected a value: --iters=..."},
           {{"a.so", "--seed=-1"}, "for --seed"},
           {{"a.so", "--timeout=nan"}, "for --timeout"},
           {{"a.so", "--timeout=inf"}, "for --timeout"},
           {{"a.so", "--json=1"}, "takes no value"},
           {{"a.so", "--workers=100000"}, "at most 4096"},
           {{"a.so", "--emulate-links"}, "expected a value: --emulate-links=..."},
           {{"a.so", "--routing"}, "expected a value: --routing=..."},
           {{"a.so", "--tf32"}, "--tf32 is for backends cuda and cuda-loopback, but the backend is 'host'"},
           {{"a.so", "--load"}, "expected a value: --load=..."},
           {{"a.so", "--reference", "--emulate-links=x"}, "no transfers to emulate"},
           {{"a.so", "--verify=f32"},
            "expected --verify, or one of f64, exact and gradients behind it, but got '--verify=f32'"},
           {{"a.so", "--verify=f64", "--save-checkpoint=x"}, "expected no --save-checkpoint, which writes these"},
           {{"a.so", "--verify=exact", "--backend=mpi"}, "--verify=exact runs on backend host"},
           {{"a.so", "--verify=exact", "--load=x"}, "expected neither --load nor --save"},
           {{"a.so", "--verify", "--reference"}, "nothing to compare"},
           {{"a.so", "--verify="}, "expected a value: --verify=..."},
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

// The help is printed from the table that is parsed: each option with its value, in lines of bounded length.
TEST(Options, Help) {
  const std::string help = helpText();
  EXPECT_THAT(help, testing::StartsWith("usage: moe-run PLAN.so [options]\n"));
  for (const char *usage : {"\n  --ranks=N  ", "\n  --verify[=f64|exact|gradients]\n", "\n  --json  ",
                            "\n  --data-type=bytes|uint16|int32|uint32|int64\n", "\n  --checkpoint-every=N\n"})
    EXPECT_THAT(help, HasSubstr(usage));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 110u) << line;
}

// Each option that --help lists is compared between processes, or known to concern one process alone.
TEST(Options, Agreement) {
  const std::set<std::string> ofOne = {"--backend", "--save",    "--trace",   "--timeout", "--no-cuda-graph",
                                       "--tf32",    "--workers", "--json",    "--log",     "--help",
                                       "--ranks",   "--digest",  "--version", "--keep"};
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
  std::istringstream help(helpText());
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
    // What does not go with training is compared without it.
    EXPECT_TRUE(textOf(with) != textOf(training) || textOf({option}) != textOf({})) << name;
    ++compared;
  }
  EXPECT_GT(compared, 15u);
  std::remove(file.c_str());
}

// Files by what is in them, not by where they are; of large ones not all is read.
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

//===- OptionsTest.cpp ----------------------------------------------------===//

#include "run/Options.h"

#include <gmock/gmock.h>

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
  EXPECT_FALSE(options.adaptive);
  EXPECT_EQ(options.batch, 2);
  EXPECT_EQ(options.seq, 16);
  EXPECT_TRUE(options.verify && options.json);
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
           {{"a.so", "--adaptive=1"}, "takes no value"},
           {{"a.so", "--routing"}, "expected a value: --routing=..."},
           {{"a.so", "--adaptive", "--save=x"},
            "none of --reference, --load, --save, --save-checkpoint, --trace, --routing and"},
           {{"a.so", "--tf32"}, "--tf32 is for backends cuda and cuda-loopback, but the backend is 'host'"},
           {{"a.so", "--load"}, "expected a value: --load=..."},
           {{"a.so", "--adaptive", "--save-checkpoint=x"}, "several variants of the plan: expected none of"},
           {{"a.so", "--adaptive", "--routing=x"}, "several variants of the plan: expected none of"},
           {{"a.so", "--adaptive", "--record-routing=x"}, "several variants of the plan: expected none of"},
           {{"a.so", "--reference", "--emulate-links=x"}, "no transfers to emulate"},
           {{"a.so", "--verify", "--reference"}, "nothing to compare"}}) {
    Options options;
    EXPECT_THAT(parseOptions(arguments, options).message, HasSubstr(text));
  }
}

//===- MpiTest.cpp - moe-run on several processes -------------------------===//
//
// mpirun starts as many processes as a plan has ranks. A rank that breaks must end them all, in time, with a text that
// says which rank waited where for which, and no process may remain.
//
//===----------------------------------------------------------------------===//

#include "MoeRunTest.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <dirent.h>
#include <filesystem>
#include <set>
#include <tuple>

using testing::HasSubstr;
using testing::Not;

namespace {

/// MPI keeps some memory for good, which is not a leak of the runtime.
constexpr const char *kMpirun = "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 "
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " MPIRUN " --quiet --oversubscribe ";

Outcome runRanks(int ranks, const std::string &arguments, const std::string &environment = "") {
  return runCommand(environment + " " + kMpirun + "-n " + std::to_string(ranks) + " " + MOE_RUN + " " PLANS "/" +
                    arguments + " --backend=mpi");
}

/// Number of processes whose command line has `text`, including stopped ones.
int countProcesses(const std::string &text) {
  int count = 0;
  DIR *folder = opendir("/proc");
  while (const dirent *entry = readdir(folder))
    count += readAll(std::string("/proc/") + entry->d_name + "/cmdline").find(text) != std::string::npos;
  closedir(folder);
  return count;
}

/// A plan with a fault, under a name by which its processes are found.
class MpiFault : public testing::Test {
protected:
  MpiFault() { EXPECT_EQ(symlink(PLANS "/faulty.so", plan.c_str()), 0); }
  ~MpiFault() override { std::remove(plan.c_str()); }

  Outcome run(const std::string &fault, const std::string &flags) {
    auto begin = std::chrono::steady_clock::now();
    Outcome outcome = runCommand("MOERT_TEST_FAULT=" + fault + " " + kMpirun + "-n 4 " MOE_RUN " " + plan +
                                 " --backend=mpi --iters=3 " + flags);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    // mpirun gives the processes that it ends a moment.
    for (int tries = 0; tries < 30 && countProcesses(plan) > 0; ++tries)
      usleep(100000);
    EXPECT_EQ(countProcesses(plan), 0);
    EXPECT_NE(outcome.status, 0);
    return outcome;
  }

  std::string plan = temporary("faulty.so");
  double seconds = 0;
};

} // namespace

TEST(Mpi, VerifiesPlans) {
  for (const char *plan : {"small", "routed", "routed-chunks", "routed-leave", "stages", "routed-stages"}) {
    Outcome outcome = runRanks(4, std::string(plan) + ".so --verify --iters=3");
    EXPECT_EQ(outcome.status, 0) << plan << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("4 ranks, 3 steps"));
    EXPECT_EQ(outcome.err, "");
  }
}

// One process prints and writes. Its results are those of one process with all ranks.
TEST(Mpi, WritesOnce) {
  std::string here = temporary("here.safetensors"), there = temporary("there.safetensors"),
              trace = temporary("trace.json");
  EXPECT_EQ(runPlan("small", "--save=" + here).status, 0);
  Outcome outcome = runRanks(4, "small.so --save=" + there + " --trace=" + trace);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readAll(here), readAll(there));
  for (const char *rank : {"rank 0", "rank 1", "rank 2", "rank 3"})
    EXPECT_THAT(readAll(trace), HasSubstr(rank));
  for (const std::string &path : {here, there, trace})
    std::remove(path.c_str());
}

// Each process writes its own files, and one process with all ranks resumes from them.
TEST(Mpi, SavesToAFolder) {
  std::string text = temporary("text"), state = temporary("state");
  std::ofstream(text) << "some text to learn";
  const std::string flags = " --train --json --rate=0.5 --data=" + text + " --checkpoint=" + state + "/";
  Outcome outcome = runRanks(4, "train-stages.so --steps=2 --shard-bytes=16" + flags);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::set<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(state + "/step-00000002"))
    files.insert(entry.path().filename().string());
  // The first stage writes 'shared' and 'step' or 'w0', the second 'w1': each value has a file of its own.
  EXPECT_EQ(files.size(), 5u);
  EXPECT_EQ(files.count("index.json"), 1u);
  outcome = runPlan("train-stages", "--steps=3" + flags);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"loss\": 100.0"));
  // An error of one process ends all, and is reported once.
  std::filesystem::remove_all(state + "/step-00000003");
  outcome = runRanks(4, "train-stages.so --steps=4" + flags);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("latest': expected the name of a folder beside it but got 'step-00000003'"));
  std::filesystem::remove_all(state);
  std::remove(text.c_str());
}

TEST(Mpi, ChecksReplicas) {
  Outcome outcome = runRanks(4, "not-replicated.so --verify");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("op 4 assume_replicated 'layer0' on group 'mp': assumed equal on group 'mp'"));
}

TEST(Mpi, FindsWrongResults) {
  Outcome outcome = runRanks(4, "wrong-factor.so --verify");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("result 'y' differs from the reference"));
}

TEST(Mpi, NeedsAsManyProcesses) {
  Outcome outcome = runRanks(2, "small.so");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the plan has 4 ranks, but there are 2 processes; start them by mpirun -n 4 "
                                     "or srun --mpi=pmix -n 4"));
}

// Rank 0 reports it in one line for all ranks.
TEST(Mpi, DoesNotFit) {
  for (const auto &[ranks, plan, text] :
       {std::tuple(2, "small.so", "moe-run: error: rank 0: the plan has 4 ranks, but there are 2 processes"),
        {4, "huge.so",
         "moe-run: error: rank 0: a world of 4 ranks, 1 of them in this process, each with an arena of"}}) {
    Outcome outcome = runRanks(ranks, plan);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, testing::StartsWith(text));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

/// Two ranks with other arguments than the first two.
static Outcome runUnlike(const std::string &first, const std::string &others) {
  const std::string run = "-n 2 " MOE_RUN " " PLANS "/", rest = " --backend=mpi";
  return runCommand(kMpirun + run + first + rest + " : " + run + others + rest);
}

TEST(Mpi, NeedsOnePlan) {
  // The latter two plans have the same metadata.
  for (const char *other : {"routed.so", "wrong-factor.so"}) {
    Outcome outcome = runUnlike("small.so", other);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("rank 2 does not run the same as rank 0"));
    EXPECT_THAT(outcome.err, testing::ContainsRegex("plan: expected 'SHA-256 [0-9a-f]+' but got 'SHA-256 [0-9a-f]+'"));
  }
}

TEST(Mpi, NeedsOneRun) {
  Outcome outcome = runUnlike("small.so --seed=1", "small.so --seed=2 --iters=3");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("\n  --iters: expected '1' but got '3'\n  --seed: expected '1' but got '2'\n"));
}

// Data and files are compared by their contents, independent of their paths.
TEST(Mpi, NeedsOneTraining) {
  std::string one = temporary("one.txt"), same = temporary("same.txt"), other = temporary("other.txt");
  std::ofstream(one) << "some text";
  std::ofstream(same) << "some text";
  std::ofstream(other) << "some test";
  const std::string train = "train-stages.so --train --steps=2 --data=";
  EXPECT_EQ(runUnlike(train + one, train + same + " --rate=0.001 --log=/dev/null").status, 0);
  Outcome outcome = runUnlike(train + one, train + other);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--data: expected '9 bytes, SHA-256 "));
  outcome = runUnlike(train + one, train + one + " --rate=0.002");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--rate: expected '0.001' but got '0.002'"));
  for (const std::string &path : {one, same, other})
    std::remove(path.c_str());
}

TEST_F(MpiFault, Killed) {
  Outcome outcome = run("2:kill", "");
  EXPECT_THAT(outcome.err, HasSubstr("rank 2 (process "));
  EXPECT_THAT(outcome.err, HasSubstr("died: its connection closed"));
  EXPECT_THAT(outcome.err, HasSubstr("waited in op 0 all_reduce 'layer0' on group 'ep'"));
  EXPECT_LT(seconds, 10);
}

TEST_F(MpiFault, FirstKilled) {
  Outcome outcome = run("0:kill", "");
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 (process "));
  EXPECT_THAT(outcome.err, HasSubstr("died: its connection closed"));
}

TEST_F(MpiFault, StandsStill) {
  Outcome outcome = run("1:stop", "--timeout=2");
  EXPECT_THAT(outcome.err, HasSubstr("the time-out of 2"));
  EXPECT_THAT(outcome.err,
              HasSubstr("ranks 0, 2, 3 wait in op 0 all_reduce 'layer0' on group 'ep' of ranks 0 to 3 for rank 1"));
  EXPECT_THAT(outcome.err, testing::ContainsRegex("rank 1 \\(process .*\\) does not answer"));
  EXPECT_LT(seconds, 20);
}

TEST_F(MpiFault, FirstStandsStill) {
  Outcome outcome = run("0:stop", "--timeout=2");
  EXPECT_THAT(outcome.err, testing::ContainsRegex("rank 0 \\(process .*\\) does not answer"));
  EXPECT_LT(seconds, 20);
}

TEST_F(MpiFault, NeverReturns) {
  Outcome outcome = run("3:spin", "--timeout=2");
  EXPECT_THAT(outcome.err, HasSubstr("for rank 3"));
  EXPECT_THAT(outcome.err, HasSubstr("still runs rank 3: its program issues its calls"));
  EXPECT_LT(seconds, 20);
}

// The receiver detects a message that is too short.
TEST(Mpi, ShortMessages) {
  for (const auto &[plan, text] :
       {std::pair("short", "(8 of 16 bytes came)"), {"long", "(more than the 16 bytes that were expected came)"}}) {
    Outcome outcome = runRanks(4, std::string(plan) + ".so");
    EXPECT_NE(outcome.status, 0);
    EXPECT_THAT(outcome.err, testing::ContainsRegex("rank [0-3], op 3 all_to_all_v 'layer0' on group 'ep': "));
    EXPECT_THAT(outcome.err, HasSubstr("disagree: expected expert_counts to be the all_to_all of block_counts"));
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
}

TEST_F(MpiFault, Exits) {
  Outcome outcome = run("2:exit", "");
  EXPECT_THAT(outcome.err, HasSubstr("rank 2 (process "));
  EXPECT_LT(seconds, 10);
}

TEST_F(MpiFault, Fails) {
  Outcome outcome = run("2:fail", "");
  EXPECT_THAT(outcome.err, HasSubstr("rank 2: "));
  EXPECT_LT(seconds, 10);
}

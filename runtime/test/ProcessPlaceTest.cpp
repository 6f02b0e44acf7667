//===- ProcessPlaceTest.cpp - variables of launchers, texts of stalls -----===//

#include "core/ProcessPlace.h"
#include "net/Stall.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace moert;
using namespace moert::net;
using testing::HasSubstr;

namespace {

Status place(const std::map<std::string, std::string> &variables, ProcessPlace &result) {
  const auto environment = [&](const char *name) {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
  Status status = readProcessPlace(environment, result);
  return status.ok() ? readMeeting(environment, result) : status;
}

std::string placeError(const std::map<std::string, std::string> &variables) {
  ProcessPlace result;
  Status status = place(variables, result);
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  return status.message;
}

} // namespace

TEST(ProcessPlace, Alone) {
  ProcessPlace result;
  ASSERT_TRUE(place({}, result).ok());
  EXPECT_EQ(result.rank, 0);
  EXPECT_EQ(result.size, 1);
  EXPECT_EQ(result.endpoint.host, "127.0.0.1");
}

TEST(ProcessPlace, Torchrun) {
  std::map<std::string, std::string> variables = {{"RANK", "5"},         {"WORLD_SIZE", "8"},
                                                  {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "4"},
                                                  {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29400"}};
  ProcessPlace result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.rank, 5);
  EXPECT_EQ(result.size, 8);
  EXPECT_EQ(result.localRank, 1);
  EXPECT_EQ(result.localSize, 4);
  EXPECT_EQ(result.endpoint.host, "n1");
  EXPECT_EQ(result.endpoint.port, 29400);
  // In this case torchrun's own agent listens there.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.endpoint.port, 29401);
}

TEST(ProcessPlace, Mpirun) {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THAT(placeError(variables), HasSubstr("set MASTER_ADDR to the host of rank 0"));
  variables["MASTER_ADDR"] = "a";
  ProcessPlace result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.rank, 3);
  EXPECT_EQ(result.localRank, 1);
  EXPECT_EQ(result.source, "mpirun");
}

// MPI itself connects processes of several machines.
TEST(ProcessPlace, NeedsNoMeeting) {
  ::setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  ProcessPlace result;
  EXPECT_TRUE(readProcessPlace(ownEnvironment, result).ok());
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    ::unsetenv(name);
  EXPECT_EQ(result.rank, 2);
  EXPECT_EQ(result.localSize, 2);
}

TEST(ProcessPlace, Mpich) {
  std::map<std::string, std::string> variables = {
      {"PMI_RANK", "3"},      {"PMI_SIZE", "4"},     {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"},
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  ProcessPlace result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.rank, 3);
  EXPECT_EQ(result.localSize, 4);
  EXPECT_EQ(result.source, "mpiexec of MPICH");
  variables.erase("PMI_SIZE");
  EXPECT_EQ(placeError(variables), "MPI_LOCALNRANKS is set, but PMI_SIZE is not");
}

TEST(ProcessPlace, Slurm) {
  std::map<std::string, std::string> variables = {
      {"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NODELIST", "node[007-010]"}};
  ProcessPlace result;
  // A script of sbatch is one process.
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.size, 1);
  variables["SLURM_STEP_ID"] = "0";
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.endpoint.host, "node007");
  EXPECT_GE(result.endpoint.port, 20000);
  ProcessPlace other;
  variables["SLURM_JOB_ID"] = "4712";
  ASSERT_TRUE(place(variables, other).ok());
  EXPECT_NE(result.endpoint.port, other.endpoint.port);
}

TEST(ProcessPlace, TasksOfSlurmsNodes) {
  std::map<std::string, std::string> variables = {{"SLURM_STEP_ID", "0"},
                                                  {"SLURM_PROCID", "5"},
                                                  {"SLURM_NTASKS", "7"},
                                                  {"SLURM_LOCALID", "1"},
                                                  {"SLURM_JOB_NODELIST", "node[1-4]"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
  for (auto [node, tasks] : {std::pair("0", 2), {"2", 2}, {"3", 1}}) {
    variables["SLURM_NODEID"] = node;
    variables["SLURM_LOCALID"] = tasks == 1 ? "0" : "1";
    ProcessPlace result;
    ASSERT_TRUE(place(variables, result).ok());
    EXPECT_EQ(result.localSize, tasks);
    EXPECT_EQ(result.endpoint.host, "node1");
  }
}

TEST(ProcessPlace, FirstHost) {
  EXPECT_EQ(firstHost("node1"), "node1");
  EXPECT_EQ(firstHost("node1,node2"), "node1");
  EXPECT_EQ(firstHost("node[001-004,7],other"), "node001");
  EXPECT_EQ(firstHost("node[3,5]-ib"), "node3-ib");
  EXPECT_EQ(firstHost("node["), "node");
}

TEST(ProcessPlace, Errors) {
  EXPECT_EQ(placeError({{"RANK", "0"}}), "RANK is set, but WORLD_SIZE is not");
  EXPECT_EQ(placeError({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got '4'");
  EXPECT_EQ(placeError({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got 'x'");
  EXPECT_EQ(placeError({{"RANK", ""}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got ''");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "-1"}}), "expected WORLD_SIZE from 1 to 16777216 but got '-1'");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "9"}}),
            "expected LOCAL_RANK from 0 to 3 but got '9'");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "99999"}}),
            "expected MASTER_PORT from 1 to 65534 but got '99999'");
}

TEST(Stall, Ranks) {
  EXPECT_EQ(ranksText({3}), "3");
  EXPECT_EQ(ranksText({0, 1}), "0, 1");
  EXPECT_EQ(ranksText({0, 1, 2, 5, 7, 8, 9}), "0 to 2, 5, 7 to 9");
}

TEST(Stall, SaysWhoHoldsUpWhom) {
  Wait first{"op 5 all_to_all 'a' on group 'ep'", "0/0/5", {0, 1, 2, 3}},
      other{"op 6 all_gather on group 'mp'", "1/0/2", {1, 2}};
  std::vector<std::optional<Whereabouts>> answers(4);
  answers[0] = answers[3] = Whereabouts{true, {first}, ""};
  answers[1] = Whereabouts{true, {other}, ""};
  EXPECT_EQ(stallText(answers, {"a", "b", "c", "d"}),
            "\n  ranks 0, 3 wait in op 5 all_to_all 'a' on group 'ep' of ranks 0 to 3 for ranks 1, 2"
            "\n  rank 1 waits in op 6 all_gather on group 'mp' of ranks 1, 2 for rank 2"
            "\n  rank 2 (c) does not answer"
            "\n  rank 1 (b) waits elsewhere: op 6 all_gather on group 'mp'");
  answers[1] = Whereabouts{true, {}, "rank 1: op 4 matmul on stream 'compute'"};
  answers[2] = Whereabouts{};
  EXPECT_EQ(stallText(answers, {"a", "b", "c", "d"}),
            "\n  ranks 0, 3 wait in op 5 all_to_all 'a' on group 'ep' of ranks 0 to 3 for ranks 1, 2"
            "\n  rank 1 (b) still runs rank 1: op 4 matmul on stream 'compute'"
            "\n  rank 2 (c) runs no step");
}

TEST(Stall, Encoding) {
  Whereabouts here{true, {{"op 'x\xff\n'", "k", {1, 2}}}, "running"};
  std::optional<Whereabouts> there = decode(encode(here));
  ASSERT_TRUE(there);
  EXPECT_TRUE(there->inStep);
  EXPECT_EQ(there->running, "running");
  ASSERT_EQ(there->waits.size(), 1u);
  EXPECT_EQ(there->waits[0].ranks, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(decode("{"));
  EXPECT_FALSE(decode("[]"));
}

TEST(ProcessPlace, WhereRanksMeet) {
  ProcessPlace result;
  // All processes are on this machine, so no port is used.
  std::map<std::string, std::string> here = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29400"}};
  ASSERT_TRUE(place(here, result).ok());
  EXPECT_THAT(result.endpoint.local, HasSubstr("port-29400"));
  EXPECT_FALSE(result.isOpen());
  // The variables do not say that all are on one machine.
  here.erase("LOCAL_WORLD_SIZE");
  ASSERT_TRUE(place(here, result = {}).ok());
  EXPECT_EQ(result.endpoint.local, "");
  EXPECT_EQ(result.endpoint.host, "n1");
  EXPECT_TRUE(result.isOpen());
  here["MASTER_ADDR"] = "127.0.0.1";
  ASSERT_TRUE(place(here, result = {}).ok());
  EXPECT_NE(result.endpoint.local, "");
  std::map<std::string, std::string> mpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                                            {"OMPI_COMM_WORLD_SIZE", "2"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                            {"PMIX_NAMESPACE", "4711"}};
  ASSERT_TRUE(place(mpi, result = {}).ok());
  EXPECT_THAT(result.endpoint.local, testing::EndsWith("mpirun.4711"));
}

TEST(ProcessPlace, Secret) {
  std::map<std::string, std::string> variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}};
  ProcessPlace result;
  variables["MOERT_SECRET"] = "short";
  EXPECT_THAT(placeError(variables), HasSubstr("MOERT_SECRET: expected a secret of at least 16 characters but got 5"));
  variables["MOERT_SECRET"] = "0123456789abcdef";
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.secret, "0123456789abcdef");
  EXPECT_FALSE(result.isOpen());
  variables.erase("MOERT_SECRET");
  std::string path = testing::TempDir() + "moert-secret-" + std::to_string(::getpid());
  std::ofstream(path) << "a secret of some length\n";
  variables["MOERT_SECRET_FILE"] = path;
  ::chmod(path.c_str(), 0644);
  EXPECT_THAT(placeError(variables), HasSubstr("expected '" + path + "' to be closed to other users"));
  ::chmod(path.c_str(), 0600);
  ASSERT_TRUE(place(variables, result = {}).ok());
  EXPECT_EQ(result.secret, "a secret of some length");
  std::remove(path.c_str());
  EXPECT_THAT(placeError(variables), HasSubstr("cannot be read"));
}

//===- Bootstrap.cpp - which process of how many this is ------------------===//

#include "net/Bootstrap.h"

#include <charconv>
#include <cstring>

namespace moert::net {
namespace {

/// Where rank 0 listens when nobody says.
constexpr int kDefaultPort = 29500;

Status invalid(const std::string &text) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, text); }

/// The variables of a launcher. Those of ranks on a machine may be absent.
struct Launcher {
  const char *name;
  const char *rank, *size, *localRank, *localSize;
};

constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
};

Status readNumber(const char *name, const char *text, int64_t least, int64_t most, int64_t &value) {
  const char *end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most)
    return {};
  return invalid(std::string("expected ") + name + " from " + std::to_string(least) + " to " + std::to_string(most) +
                 " but got '" + text + "'");
}

/// Of SLURM's "2(x3),1", how many tasks each node has, the one for this node; `all` where nothing says.
int64_t readTasksOfNode(const Environment &environment, int64_t all) {
  const char *text = environment("SLURM_STEP_TASKS_PER_NODE"), *node = environment("SLURM_NODEID");
  if (!text)
    text = environment("SLURM_TASKS_PER_NODE");
  int64_t left = node ? std::atoll(node) : 0;
  while (text && *text) {
    char *rest;
    int64_t tasks = std::strtoll(text, &rest, 10), nodes = 1;
    if (std::strncmp(rest, "(x", 2) == 0)
      nodes = std::strtoll(rest + 2, &rest, 10);
    if (left < nodes)
      return tasks;
    left -= nodes;
    text = std::strchr(rest, ',');
    text = text ? text + 1 : nullptr;
  }
  return all;
}

Status readRanks(const Environment &environment, const Launcher &launcher, Place &place) {
  constexpr int64_t kMost = int64_t(1) << 24;
  const char *size = environment(launcher.size);
  if (!size)
    return invalid(std::string(launcher.rank) + " is set, but " + launcher.size + " is not");
  if (Status status = readNumber(launcher.size, size, 1, kMost, place.size); !status.ok())
    return status;
  if (Status status = readNumber(launcher.rank, environment(launcher.rank), 0, place.size - 1, place.rank);
      !status.ok())
    return status;
  place.localSize = place.size;
  if (const char *text = launcher.localSize ? environment(launcher.localSize) : nullptr)
    if (Status status = readNumber(launcher.localSize, text, 1, place.size, place.localSize); !status.ok())
      return status;
  if (place.source == "srun")
    place.localSize = std::clamp<int64_t>(readTasksOfNode(environment, place.size), 1, place.size);
  place.localRank = place.rank % place.localSize;
  if (const char *text = environment(launcher.localRank))
    return readNumber(launcher.localRank, text, 0, place.localSize - 1, place.localRank);
  return {};
}

/// Different jobs on one machine should not meet at one port.
int portOf(const char *job) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  for (; job && *job; ++job)
    hash = (hash ^ static_cast<unsigned char>(*job)) * 1099511628211u;
  return job ? 20000 + static_cast<int>(hash % 20000) : kDefaultPort;
}

Status readAddress(const Environment &environment, Place &place) {
  const char *address = environment("MASTER_ADDR"), *nodes = environment("SLURM_JOB_NODELIST");
  if (address)
    place.address = address;
  else if (place.source == "srun" && nodes)
    place.address = firstHost(nodes);
  else if (place.localSize == place.size)
    place.address = "127.0.0.1";
  else
    return invalid("the ranks run on several machines: set MASTER_ADDR to the host of rank 0");

  const char *text = environment("MASTER_PORT");
  if (!text) {
    const char *job = environment("SLURM_JOB_ID");
    place.port = portOf(job ? job : environment("PMIX_NAMESPACE"));
    return {};
  }
  int64_t port = 0;
  if (Status status = readNumber("MASTER_PORT", text, 1, 65534, port); !status.ok())
    return status;
  // There torchrun's own agent listens at MASTER_PORT.
  const char *agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  place.port = static_cast<int>(port) + (agent && std::strcmp(agent, "True") == 0);
  return {};
}

} // namespace

std::string firstHost(const std::string &nodes) {
  size_t end = nodes.find_first_of(",[");
  std::string host = nodes.substr(0, end);
  if (end == std::string::npos || nodes[end] == ',')
    return host;
  size_t stop = nodes.find_first_of(",-]", end + 1);
  host += nodes.substr(end + 1, stop == std::string::npos ? stop : stop - end - 1);
  size_t close = nodes.find(']', end);
  if (close != std::string::npos)
    host += nodes.substr(close + 1, nodes.find(',', close) - close - 1);
  return host;
}

Status readPlace(const Environment &environment, Place &place) {
  for (const Launcher &launcher : kLaunchers) {
    if (!environment(launcher.rank))
      continue;
    place.source = launcher.name;
    if (Status status = readRanks(environment, launcher, place); !status.ok())
      return status;
    return readAddress(environment, place);
  }
  place = {};
  place.address = "127.0.0.1";
  place.source = "no launcher";
  return {};
}

} // namespace moert::net

//===- ProcessPlace.cpp - which process of how many this is ---------------===//

#include "core/ProcessPlace.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {
namespace {

/// Port of rank 0 if the environment sets none.
constexpr int kDefaultPort = 29500;
/// A shorter secret could be guessed.
constexpr size_t kLeastSecret = 16, kMostSecret = 4096;

/// Variables of a launcher, of which `sign` says that it started the process. Those of the ranks on a machine may be
/// absent.
struct Launcher {
  const char *name, *sign;
  const char *rank, *size, *localRank, *localSize;
};

constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    // srun sets PMI_RANK, too.
    {"mpiexec of MPICH", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // A script of sbatch has the other variables, too, but is one process.
    {"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
};

Status readNumber(const char *name, const char *text, int64_t least, int64_t most, int64_t &value) {
  const char *end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  return invalidUnless(error == std::errc() && rest == end && value >= least && value <= most, "expected ", name,
                       " from ", least, " to ", most, " but got '", text, "'");
}

/// Reads this node's number of tasks from SLURM's "2(x3),1", the numbers of all nodes; `all` if it is not set.
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

Status readRanks(const Environment &environment, const Launcher &launcher, ProcessPlace &place) {
  constexpr int64_t kMost = int64_t(1) << 24;
  const char *size = environment(launcher.size), *rank = environment(launcher.rank);
  if (!size || !rank)
    return invalid(launcher.sign, " is set, but ", size ? launcher.rank : launcher.size, " is not");
  MOERT_RETURN_IF_ERROR(readNumber(launcher.size, size, 1, kMost, place.size));
  MOERT_RETURN_IF_ERROR(readNumber(launcher.rank, rank, 0, place.size - 1, place.rank));
  place.localSize = place.size;
  if (const char *text = launcher.localSize ? environment(launcher.localSize) : nullptr)
    MOERT_RETURN_IF_ERROR(readNumber(launcher.localSize, text, 1, place.size, place.localSize));
  if (place.source == "srun")
    place.localSize = std::clamp<int64_t>(readTasksOfNode(environment, place.size), 1, place.size);
  place.localRank = place.rank % place.localSize;
  if (const char *text = environment(launcher.localRank))
    return readNumber(launcher.localRank, text, 0, place.localSize - 1, place.localRank);
  return {};
}

/// Name that tells this job apart from others of this user on a machine; empty if there is none.
std::string jobOf(const Environment &environment, const std::string &source) {
  std::string name;
  auto add = [&](const char *variable) {
    const char *value = environment(variable);
    name += value ? std::string(name.empty() ? "" : ".") + value : "";
  };
  if (source == "mpirun") {
    add(environment("PMIX_NAMESPACE") ? "PMIX_NAMESPACE" : "OMPI_MCA_ess_base_jobid");
  } else if (source == "srun") {
    add("SLURM_JOB_ID");
    add("SLURM_STEP_ID");
  }
  return name;
}

/// Port of a job, so that different jobs on one machine rarely meet at one port.
int portOf(const std::string &job) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  for (char c : job)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return job.empty() ? kDefaultPort : 20000 + static_cast<int>(hash % 20000);
}

Status readPort(const Environment &environment, const std::string &job, int &port) {
  const char *text = environment("MASTER_PORT");
  port = portOf(job);
  if (!text)
    return {};
  int64_t number = 0;
  MOERT_RETURN_IF_ERROR(readNumber("MASTER_PORT", text, 1, 65534, number));
  // If set, torchrun's own agent listens at MASTER_PORT.
  const char *agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  port = static_cast<int>(number) + (agent && std::strcmp(agent, "True") == 0);
  return {};
}

/// Whether all ranks are on this machine: the launcher says so, or nothing says that any is elsewhere.
bool areAllHere(const Environment &environment, const Launcher &launcher, const ProcessPlace &place) {
  if (place.localSize != place.size)
    return false;
  bool isSaid = launcher.localSize ? environment(launcher.localSize) != nullptr
                                   : environment("SLURM_STEP_TASKS_PER_NODE") || environment("SLURM_TASKS_PER_NODE");
  const char *address = environment("MASTER_ADDR"), *nodes = environment("SLURM_JOB_NODELIST");
  if (isSaid || (!address && !(place.source == "srun" && nodes)))
    return true;
  return address && isLoopback(address);
}

Status readEndpoint(const Environment &environment, const Launcher &launcher, ProcessPlace &place) {
  const char *address = environment("MASTER_ADDR"), *nodes = environment("SLURM_JOB_NODELIST");
  const std::string job = jobOf(environment, place.source);
  Endpoint &endpoint = place.endpoint;
  MOERT_RETURN_IF_ERROR(readPort(environment, job, endpoint.port));
  if (areAllHere(environment, launcher, place)) {
    endpoint.host = "127.0.0.1";
    endpoint.local =
        joined("moert.", ::geteuid(), ".", place.source, ".", job.empty() ? joined("port-", endpoint.port) : job);
    return {};
  }
  if (address)
    endpoint.host = address;
  else if (place.source == "srun" && nodes)
    endpoint.host = firstHost(nodes);
  else
    return invalid("the ranks run on several machines: set MASTER_ADDR to the host of rank 0");
  return {};
}

/// Reads the secret, and refuses a file that others can read.
Status readSecretFile(const std::string &path, std::string &secret) {
  struct stat info{};
  std::ifstream file(path, std::ios::binary);
  if (!file || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return invalid("MOERT_SECRET_FILE: '", path, "' cannot be read");
  if (info.st_mode & (S_IRWXG | S_IRWXO))
    return invalid("MOERT_SECRET_FILE: expected '", path,
                   "' to be closed to other users, but they have permissions; run chmod 600 on it");
  secret.resize(kMostSecret);
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(file.gcount());
  secret.erase(secret.find_last_not_of("\r\n") + 1);
  return {};
}

Status readSecret(const Environment &environment, ProcessPlace &place) {
  const char *text = environment("MOERT_SECRET"), *path = environment("MOERT_SECRET_FILE");
  const char *key = environment("OMPI_MCA_orte_precondition_transports");
  if (!text && !path) {
    place.secret = place.source == "mpirun" && key ? key : "";
    return {};
  }
  place.secret = text ? text : "";
  if (!text)
    MOERT_RETURN_IF_ERROR(readSecretFile(path, place.secret));
  return invalidUnless(place.secret.size() >= kLeastSecret, text ? "MOERT_SECRET" : "MOERT_SECRET_FILE",
                       ": expected a secret of at least ", kLeastSecret, " characters but got ", place.secret.size(),
                       "; 'openssl rand -hex 32' makes one");
}

} // namespace

bool isLoopback(const std::string &host) {
  in_addr address;
  return host == "localhost" ||
         (::inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

std::string Endpoint::text() const {
  return local.empty() ? host + ":" + std::to_string(port) : "local socket '" + local + "'";
}

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

static const Launcher *findLauncher(const Environment &environment) {
  const auto *found = std::ranges::find_if(kLaunchers, [&](const Launcher &one) { return environment(one.sign); });
  return found == std::end(kLaunchers) ? nullptr : found;
}

Status readProcessPlace(const Environment &environment, ProcessPlace &place) {
  const Launcher *launcher = findLauncher(environment);
  place = {};
  place.source = launcher ? launcher->name : "no launcher";
  return launcher ? readRanks(environment, *launcher, place) : Status();
}

Status readMeeting(const Environment &environment, ProcessPlace &place) {
  const Launcher *launcher = findLauncher(environment);
  if (launcher) {
    MOERT_RETURN_IF_ERROR(readEndpoint(environment, *launcher, place));
    return readSecret(environment, place);
  }
  place.endpoint.host = "127.0.0.1";
  return {};
}

} // namespace moert

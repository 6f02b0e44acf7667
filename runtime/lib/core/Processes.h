//===- Processes.h - the processes that run one world together ------------===//
//
// Messages of processes besides the collectives of a plan: values for process 0 to report, and news that a process
// died, failed or stands still.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_PROCESSES_H
#define MOERT_CORE_PROCESSES_H

#include "core/View.h"

#include <cstdlib>
#include <functional>
#include <vector>

namespace moert {

/// Encodes an error as a text for another process, "code message". decoded() reads it; a wrong text becomes an internal
/// error.
inline std::string encoded(const Status &status) { return std::to_string(status.code) + " " + status.message; }
inline Status decoded(const std::string &text) {
  int32_t code = std::atoi(text.c_str());
  return Status::error(code ? code : int32_t(MOERT_ERROR_INTERNAL), text.substr(text.find(' ') + 1));
}

/// A collective or a transfer that a rank waits in.
struct Wait {
  std::string what;           ///< "op 5 all_to_all 'layer0' on group 'ep'"
  std::string key;            ///< the same on all members, and unique in the step
  std::vector<int64_t> ranks; ///< ranks that meet there
};

/// State of a process.
struct Whereabouts {
  bool inStep = false;
  std::vector<Wait> waits;
  std::string running; ///< running calls, by Executor::runningText
};

class Processes {
public:
  /// Gets news of the other processes, from a separate thread.
  class Listener {
  public:
    virtual ~Listener() = default;
    /// Called when some process died, failed or stands still, so that a running step cannot end.
    virtual void failed(const Status &status) = 0;
    virtual Whereabouts whereabouts() = 0;
  };

  virtual ~Processes() = default;

  virtual int64_t index() const = 0;
  virtual int64_t count() const = 0;
  /// Sets the only listener; null for none.
  virtual void listen(Listener *listener) = 0;
  /// First failure of any process that is known here.
  virtual Status failure() const = 0;

  /// Sends bytes to process 0, which gets them by receive, in their order.
  virtual Status send(const std::vector<char> &bytes) = 0;
  virtual Status receive(int64_t from, std::vector<char> &bytes) = 0;
  /// Sends bytes of process 0 to all others. All processes call it.
  virtual Status broadcast(std::vector<char> &bytes) = 0;

  /// Tells all others that this process failed.
  virtual void fail(const Status &status) = 0;
  /// Asks all processes what they are doing after a time-out, and ends all their steps. Returns the result, which all
  /// get.
  virtual Status explain(const std::string &reason) = 0;
};

/// Fails in all processes unless all give the same `text` and all are `ready`. The text has lines "name: value". The
/// error has the rank, and the name and both values of lines that differ. All processes call it.
Status checkAgree(Processes &processes, const std::string &text, const Status &ready = {});
/// Fails in all processes if two of them give the same `text`: "ranks 0 and 2 " and `both`. Empty texts, from processes
/// that failed before, are left out. All processes call it.
Status checkDistinct(Processes &processes, const std::string &text, const std::string &both);
/// Sets `all` to whether it holds in all processes. All processes call it.
Status agreeOnAll(Processes &processes, bool &all);
/// Gives all processes the result, or the error, of `give` in process `from`. All processes call it.
Status share(Processes &processes, int64_t from, const std::function<Status(std::vector<char> &)> &give,
             std::vector<char> &bytes);

} // namespace moert

#endif // MOERT_CORE_PROCESSES_H

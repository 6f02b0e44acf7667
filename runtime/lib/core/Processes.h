//===- Processes.h - the processes that run one world together ------------===//
//
// What processes tell each other besides the collectives of a plan: values for process 0 to report, and that one of
// them died, failed or stands still.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_PROCESSES_H
#define MOERT_CORE_PROCESSES_H

#include "core/View.h"

#include <cstdlib>
#include <functional>
#include <vector>

namespace moert {

/// An error as a text for another process, "code message", and back. A text that is none becomes an internal error.
inline std::string encoded(const Status &status) { return std::to_string(status.code) + " " + status.message; }
inline Status decoded(const std::string &text) {
  int32_t code = std::atoi(text.c_str());
  return Status::error(code ? code : int32_t(MOERT_ERROR_INTERNAL), text.substr(text.find(' ') + 1));
}

/// A collective, or a transfer, that a rank waits in.
struct Wait {
  std::string what;           ///< "op 5 all_to_all 'layer0' on group 'ep'"
  std::string key;            ///< the same on all members, and of no other one of the step
  std::vector<int64_t> ranks; ///< that meet there
};

/// Where a process is.
struct Whereabouts {
  bool inStep = false;
  std::vector<Wait> waits;
  std::string running; ///< the calls that run, by Executor::runningText
};

class Processes {
public:
  /// Who hears of the others. Called from a thread of its own.
  class Listener {
  public:
    virtual ~Listener() = default;
    /// Some process died, failed or stands still: nothing will come of a step that runs.
    virtual void failed(const Status &status) = 0;
    virtual Whereabouts whereabouts() = 0;
  };

  virtual ~Processes() = default;

  virtual int64_t index() const = 0;
  virtual int64_t count() const = 0;
  /// At most one at a time; null for none.
  virtual void listen(Listener *listener) = 0;
  /// The first failure that was heard of.
  virtual Status failure() const = 0;

  /// Hands bytes to process 0, which takes them by receive, in their order.
  virtual Status send(const std::vector<char> &bytes) = 0;
  virtual Status receive(int64_t from, std::vector<char> &bytes) = 0;
  /// Bytes of process 0 to all others; all call it.
  virtual Status broadcast(std::vector<char> &bytes) = 0;

  /// Tells all others that this process failed.
  virtual void fail(const Status &status) = 0;
  /// After a time-out: asks all where they are, and ends all their steps. What was found out, which all are told.
  virtual Status explain(const std::string &reason) = 0;
};

/// An error, in all processes, where they do not all give the same `text`, or where one of them is not `ready`. The
/// text says what they run, in lines "name: value"; the error has the rank, and of lines that differ the name and both
/// values. All call it.
Status checkAgree(Processes &processes, const std::string &text, const Status &ready = {});
/// An error, in all processes, where two of them give the same `text`: "ranks 0 and 2 " and `both`. Empty texts, which
/// processes give that failed before, are left out. All call it.
Status checkDistinct(Processes &processes, const std::string &text, const std::string &both);
/// `all` becomes whether it holds in all processes. All call it.
Status agreeOnAll(Processes &processes, bool &all);
/// What `give` gives in process `from`, or its error, to all processes. All call it.
Status share(Processes &processes, int64_t from, const std::function<Status(std::vector<char> &)> &give,
             std::vector<char> &bytes);

} // namespace moert

#endif // MOERT_CORE_PROCESSES_H

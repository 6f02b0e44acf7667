//===- NetTest.h - processes as threads -----------------------------------===//
#ifndef MOERT_TEST_NETTEST_H
#define MOERT_TEST_NETTEST_H

#include "net/Star.h"

#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <poll.h>

using namespace moert;
using namespace moert::net;
using testing::HasSubstr;

inline std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

struct Notes : Processes::Listener {
  void failed(const Status &status) override { promise.set_value(status); }
  Whereabouts whereabouts() override { return here; }

  Whereabouts here;
  std::promise<Status> promise;
};

/// `count` processes, at a free port that the first one found.
struct Processes4 : testing::Test {
  Processes4() {
    options.count = 4;
    options.place.host = "127.0.0.1";
    options.secret = "a secret of this job";
    options.timeout = 20;
    options.greeting = 0.5;
    options.answer = 0.3;
    options.grace = 0.3;
    EXPECT_TRUE(Socket::listen(options.place, listener).ok());
  }

  Status join(int64_t index, std::unique_ptr<Star> &star) { return join(index, star, options); }
  Status join(int64_t index, std::unique_ptr<Star> &star, Star::Options own) {
    own.index = index;
    return Star::join(own, index == 0 ? std::move(listener) : Socket(), star);
  }

  void joinAll() {
    std::vector<std::future<Status>> joining;
    stars.resize(4);
    for (int64_t i = 0; i < 4; ++i)
      joining.push_back(std::async(std::launch::async, [this, i] { return join(i, stars[static_cast<size_t>(i)]); }));
    for (std::future<Status> &status : joining)
      ASSERT_EQ(status.get().message, "");
    for (size_t i = 0; i < 4; ++i)
      stars[i]->listen(&notes[i]);
  }

  Status failureOf(size_t i) {
    std::future<Status> future = notes[i].promise.get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      return Status::error(MOERT_ERROR_INTERNAL, "heard no message");
    return future.get();
  }

  Star::Options options;
  Socket listener;
  Notes notes[4];
  std::vector<std::unique_ptr<Star>> stars;
};

/// Calls `body` in all processes at once.
inline std::vector<Status> inAll(const std::vector<std::unique_ptr<Star>> &stars,
                                 const std::function<Status(Star &, int64_t)> &body) {
  std::vector<std::future<Status>> running;
  for (size_t i = 0; i < stars.size(); ++i)
    running.push_back(std::async(std::launch::async, [&, i] { return body(*stars[i], static_cast<int64_t>(i)); }));
  std::vector<Status> results;
  for (std::future<Status> &one : running)
    results.push_back(one.get());
  return results;
}

/// Next message, if it has this type.
inline Message nextOf(const Socket &socket, Message::Type type) {
  MessageReader reader(1 << 20);
  Message message;
  for (Clock::time_point deadline = after(10); !reader.take(message) && Clock::now() < deadline;) {
    pollfd item{socket.get(), POLLIN, 0};
    ::poll(&item, 1, 100);
    if (!reader.readFrom(socket))
      break;
  }
  EXPECT_EQ(message.type, type);
  return message;
}

/// Sends a short text, which fits the system's buffer. Returns false if the connection is broken.
inline bool say(const Socket &socket, const std::string &text) {
  return socket.send(text.data(), text.size()) == static_cast<int64_t>(text.size());
}

/// Hello of a rank for a challenge, with a secret.
inline std::string helloOf(int64_t rank, int64_t count, const std::string &challenge, const std::string &secret) {
  return encode(makeHello({rank, count, "b"}, {challenge, std::string(kNonceBytes, 'n')}, secret));
}

#endif // MOERT_TEST_NETTEST_H

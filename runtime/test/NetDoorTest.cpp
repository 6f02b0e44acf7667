//===- NetDoorTest.cpp - processes that may join, and strangers -----------===//

#include "NetTest.h"
#include "net/Stall.h"

#include <cstring>
#include <random>
#include <thread>
#include <unistd.h>

namespace {

/// "magic, type, process, bytes"
std::string headerOf(uint32_t type, int64_t process, int64_t bytes) {
  std::string text = encode({static_cast<Message::Type>(type), process, ""});
  std::memcpy(text.data() + 16, &bytes, sizeof bytes);
  return text;
}

} // namespace

// A process that expects another job, and one whose place is taken, are told why. The others do not notice.
TEST_F(Processes4, RefuseOthers) {
  stars.resize(4);
  std::unique_ptr<Star> none;
  std::vector<std::future<Status>> joining;
  auto start = [&](int64_t i) {
    joining.push_back(std::async(std::launch::async, [this, i] { return join(i, stars[static_cast<size_t>(i)]); }));
  };
  Star::Options other = options;
  other.count = 5;
  start(0);
  EXPECT_THAT(join(2, none, other).message, HasSubstr("expects 5 processes, rank 0 4"));
  EXPECT_THAT(join(4, none, other).message, HasSubstr("rank 4 (process "));
  Socket first;
  ASSERT_TRUE(Socket::connect(options.place, after(10), first).ok());
  std::string hello = helloOf(1, 4, nextOf(first, Message::Type::Challenge).text, options.secret);
  ASSERT_TRUE(say(first, hello));
  EXPECT_THAT(join(1, none).message, HasSubstr("connected, but b already is that rank"));
  for (int64_t i : {2, 3})
    start(i);
  for (std::future<Status> &status : joining)
    EXPECT_EQ(status.get().message, "");
}

// None of these strangers ends, delays or joins the job. All connect before its ranks do, and stay.
TEST_F(Processes4, Strangers) {
  Clock::time_point deadline = after(20);
  std::vector<Socket> strangers;
  auto connect = [&]() -> Socket & {
    EXPECT_TRUE(Socket::connect(options.place, deadline, strangers.emplace_back()).ok());
    return strangers.back();
  };
  auto sayNew = [&](const std::string &text) { (void)say(connect(), text); };
  stars.resize(4);
  std::vector<std::future<Status>> joining;
  auto start = [&](int64_t i) {
    joining.push_back(std::async(std::launch::async, [this, i] { return join(i, stars[static_cast<size_t>(i)]); }));
  };
  start(0);
  for (int i = 0; i < 300; ++i)
    connect();
  const auto hello = static_cast<uint32_t>(Message::Type::Hello), data = static_cast<uint32_t>(Message::Type::Data);
  sayNew("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  sayNew("moer");
  sayNew(headerOf(hello, 1, int64_t(1) << 62));
  sayNew(headerOf(hello, 1, -1));
  sayNew(headerOf(hello, int64_t(1) << 62, 10) + std::string(10, 'x'));
  sayNew(headerOf(hello, -5, 10) + std::string(10, 'x'));
  sayNew(headerOf(data, 1, int64_t(1) << 40));
  sayNew(headerOf(99, 1, 0));
  sayNew(headerOf(static_cast<uint32_t>(Message::Type::Failed), 1, 5) + "7 end");
  // A hello without the secret, with another one, and with the answer to another challenge.
  sayNew(helloOf(1, 4, std::string(kNonceBytes, 'c'), ""));
  std::string challenge = nextOf(connect(), Message::Type::Challenge).text,
              replayed = helloOf(2, 4, challenge, options.secret);
  EXPECT_EQ(challenge.size(), kNonceBytes);
  std::string wrong = helloOf(1, 4, challenge, "another secret of 1 job");
  (void)say(strangers.back(), wrong);
  sayNew(replayed);
  // Sends byte by byte, which takes longer than the allowed time.
  Socket &slow = connect();
  std::thread drip([&slow, this] {
    for (char byte : headerOf(1, 1, 4000))
      if (std::this_thread::sleep_for(std::chrono::milliseconds(50)); !say(slow, std::string(1, byte)))
        return;
  });
  Clock::time_point begin = Clock::now();
  for (int64_t i : {1, 2, 3})
    start(i);
  for (std::future<Status> &status : joining)
    EXPECT_EQ(status.get().message, "");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  drip.join();
  std::vector<char> bytes = bytesOf("x");
  for (const Status &status : inAll(stars, [](Star &star, int64_t) { return checkAgree(star, "a plan: 1"); }))
    EXPECT_EQ(status.message, "");
}

// A process that dies while others are still missing is named at once.
TEST_F(Processes4, DiesAtTheDoor) {
  std::unique_ptr<Star> star;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  Socket others[2];
  for (int64_t i : {0, 1}) {
    ASSERT_TRUE(Socket::connect(options.place, after(10), others[i]).ok());
    std::string challenge = nextOf(others[i], Message::Type::Challenge).text;
    ASSERT_TRUE(say(others[i], helloOf(i + 1, 4, challenge, options.secret)));
  }
  others[1] = Socket();
  const std::string text = "rank 2 (b) died: its connection closed";
  EXPECT_EQ(joining.get().message, text);
  EXPECT_EQ(decoded(nextOf(others[0], Message::Type::Failed).text).message, text);
}

// Bytes that come one by one form a message. Half a message and then the end is an end. An invalid rank number is
// refused.
TEST_F(Processes4, ShortWrites) {
  Clock::time_point deadline = after(20);
  std::unique_ptr<Star> star;
  options.count = 2;
  options.greeting = 10;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  for (int64_t rank : {0, 2, 1 << 23}) {
    Socket other;
    ASSERT_TRUE(Socket::connect(options.place, deadline, other).ok());
    std::string hello = helloOf(rank, 2, nextOf(other, Message::Type::Challenge).text, options.secret);
    ASSERT_TRUE(say(other, hello));
  }
  Socket late;
  ASSERT_TRUE(Socket::connect(options.place, deadline, late).ok());
  std::string hello = helloOf(1, 2, nextOf(late, Message::Type::Challenge).text, options.secret);
  for (char byte : hello) {
    ASSERT_TRUE(say(late, std::string(1, byte)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_EQ(joining.get().message, "");
  notes[0].here = {};
  star->listen(&notes[0]);
  // Sends half a message, then the end.
  ASSERT_TRUE(say(late, hello.substr(0, 10)));
  {
    Socket closed = std::move(late);
  }
  EXPECT_EQ(failureOf(0).message, "rank 1 (b) died: its connection closed");
}

TEST_F(Processes4, OneSecret) {
  options.count = 2;
  options.timeout = 2;
  std::unique_ptr<Star> star, none;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  Star::Options other = options;
  other.secret = "some other secret of a job";
  EXPECT_THAT(join(1, none, other).message,
              HasSubstr("rank 0 did not let rank 1 in: the connection closed; do all ranks have the same secret?"));
  EXPECT_THAT(joining.get().message, HasSubstr("for rank 1, which did not connect\n  refused: a connection that does "
                                               "not know the job's secret"));
}

// A process that claims to be rank 0 must know the secret, too.
TEST_F(Processes4, WrongFirst) {
  std::thread impostor([this] {
    Socket guest;
    for (Clock::time_point end = after(10); !guest && Clock::now() < end;)
      (void)listener.accept(guest);
    const Nonces nonces{std::string(kNonceBytes, 'c'), std::string(kNonceBytes, 'n')};
    (void)say(guest, encode({Message::Type::Challenge, 0, nonces.first}));
    (void)say(guest, encode(makeHello({0, 4, "process 1 on host 'x'"}, nonces, "guess")));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  std::unique_ptr<Star> none;
  Star::Options own = options;
  own.index = 1;
  EXPECT_THAT(Star::join(own, Socket(), none).message, HasSubstr("it does not know the job's secret"));
  impostor.join();
}

// On a single machine no process listens on the network.
TEST_F(Processes4, LocalSocket) {
  listener = Socket();
  options.place.local = "moert.test." + std::to_string(::getpid());
  joinAll();
  for (const Status &status : inAll(stars, [](Star &star, int64_t) { return checkAgree(star, "a plan: 1"); }))
    EXPECT_EQ(status.message, "");
}

// The look-up of a name ends with the time-out, too.
TEST_F(Processes4, Names) {
  Socket socket;
  options.place.host = "localhost";
  EXPECT_EQ(Socket::connect(options.place, after(10), socket).message, "");
  EXPECT_TRUE(socket);
  options.place.host = "none.invalid";
  Clock::time_point begin = Clock::now();
  EXPECT_THAT(Socket::connect(options.place, after(1), socket).message, HasSubstr("unknown host 'none.invalid': "));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
}

TEST(Handshake, Hmac) {
  // RFC 4231, cases 1, 2 and 6.
  EXPECT_EQ(hexOf(hmac(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexOf(hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexOf(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// Random bytes, and messages with some bytes changed, come in pieces of random length. The reader returns messages
// within the limits, and a broken reader stays broken.
TEST(MessageReader, Fuzz) {
  std::mt19937 random(20);
  auto below = [&](size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); };
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (size_t i = 0, count = below(5); i < count; ++i)
      bytes += encode({static_cast<Message::Type>(below(14)), static_cast<int64_t>(below(10)),
                       std::string(below(60), static_cast<char>(below(256)))});
    for (size_t i = 0, count = bytes.empty() ? 0 : below(4); i < count; ++i)
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    if (below(10) == 0)
      for (char &byte : bytes)
        byte = static_cast<char>(below(256));
    MessageReader reader(50);
    for (size_t begin = 0; begin < bytes.size();) {
      size_t count = std::min(bytes.size() - begin, below(40) + 1);
      reader.append(bytes.data() + begin, count);
      begin += count;
      bool wasBroken = reader.isBroken();
      Message message;
      while (reader.take(message)) {
        EXPECT_FALSE(wasBroken);
        EXPECT_LT(message.type, Message::Type::Count);
        EXPECT_LE(message.text.size(), 50u);
        Nonces nonces{std::string(kNonceBytes, 'c'), ""};
        Hello hello;
        EXPECT_FALSE(readHello(message, nonces, "secret", hello));
        (void)decode(message.text);
        (void)decoded(message.text);
      }
      EXPECT_TRUE(reader.isBroken() || !wasBroken);
    }
  }
}

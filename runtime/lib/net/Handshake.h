//===- Handshake.h - showing that one knows the job's secret --------------===//
//
// Ranks on several machines need it: whoever reaches the port of process 0 could otherwise take the place of a rank.
// Process 0 sends whoever connects a challenge, some random bytes. The other one answers with its own random bytes and
// with a proof, HMAC-SHA-256 by the secret over both and over who it says it is. Process 0 proves itself likewise when
// it lets the other one in. The secret is never sent, and what was overheard proves nothing another time.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_HANDSHAKE_H
#define MOERT_NET_HANDSHAKE_H

#include "core/Digest.h"
#include "net/Message.h"

namespace moert::net {

constexpr size_t kNonceBytes = 32;

/// HMAC-SHA-256 (RFC 2104).
Sha256::Digest hmac(std::string_view key, std::string_view text);
/// Random bytes that nobody can guess.
Status makeNonce(std::string &nonce);

/// Who a process says it is.
struct Hello {
  int64_t process = 0;
  int64_t count = 0; ///< of processes, as it knows it
  std::string name;  ///< "process 4711 on host 'node1'"
};

/// The random bytes of process 0 (its challenge) and of the other one (in its hello; empty until that came).
struct Nonces {
  std::string first, other;
};

Message makeHello(const Hello &hello, const Nonces &nonces, std::string_view secret);
/// False where the message is no hello, or its proof not one for `nonces` by the secret. Sets `nonces.other` where that
/// is empty.
bool readHello(const Message &message, Nonces &nonces, std::string_view secret, Hello &hello);

} // namespace moert::net

#endif // MOERT_NET_HANDSHAKE_H

#include "api/one_rank.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>

#include "util/checks.h"

namespace precast::api {

namespace {

/// All ranks make their captures in the same order, so counting tells them apart.
int next_number(const std::string& key) {
  static std::mutex mutex;
  static std::map<std::string, int> numbers;
  std::lock_guard lock(mutex);
  return numbers[key]++;
}

std::string seconds(std::chrono::milliseconds t) {
  std::ostringstream text;
  text << static_cast<double>(t.count()) / 1000 << " s";
  return text.str();
}

constexpr char kPair = 'p', kFailure = 'f';

}  // namespace

OneRank::OneRank(Ranks ranks)
    : ranks_(std::move(ranks)), prefix_(ranks_.key + "/" + std::to_string(next_number(ranks_.key)) + "/") {}

std::string OneRank::get(const std::string& key, const std::string& what) const {
  try {
    return ranks_.get(prefix_ + key, ranks_.timeout);
  } catch (const std::exception& e) {
    const std::string reason = e.what();
    refuse(Check::one_rank_absent, "compile_on_one_rank: " + what + " within " + seconds(ranks_.timeout) +
                                       "; has it ended, or does it make another capture first? (" +
                                       reason.substr(0, reason.find('\n')) + ")");
    return {};
  }
}

void OneRank::agree(const std::vector<std::string>& arguments) {
  std::string mine;
  for (const std::string& line : arguments) mine += line + "\n";
  ranks_.set(prefix_ + std::to_string(ranks_.rank), mine);
  const auto of = [&](int rank) {
    return rank == ranks_.rank
               ? mine
               : get(std::to_string(rank), "rank " + std::to_string(rank) + " has not come to this capture");
  };
  const std::string first = of(0);
  for (int rank = 1; rank < ranks_.size; ++rank) {
    const std::string other = of(rank);
    if (other == first) continue;
    std::istringstream expected(first), found(other);
    std::string a, b;
    do {
      if (!std::getline(expected, a)) a = "nothing more";
      if (!std::getline(found, b)) b = "nothing more";
    } while (a == b);
    refuse(Check::one_rank_disagrees, "compile_on_one_rank: rank " + std::to_string(rank) +
                                          " was called with other arguments than rank 0: expected " + a + ", found " +
                                          b +
                                          ". Pass arguments of the same structure, shapes, dtypes and strides on all "
                                          "ranks");
  }
}

void OneRank::deliver(const artifact::PairBytes& pair) {
  std::string message(1, kPair);
  message += std::to_string(pair.code.size()) + "\n" + pair.code;
  message.append(reinterpret_cast<const char*>(pair.cache.data()), pair.cache.size());
  ranks_.set(prefix_ + "pair", message);
}

void OneRank::deliver_failure(const std::string& reason) { ranks_.set(prefix_ + "pair", kFailure + reason); }

artifact::PairBytes OneRank::receive() {
  const std::string message = get("pair", "rank 0 has not delivered the artifact");
  if (message.empty() || message[0] == kFailure) {
    refuse(Check::one_rank_failed, "compile_on_one_rank: the capture on rank 0 failed: " +
                                       (message.empty() ? std::string("nothing came") : message.substr(1)));
    return {};
  }
  const size_t line = message.find('\n');
  const size_t code = std::stoul(message.substr(1, line - 1)), cache = line + 1 + code;
  const auto* bytes = reinterpret_cast<const std::byte*>(message.data());
  return {message.substr(line + 1, code), {bytes + cache, bytes + message.size()}};
}

}  // namespace precast::api

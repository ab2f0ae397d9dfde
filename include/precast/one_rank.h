/** @file
 * Capture on one rank, over a c10d::Store (TCPStore, FileStore, HashStore):
 *
 *     auto store = c10::make_intrusive<c10d::TCPStore>("host", c10d::TCPStoreOptions{...});
 *     precast::LowerOptions options;
 *     options.compile_on_one_rank = precast::ranks(store, rank, world_size);
 *     auto cap = precast::capture(step, paths, options);   // on every rank
 *     auto loss = cap(model, x);                           // rank 0 records; the others run what it made
 */
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "precast/ranks.h"

namespace precast {

inline Ranks ranks(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                   std::chrono::milliseconds timeout = std::chrono::minutes(5)) {
  Ranks r;
  r.rank = rank, r.size = size, r.timeout = timeout;
  r.set = [store](const std::string& key, const std::string& value) {
    store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  };
  r.get = [store](const std::string& key, std::chrono::milliseconds wait) {
    store->wait({key}, wait);
    const std::vector<uint8_t> value = store->get(key);
    return std::string(value.begin(), value.end());
  };
  return r;
}

}  // namespace precast

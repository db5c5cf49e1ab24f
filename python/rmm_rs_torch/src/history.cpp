#include "history.hpp"

#include <torch/headeronly/version.h>

#include <algorithm>
#include <iterator>

namespace rmm_rs_torch {

namespace {

/// Frees that wait still after which a look at them ends.
constexpr std::size_t most_late = 8;

thread_local std::vector<std::string> compile_contexts;
thread_local std::string thread_metadata;

/// The name of an action in `recordHistory`, or -1.
int action_of(std::string_view name)
{
  using entry = caching::TraceEntry;
  static constexpr std::pair<std::string_view, int> names[] = {
    {"alloc", entry::ALLOC},
    {"free_requested", entry::FREE_REQUESTED},
    {"free_completed", entry::FREE_COMPLETED},
    {"segment_alloc", entry::SEGMENT_ALLOC},
    {"segment_free", entry::SEGMENT_FREE},
    {"segment_map", entry::SEGMENT_MAP},
    {"segment_unmap", entry::SEGMENT_UNMAP},
    {"snapshot", entry::SNAPSHOT},
    {"oom", entry::OOM},
#if TORCH_VERSION_MINOR >= 14
    {"annotate", entry::ANNOTATE},
#endif
  };
  for (auto const& [known, number] : names) {
    if (known == name) { return number; }
  }
  TORCH_CHECK(false, "rmm-rs: there is no trace action ", name);
}

bool is_pending(void const* pointer)
{
  rmm_rs_client_block block{};
  block.size = sizeof block;
  return engine->rmm_rs_client_find(pointer, &block) == RMM_RS_OK && block.is_pending != 0;
}

}  // namespace

template <class T>
void ring<T>::set_capacity(std::size_t capacity)
{
  capacity = std::max<std::size_t>(capacity, 1);
  if (capacity == capacity_) { return; }
  auto kept   = values();
  capacity_   = capacity;
  auto excess = kept.size() - std::min(kept.size(), capacity_);
  kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(excess));
  values_ = std::move(kept);
  next_   = 0;
}

template <class T>
void ring<T>::clear()
{
  values_.clear();
  next_ = 0;
}

template <class T>
void ring<T>::push(T value)
{
  if (values_.size() < capacity_) {
    values_.push_back(std::move(value));
    return;
  }
  values_[next_] = std::move(value);
  next_          = (next_ + 1) % capacity_;
}

template <class T>
std::vector<T> ring<T>::values() const
{
  auto const oldest = values_.begin() + static_cast<std::ptrdiff_t>(next_);
  std::vector<T> ordered(oldest, values_.end());
  ordered.insert(ordered.end(), values_.begin(), oldest);
  return ordered;
}

void history::record(bool enabled,
                     caching::CreateContextFn recorder,
                     std::size_t capacity,
                     caching::RecordContext when,
                     bool clear,
                     std::vector<std::string> const& skipped_actions)
{
  TORCH_CHECK(when == caching::RecordContext::NEVER || recorder != nullptr,
              "rmm-rs: contexts are to be recorded, and there is no recorder");
  std::unordered_set<int> skipped;
  for (auto const& name : skipped_actions) { skipped.insert(action_of(name)); }
  std::lock_guard const lock{mutex_};
  skipped_  = std::move(skipped);
  capacity_ = std::max<std::size_t>(capacity, 1);
  for (auto& [device, buffer] : entries_) { buffer.set_capacity(capacity_); }
  annotations_.set_capacity(capacity_);
  if (!enabled || clear) {
    for (auto& [device, buffer] : entries_) { buffer.clear(); }
    annotations_.clear();
  }
  recorder_.store(recorder);
  when_.store(enabled ? when : caching::RecordContext::NEVER);
  is_enabled_.store(enabled);
}

context_pointer history::gather(caching::RecordContext when) const
{
  auto const recorded = when_.load();
  auto const recorder = recorder_.load();
  return recorded >= when && recorder != nullptr ? recorder() : nullptr;
}

void history::allocated(traced_block const& block, context_pointer context)
{
  if (has_waiting_.load(std::memory_order_relaxed)) {
    std::unique_lock lock{mutex_};
    if (auto const before = waiting_at_.find(block.pointer); before != waiting_at_.end()) {
      // Another thread has its memory back since this one has looked.
      auto done = take_waiting(before->second);
      lock.unlock();
      add(action::FREE_COMPLETED, done.block, std::move(done.context));
    }
  }
  if (context != nullptr) {
    std::lock_guard const lock{mutex_};
    contexts_[block.pointer] = context;
    has_contexts_.store(true, std::memory_order_relaxed);
  }
  // The context of a live block is kept at `STATE`, that of an entry from `ALLOC` on.
  auto const in_entry = when_.load() >= caching::RecordContext::ALLOC;
  add(action::ALLOC, block, in_entry ? std::move(context) : nullptr);
}

void history::freed(traced_block const& block, context_pointer context, bool waits)
{
  {
    std::lock_guard const lock{mutex_};
    auto const place = contexts_.find(block.pointer);
    if (place != contexts_.end()) {
      if (context == nullptr && when_.load() >= caching::RecordContext::ALLOC) {
        context = place->second;
      }
      contexts_.erase(place);
    }
    has_contexts_.store(!contexts_.empty(), std::memory_order_relaxed);
  }
  add(action::FREE_REQUESTED, block, context);
  if (!waits) {
    add(action::FREE_COMPLETED, block, std::move(context));
    return;
  }
  std::lock_guard const lock{mutex_};
  waiting_.push_back({block, std::move(context), false});
  waiting_at_[block.pointer] = std::prev(waiting_.end());
  has_waiting_.store(true, std::memory_order_relaxed);
}

void history::free_begun(void const* pointer)
{
  std::lock_guard const lock{mutex_};
  auto const place = waiting_at_.find(pointer);
  if (place != waiting_at_.end()) { place->second->has_begun = true; }
}

void history::complete_frees(bool all)
{
  if (!has_waiting_.load(std::memory_order_relaxed)) { return; }
  std::vector<waiting_free> complete;
  {
    std::lock_guard const lock{mutex_};
    auto const most = all ? waiting_.size() : std::min(most_late, waiting_.size());
    for (std::size_t late = 0; late < most && !waiting_.empty();) {
      auto const first = waiting_.begin();
      if (first->has_begun && !is_pending(first->block.pointer)) {
        complete.push_back(take_waiting(first));
      } else {
        waiting_.splice(waiting_.end(), waiting_, first);
        ++late;
      }
    }
  }
  for (auto& [block, context, has_begun] : complete) {
    add(action::FREE_COMPLETED, block, std::move(context));
  }
}

history::waiting_free history::take_waiting(std::list<waiting_free>::iterator place)
{
  auto taken = std::move(*place);
  // A later free of the address may be in its place, if its allocation was not recorded.
  auto const known = waiting_at_.find(taken.block.pointer);
  if (known != waiting_at_.end() && known->second == place) { waiting_at_.erase(known); }
  waiting_.erase(place);
  has_waiting_.store(!waiting_.empty(), std::memory_order_relaxed);
  return taken;
}

void history::out_of_memory(c10::DeviceIndex device, std::size_t requested, std::size_t free,
                            void* stream, context_pointer context)
{
  // The address of such an entry is the number of free bytes.
  auto* const as_address = reinterpret_cast<void*>(free);
  add(action::OOM, {as_address, requested, device, stream, {0, 0}}, std::move(context));
}

void history::segment(action what, traced_block const& range, context_pointer context)
{
  {
    std::lock_guard const lock{mutex_};
    segment_contexts_.erase(range.pointer);
    bool const is_there = what == action::SEGMENT_ALLOC || what == action::SEGMENT_MAP;
    if (is_there && context != nullptr) { segment_contexts_[range.pointer] = context; }
  }
  auto const in_entry = when_.load() >= caching::RecordContext::ALLOC;
  add(what, range, in_entry ? std::move(context) : nullptr);
}

void history::snapshot_taken(c10::DeviceIndex device)
{
  add(action::SNAPSHOT, {nullptr, 0, device, nullptr, {0, 0}}, nullptr);
}

void history::annotate([[maybe_unused]] traced_block const& block,
                       [[maybe_unused]] std::string const& metadata)
{
#if TORCH_VERSION_MINOR >= 14
  add(action::ANNOTATE, block, gather(caching::RecordContext::ALLOC), &metadata);
#endif
}

void history::annotate(c10::DeviceIndex device,
                       std::vector<std::pair<std::string, std::string>> const& metadata)
{
  if (!is_enabled()) { return; }
  caching::AnnotationEntry entry{device, c10::getApproximateTime()};
  for (auto const& [name, value] : metadata) { entry.recordUserMetadata(name, value); }
  std::lock_guard const lock{mutex_};
  annotations_.push(std::move(entry));
}

void history::attach(caching::AllocatorTraceTracker tracker)
{
  std::lock_guard const lock{mutex_};
  auto longer = std::make_shared<tracker_list>(*trackers_);
  longer->push_back(std::move(tracker));
  trackers_ = std::move(longer);
  has_trackers_.store(true);
}

namespace {

context_pointer found_in(std::unordered_map<void const*, context_pointer> const& contexts,
                         void const* pointer)
{
  auto const place = contexts.find(pointer);
  return place == contexts.end() ? nullptr : place->second;
}

}  // namespace

context_pointer history::context_of(void const* pointer) const
{
  std::lock_guard const lock{mutex_};
  return found_in(contexts_, pointer);
}

context_pointer history::context_of_segment(void const* base) const
{
  std::lock_guard const lock{mutex_};
  return found_in(segment_contexts_, base);
}

std::vector<caching::TraceEntry> history::entries(c10::DeviceIndex device) const
{
  std::vector<caching::TraceEntry> found;
  {
    std::lock_guard const lock{mutex_};
    auto const place = entries_.find(device);
    if (place != entries_.end()) { found = place->second.values(); }
  }
  convert_times(found);
  return found;
}

std::vector<caching::AnnotationEntry> history::annotations() const
{
  std::vector<caching::AnnotationEntry> found;
  {
    std::lock_guard const lock{mutex_};
    found = annotations_.values();
  }
  convert_times(found);
  return found;
}

template <class Entry>
void history::convert_times(std::vector<Entry>& entries) const
{
  std::function<c10::time_t(c10::approx_time_t)> convert;
  {
    std::lock_guard const lock{mutex_};
    convert = converter_.makeConverter();
  }
  for (auto& entry : entries) { entry.time_.t_ = convert(entry.time_.approx_t_) / 1000; }
}

void history::push_compile_context(std::string name)
{
  compile_contexts.push_back(std::move(name));
}

void history::pop_compile_context()
{
  if (!compile_contexts.empty()) { compile_contexts.pop_back(); }
}

void history::set_user_metadata(std::string metadata) { thread_metadata = std::move(metadata); }

std::string const& history::user_metadata() { return thread_metadata; }

void history::add(action what, traced_block const& block, context_pointer context,
                  std::string const* metadata)
{
  if (!wants_blocks()) { return; }
  caching::TraceEntry entry{what,
                            block.device,
                            reinterpret_cast<std::size_t>(block.pointer),
                            block.requested,
                            block.stream,
                            block.pool,
                            c10::getApproximateTime(),
                            std::move(context),
                            compile_contexts.empty() ? "N/A" : compile_contexts.back(),
                            metadata != nullptr ? *metadata : thread_metadata};
  std::shared_ptr<tracker_list const> trackers;
  {
    std::lock_guard const lock{mutex_};
    trackers = trackers_;
    if (is_enabled() && skipped_.count(what) == 0) {
      auto& buffer = entries_[block.device];
      buffer.set_capacity(capacity_);
      buffer.push(entry);
    }
  }
  for (auto const& tracker : *trackers) { tracker(entry); }
}

template class ring<caching::TraceEntry>;
template class ring<caching::AnnotationEntry>;

}  // namespace rmm_rs_torch

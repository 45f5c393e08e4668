/** Lua that counts the admissions of the last minute; parts of the scripts in `redis-scripts.ts`. */

/** Entries per minute up to which a log is exact (state design, 4.2). */
const EXACT_ENTRIES = 6000

/**
 * A log is a list, newest first. Up to EXACT_ENTRIES a minute it has the time of every entry. Above, it has one element
 * for each second with entries, `<second>:<entries up to its end>`, so that a count is a difference: sixty whole seconds
 * and the one that is under way count, and of those before, the last one is kept to subtract. Times are steady.
 */
export const RATE = `
-- Drops what is a minute old, in steps that double, so that a burst goes as cheaply as it came.
local function trim(log, time)
  local step = 1
  while true do
    local entry = call('LINDEX', log, -step)
    if entry and time - tonumber(entry) >= 60000 then
      call('LTRIM', log, 0, -1 - step)
      step = 2 * step
    elseif step == 1 then
      return
    else
      step = 1
    end
  end
end

local function secondOf(bucket)
  local second, sum = string.match(bucket, '^(%d+):(%d+)$')
  return tonumber(second), tonumber(sum)
end

-- When all entries of a second are certainly a minute old.
local function leavesAt(second)
  return (second + 61) * 1000
end

local function bucketRate(log, limit, time, newest)
  local oldest = math.floor(time / 1000) - 60
  while true do
    local next = call('LINDEX', log, -2)
    if not next or secondOf(next) >= oldest then break end
    call('RPOP', log)
  end
  local second, sum = secondOf(newest)
  local first, before = secondOf(call('LINDEX', log, -1))
  local count = first < oldest and sum - before or sum
  local rate = { bucketed = true, count = count, reset = 0, wait = 0 }
  if count > 0 then rate.reset = leavesAt(second) - time end
  if count >= limit then
    local buckets = call('LRANGE', log, 0, -1)
    for i = #buckets, 1, -1 do
      local at, upTo = secondOf(buckets[i])
      if at >= oldest and sum - upTo < limit then
        rate.wait = leavesAt(at) - time
        break
      end
    end
  end
  return rate
end

-- Entries of the last minute, time until all of them have left, and until fewer than the limit are left.
local function rateOf(log, limit, time)
  local newest = call('LINDEX', log, 0)
  local rate
  if newest and string.find(newest, ':', 1, true) then
    rate = bucketRate(log, limit, time, newest)
  else
    rate = { bucketed = false, count = 0, reset = 0, wait = 0 }
    if newest then
      trim(log, time)
      rate.count = call('LLEN', log)
    end
    if rate.count > 0 then rate.reset = tonumber(newest) + 60000 - time end
    if rate.count >= limit then
      rate.wait = tonumber(call('LINDEX', log, limit - 1)) + 60000 - time
    end
  end
  rate.limit = limit
  return rate
end

local function toBuckets(log)
  local entries = call('LRANGE', log, 0, -1)
  call('DEL', log)
  for i = #entries, 1, -1 do
    local second = math.floor(tonumber(entries[i]) / 1000)
    if i == 1 or math.floor(tonumber(entries[i - 1]) / 1000) > second then
      call('LPUSH', log, text(second) .. ':' .. text(#entries - i + 1))
    end
  end
end

-- Each as late as it can have been.
local function toEntries(log, time)
  local buckets = call('LRANGE', log, 0, -1)
  call('DEL', log)
  local before = 0
  for i = #buckets, 1, -1 do
    local second, sum = secondOf(buckets[i])
    local at = text(math.min(time, second * 1000 + 999))
    if time < leavesAt(second) then
      for _ = before + 1, sum do call('LPUSH', log, at) end
    end
    before = sum
  end
end

-- Here nothing can be lost: the entry was let in, so that fewer than the limit are in the log.
local function push(log, rate, time)
  local bucketed = rate.limit > ${EXACT_ENTRIES}
  if bucketed ~= rate.bucketed and rate.count > 0 then
    if bucketed then toBuckets(log) else toEntries(log, time) end
  elseif rate.count == 0 then
    call('DEL', log)
  end
  rate.count = rate.count + 1
  if not bucketed then
    call('LPUSH', log, text(time))
    rate.reset = 60000
  else
    local second, newest = math.floor(time / 1000), call('LINDEX', log, 0)
    local at, sum = 0, 0
    if newest then at, sum = secondOf(newest) end
    local bucket = text(second) .. ':' .. text(sum + 1)
    if at == second then call('LSET', log, 0, bucket) else call('LPUSH', log, bucket) end
    rate.reset = leavesAt(second) - time
  end
  call('PEXPIRE', log, '61000')
end
`

/** Takes one entry back that was made at a steady time. */
export const UNCOUNT = `
local function uncount(log, time)
  local newest = call('LINDEX', log, 0)
  if not newest or not string.find(newest, ':', 1, true) then
    call('LREM', log, 1, text(time))
    return
  end
  local buckets = call('LRANGE', log, 0, -1)
  local wanted = text(math.floor(time / 1000)) .. ':'
  local place
  for i, bucket in ipairs(buckets) do
    if string.sub(bucket, 1, #wanted) == wanted then place = i end
  end
  if not place then return end
  local lowered
  for i = 1, place do
    local second, sum = string.match(buckets[i], '^(%d+):(%d+)$')
    lowered = second .. ':' .. text(tonumber(sum) - 1)
    call('LSET', log, i - 1, lowered)
  end
  local before = place < #buckets and string.match(buckets[place + 1], ':(%d+)$') or '0'
  if lowered == wanted .. before then call('LREM', log, 1, lowered) end
end
`

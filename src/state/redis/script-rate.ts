/** Parts of Lua that count the admissions of the last minute, for the scripts in `scripts.ts`. */

/** Admissions per minute up to which a log is exact; above, a list of times would cost too much memory. */
const EXACT_ENTRIES = 6000

/**
 * A log is a list, newest first, of steady times. For limits up to EXACT_ENTRIES it holds the time of every entry. Above,
 * it holds one element per second with entries, `<second>:<entries up to its end>`, so that a count is a difference. Sixty
 * whole seconds and the current one count; one element before them is kept to subtract.
 */
export const RATE = `
-- Drops entries that are a minute old, in steps that double, so that dropping a burst takes few commands.
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

-- When every entry of a second is at least a minute old.
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

-- Number of entries in the last minute, time until it is 0 (reset), and until it is below the limit (wait).
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

-- With the latest time that each entry can have had.
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

-- The new form has room for all entries: the request was admitted, so the log holds fewer than its limit.
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

/** Removes the entry of a steady time. */
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

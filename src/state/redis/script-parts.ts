/** Parts of Lua that the scripts in `scripts.ts` share. A part uses functions of the parts before it. */
import { MAX_AMOUNT } from '../../money/money.ts'
import { ACCOUNT } from '../ledger/ledger.ts'

/** Days, and months, for which a book keeps spend: the current one, and two more for late settlements. */
const KEPT_WINDOWS = 3
/** Expired leases that one script releases, within well below a millisecond. */
const MAX_SWEPT = 64
/** Bound of every counter, so that no increase by an amount can overflow 64 bits. */
const MAX_SUM = 5_000_000_000_000_000_000n

/** Amounts are text: Lua's numbers are exact to 2^53 only. */
export const BASE = `
local call = redis.call

local function text(number)
  return string.format('%.0f', number)
end

local function negative(amount)
  return amount == '0' and amount or '-' .. amount
end

-- Compares amounts that are not negative.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
`

/** Time that never goes back: when the clock does, or a failover leads to a slower one, it goes on from its last value. */
export const STEADY = `
local function steady(last, ahead)
  local time = now + (tonumber(ahead) or 0)
  local lag = (tonumber(last) or 0) - time
  if lag <= 0 then return time end
  call('HINCRBY', book, 'ahead', text(lag))
  return time + lag
end
`

/** UTC day of a moment, `YYYYMMDD`. Counts days from 1 March 2000, which puts leap days at the end of each cycle. */
export const CALENDAR = `
local function dayOf(time)
  local days = math.floor(time / 86400000) - 11017
  local era = math.floor(days / 146097)
  days = days - era * 146097
  local century = math.min(math.floor(days / 36524), 3)
  days = days - century * 36524
  local four = math.floor(days / 1461)
  days = days - four * 1461
  local year = math.min(math.floor(days / 365), 3)
  days = days - year * 365
  local month = math.floor((5 * days + 2) / 153)
  local day = days - math.floor((153 * month + 2) / 5) + 1
  year = 2000 + 400 * era + 100 * century + 4 * four + year
  month = month + 3
  if month > 12 then year, month = year + 1, month - 12 end
  return text(year * 10000 + month * 100 + day)
end
`

/** Windows of spend. The earliest is dropped, not the oldest entry: a dropped window can then never count from zero again. */
export const WINDOWS = `
local function keep(key, kept, window)
  local others, same = '|', { window }
  for name in string.gmatch(kept, '%d+') do
    if #name == #window then same[#same + 1] = name else others = others .. name .. '|' end
  end
  table.sort(same)
  if #same > ${KEPT_WINDOWS} then
    local oldest = table.remove(same, 1)
    call('HDEL', book, 's:' .. oldest .. ':' .. key, 'c:' .. oldest .. ':' .. key)
  end
  kept = others .. table.concat(same, '|') .. '|'
  call('HSET', book, 'w:' .. key, kept)
  return kept
end

-- The windows in which the money of a day counts; without its day or month if these were dropped.
local function windowsOf(key, day)
  local kept = call('HGET', book, 'w:' .. key) or '|'
  local windows = { 'L' }
  for _, window in ipairs({ day, string.sub(day, 1, 6) }) do
    local mark = '|' .. window .. '|'
    if not string.find(kept, mark, 1, true) then kept = keep(key, kept, window) end
    if string.find(kept, mark, 1, true) then windows[#windows + 1] = window end
  end
  return windows
end
`

/** The spend of a key, and that of the account over all its keys, which is kept as if it were one more key. */
export const SPEND = `
-- The windows of the account. A book that an earlier version wrote gets its spend from its keys: of the newest windows,
-- of which no key has dropped any.
local function sharedWindows(day)
  if call('HEXISTS', book, 'w:${ACCOUNT}') == 1 then return windowsOf('${ACCOUNT}', day) end
  local fields, days, months, seen = call('HGETALL', book), {}, {}, {}
  for i = 1, #fields, 2 do
    local window = string.match(fields[i], '^[sc]:(%d+):')
    if window and not seen[window] then
      seen[window] = true
      local same = #window == 8 and days or months
      same[#same + 1] = window
    end
  end
  local kept, marks = { L = true }, '|'
  for _, same in ipairs({ days, months }) do
    table.sort(same)
    for i = math.max(1, #same - ${KEPT_WINDOWS - 1}), #same do
      kept[same[i]] = true
      marks = marks .. same[i] .. '|'
    end
  end
  for i = 1, #fields, 2 do
    local kind, window = string.match(fields[i], '^([sc]):(%w+):')
    if kind and kept[window] then
      call('HINCRBY', book, kind .. ':' .. window .. ':${ACCOUNT}', fields[i + 1])
    end
  end
  call('HSET', book, 'w:${ACCOUNT}', marks)
  return windowsOf('${ACCOUNT}', day)
end

-- Adds an amount to the sums of a key and of the account, in the windows of a day. Sums: 's', 'c' or both.
local function addSpend(sums, key, day, amount)
  -- Read first: they may be made of the sums of the keys as they are.
  local shared = sharedWindows(day)
  local function add(windows, of)
    for _, window in ipairs(windows) do
      for sum in string.gmatch(sums, '%a') do
        call('HINCRBY', book, sum .. ':' .. window .. ':' .. of, amount)
      end
    end
  end
  add(windowsOf(key, day), key)
  add(shared, '${ACCOUNT}')
end
`

/** Ends a call: removes its lease, and returns the money it holds to the windows of its own day. */
export const RELEASE = `
-- Returns the day of its hold and the time of its admission; nothing if it held no money.
local function release(member)
  if call('ZREM', leases, member) == 0 then return end
  local key = string.match(member, '^[^|]*')
  call('HINCRBY', book, 'n:' .. key, '-1')
  local held = call('HGET', holds, member)
  if not held then return end
  call('HDEL', holds, member)
  local amount, day, at, ceiling = string.match(held, '^(%d+)|(%d+)|%d|(%d+)|?(%d*)')
  if not amount then return end
  if amount ~= '0' then
    call('HINCRBY', book, 'avail', amount)
    addSpend('c', key, day, '-' .. amount)
  end
  if ceiling ~= '' and ceiling ~= '0' then
    call('HINCRBY', book, 'ceil', '-' .. ceiling)
    call('HINCRBY', book, 'm:' .. key, '-' .. ceiling)
  end
  return day, at
end
`

/** Appends a row to the history. */
export const ROW = `
local function write(kind, request, key, cost, day, at, body)
  local seq = text(call('HINCRBY', book, 'seq', '1'))
  call('XADD', rows, seq .. '-0', 'kind', kind, 'request', request, 'key', key, 'cost', cost, 'day', day,
    'at', at, 'body', body)
  return seq
end
`

/** Releases expired leases; a call that held money leaves an orphan row. */
export const SWEEP = `
local function sweep(time)
  local expired = call('ZRANGEBYSCORE', leases, '-inf', text(time), 'LIMIT', '0', '${MAX_SWEPT}')
  for _, member in ipairs(expired) do
    local day, at = release(member)
    local key, request = string.match(member, '^([^|]*)|(.*)$')
    if day then write('orphan', request, key, '0', '', at, '') end
  end
  return #expired > 0
end
`

/** Moves a cost from the balance to the spend of a key. */
export const CHARGE = `
-- Checked before any write: a script that fails half-way leaves its writes behind.
local function fits(key)
  local sums = call('HMGET', book, 'bal', 'avail', 'c:L:' .. key, 'c:L:${ACCOUNT}')
  for i = 1, 4 do
    if below('${MAX_SUM}', string.match(sums[i] or '0', '%d+')) then return false end
  end
  return true
end

local function charge(key, day, cost)
  if cost == '0' then return end
  call('HINCRBY', book, 'bal', '-' .. cost)
  call('HINCRBY', book, 'avail', '-' .. cost)
  addSpend('sc', key, day, cost)
end
`

/** Adds a correction to the balance, which may be negative. */
export const ADJUST = `
-- Returns the balance, and whether the correction is in it. The counters have room for one more amount only below MAX_SUM.
local function adjust(amount)
  local sign = string.sub(amount, 1, 1) == '-' and '-' or ''
  local function beyond(sum, most)
    local ownSign = string.sub(sum, 1, 1) == '-' and '-' or ''
    return ownSign == sign and below(most, string.match(sum, '%d+'))
  end
  local sums = call('HMGET', book, 'bal', 'avail')
  local former = sums[1] or '0'
  if beyond(former, '${MAX_SUM}') or beyond(sums[2] or '0', '${MAX_SUM}') then return former, false end
  call('HINCRBY', book, 'bal', amount)
  local balance = call('HGET', book, 'bal')
  if beyond(balance, '${MAX_AMOUNT}') then
    call('HINCRBY', book, 'bal', sign == '-' and string.sub(amount, 2) or '-' .. amount)
    return former, false
  end
  call('HINCRBY', book, 'avail', amount)
  return balance, true
end
`

/** Counts what was paid in: exactly up to MAX_AMOUNT, so that no number of top-ups can overflow it. */
export const PAID_IN = `
local function payIn(amount)
  call('HINCRBY', book, 'in', amount)
  local sum = call('HGET', book, 'in')
  if not below('${MAX_AMOUNT}', sum) then return sum end
  call('HSET', book, 'in', '${MAX_AMOUNT}')
  return '${MAX_AMOUNT}'
end

-- A book that an earlier version wrote has no sum yet.
local function paidIn()
  local sum = call('HGET', book, 'in')
  if sum then return sum end
  sum = '0'
  for _, amount in ipairs(call('HVALS', references)) do sum = payIn(amount) end
  return sum
end
`

/** Adds a top-up to the balance, and ends the free tier. */
export const CREDIT = `
-- Returns the new balance, and whether it is within its bounds; if not, nothing is changed.
local function credit(amount)
  call('HINCRBY', book, 'bal', amount)
  local balance = call('HGET', book, 'bal')
  if string.sub(balance, 1, 1) ~= '-' and below('${MAX_AMOUNT}', balance) then
    call('HINCRBY', book, 'bal', '-' .. amount)
    return balance, false
  end
  call('HINCRBY', book, 'avail', amount)
  call('HSET', book, 'tier', '1')
  paidIn()
  payIn(amount)
  return balance, true
end
`

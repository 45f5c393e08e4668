/** Lua of the scripts `hold` and `raise`, in `scripts.ts`: the money of a running call. */
import { MAX_AMOUNT } from '../../money/money.ts'
import { ACCOUNT } from '../ledger/ledger.ts'

/** Compares sums of amounts, which Lua's numbers cannot hold: in two halves of nine digits and the rest. */
export const COVERS = `
-- Whether the first amounts add up to at least the second ones.
local function covers(have, want)
  local high, low = 0, 0
  local function add(amounts, sign)
    for _, amount in ipairs(amounts) do
      local minus, digits = string.match(amount, '^(%-?)(%d+)$')
      local factor = minus == '-' and -sign or sign
      high = high + factor * (tonumber(string.sub(digits, 1, -10)) or 0)
      low = low + factor * tonumber(string.sub(digits, -9))
    end
  end
  add(have, 1)
  add(want, -1)
  return high + math.floor(low / 1000000000) >= 0
end
`

/** @see {@link Ledger.hold}. Argument `near` is the number of ceilings below which a call is tight. */
export const HOLD = `
local key, member, at, amount, ceiling = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local near, share, most, free = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9]
local state = call('HMGET', book, 'l:' .. key, 'tier', 'bal', 'avail', 'last', 'ahead', 'ceil', 'm:' .. key,
  'l:${ACCOUNT}')
local time = steady(state[5], state[6])

local lease = call('ZSCORE', leases, member)
if not lease or tonumber(lease) <= time then return { 'lost' } end
local held = call('HGET', holds, member)
local known, billed, wasTight = string.match(held or '', '^%d+|(%d+)|(%d)|%d+|?%d*|?(%d?)')
if known then return { 'ok', known, billed, wasTight } end
local day = dayOf(now)
if state[2] ~= '1' then
  if free ~= '1' then return { 'tier' } end
  call('HSET', holds, member, '0|' .. day .. '|0|' .. at .. '|0|0')
  return { 'ok', day, '0', '0' }
end

local windows = sharedWindows(day)
local caps = {}
-- The cap of a key or of the account, with the ceilings of the calls that run.
local function addCap(of, limits, running)
  local scope, cap = string.match(limits or '', '|(%a+)|(%d+)$')
  if not scope then return end
  local window = scope == 'lifetime' and 'L' or scope == 'day' and day or string.sub(day, 1, 6)
  local spent = call('HMGET', book, 's:' .. window .. ':' .. of, 'c:' .. window .. ':' .. of)
  caps[#caps + 1] = { of = of, scope = scope, cap = cap, running = running or '0',
    settled = spent[1] or '0', committed = spent[2] or '0' }
end
addCap(key, state[1], state[8])
addCap('${ACCOUNT}', state[9], state[7])
for _, one in ipairs(caps) do
  if not below(one.settled, one.cap) then
    return { 'cap', one.scope, now, one.of == '${ACCOUNT}' and 'account' or 'key' }
  end
end
local balance, available = state[3] or '0', state[4] or '0'
if balance == '0' or string.sub(balance, 1, 1) == '-' then return { 'credits' } end

local function exposed(of)
  local part = text(math.floor(share * tonumber(of)))
  return below(part, most) and part or most
end

-- Which condition makes the call wait for others. A call waits for nothing where nothing else holds money.
local function waitsFor()
  if ceiling == '0' then return end
  local all = state[7] or '0'
  if all ~= '0' then
    if not covers({ available }, { amount }) then return 'balance' end
    if not covers({ balance, exposed(paidIn()) }, { all, ceiling }) then return 'balance_ceilings' end
  end
  for _, one in ipairs(caps) do
    if one.running ~= '0' then
      if not covers({ one.cap }, { one.committed, amount }) then return 'cap' end
      local most = { one.cap, exposed(one.cap) }
      if not covers(most, { one.settled, one.running, ceiling }) then return 'cap_ceilings' end
    end
  end
end

local by = waitsFor()
if by then
  -- The mark keeps a repeated hold from removing a second entry of the rate logs.
  if not held then
    uncount(log, tonumber(at) + time - now)
    uncount(shared, tonumber(at) + time - now)
    call('HSET', holds, member, '-')
  end
  return { 'held', by }
end

-- The largest counter of the account: what fits into it fits into every other one.
local lifetime = 'c:L:${ACCOUNT}'
local sum = call('HGET', book, lifetime) or '0'
if below('${MAX_AMOUNT}', sum) then return { 'range', sum } end
call('HINCRBY', book, lifetime, amount)
sum = call('HGET', book, lifetime)
if below('${MAX_AMOUNT}', sum) then
  call('HINCRBY', book, lifetime, negative(amount))
  return { 'range', sum }
end
local tight = '0'
if ceiling ~= '0' then
  if not covers({ available }, { amount, near }) then tight = '1' end
  for _, one in ipairs(caps) do
    if not covers({ one.cap }, { one.committed, amount, near }) then tight = '1' end
  end
end
call('HSET', holds, member, table.concat({ amount, day, '1', at, ceiling, tight }, '|'))
if amount ~= '0' then
  call('HINCRBY', book, 'avail', '-' .. amount)
  for _, window in ipairs(windowsOf(key, day)) do
    call('HINCRBY', book, 'c:' .. window .. ':' .. key, amount)
  end
  for _, window in ipairs(windows) do
    if window ~= 'L' then call('HINCRBY', book, 'c:' .. window .. ':${ACCOUNT}', amount) end
  end
end
if ceiling ~= '0' then
  call('HINCRBY', book, 'ceil', ceiling)
  call('HINCRBY', book, 'm:' .. key, ceiling)
end
return { 'ok', day, '1', tight }
`

/** @see {@link Ledger.raise}. A call without a lease has no entry among the holds. */
export const RAISE = `
local key, member, from, to, difference = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local held = call('HGET', holds, member) or ''
local amount, rest, day, ceiling = string.match(held, '^(%d+)(|(%d+)|1|%d+|(%d+)|%d)$')
if amount ~= from or below(ceiling, to) then return end
local shared = sharedWindows(day)
local lifetime = 'c:L:${ACCOUNT}'
call('HINCRBY', book, lifetime, difference)
if below('${MAX_AMOUNT}', call('HGET', book, lifetime)) then
  call('HINCRBY', book, lifetime, '-' .. difference)
  return
end
call('HSET', holds, member, to .. rest)
call('HINCRBY', book, 'avail', '-' .. difference)
for _, window in ipairs(windowsOf(key, day)) do
  call('HINCRBY', book, 'c:' .. window .. ':' .. key, difference)
end
for _, window in ipairs(shared) do
  if window ~= 'L' then call('HINCRBY', book, 'c:' .. window .. ':${ACCOUNT}', difference) end
end
`

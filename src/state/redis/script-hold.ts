/** Lua of the scripts `hold` and `raise`, in `scripts.ts`: the money of a running call. */
import { ACCOUNT } from '../ledger/ledger.ts'

/** @see {@link Ledger.hold}. Argument `near` is the number of ceilings below which a call is tight. */
export const HOLD = `
local key, member, at, amount, ceiling = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local near, share, most, free, replaces = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10] == '1'
local day = dayOf(now)
local names = { 'l:' .. key, 'l:${ACCOUNT}', 'tier', 'bal', 'avail', 'last', 'ahead', 'ceil', 'm:' .. key, 'in' }
nameSpend(names, key, day)
load(names)
local time = steady(fields.last, fields.ahead)

local lease = call('ZSCORE', leases, member)
if not lease or tonumber(lease) <= time then return { 'lost' } end
local held = call('HGET', holds, member)
local known, billed, wasTight = string.match(held or '', '^%d+|(%d+)|(%d)|%d+|?%d*|?(%d?)')
if known and not replaces then return { 'ok', known, billed, wasTight } end
-- What the call holds is given back first. Where it is refused, nothing of that is saved.
local heldAmount, heldDay, heldCeiling = string.match(held or '', '^(%d+)|(%d+)|1|%d+|(%d+)')
if heldAmount then
  local more = {}
  nameSpend(more, key, heldDay)
  loadMore(more)
  local usd, pico = split(heldAmount)
  add('avail', usd, pico)
  addSpend(key, heldDay, 0, 0, -usd, -pico)
  usd, pico = split(heldCeiling)
  add('ceil', -usd, -pico)
  add('m:' .. key, -usd, -pico)
end
if fields.tier ~= '1' then
  if free ~= '1' then return { 'tier' } end
  call('HSET', holds, member, '0|' .. day .. '|0|' .. at .. '|0|0')
  return { 'ok', day, '0', '0' }
end

local caps = {}
-- The cap of a key or of the account, with the ceilings of the calls that run.
local function addCap(of, ceilings)
  local scope, cap = string.match(fields['l:' .. of] or '', '[|;]cap%.(%a+),(%d+)')
  if not scope then return end
  local window = scope == 'lifetime' and 'L' or scope == 'day' and day or string.sub(day, 1, 6)
  local one = { of = of, scope = scope, cap = cap, running = fields[ceilings] }
  local capUsd, capPico = split(cap)
  local usd, pico = split(fields['s:' .. window .. ':' .. of])
  one.unsettledUsd, one.unsettledPico = capUsd - usd, capPico - pico
  usd, pico = split(fields['c:' .. window .. ':' .. of])
  one.leftUsd, one.leftPico = capUsd - usd, capPico - pico
  caps[#caps + 1] = one
end
addCap(key, 'm:' .. key)
addCap('${ACCOUNT}', 'ceil')
for _, one in ipairs(caps) do
  if covers(-one.unsettledUsd, -one.unsettledPico) then
    return { 'cap', one.scope, now, one.of == '${ACCOUNT}' and 'account' or 'key' }
  end
end
local balanceUsd, balancePico = split(fields.bal)
if covers(-balanceUsd, -balancePico) then return { 'credits' } end

local amountUsd, amountPico = split(amount)
local ceilingUsd, ceilingPico = split(ceiling)
local availableUsd, availablePico = split(fields.avail)
local mostUsd, mostPico = split(most)

-- The smaller of the share of a sum and the most.
local function exposed(sum)
  local usd, pico = split(text(math.floor(share * tonumber(sum or '0'))))
  if covers(usd - mostUsd, pico - mostPico) then return mostUsd, mostPico end
  return usd, pico
end

-- Whether the ceilings of the running calls and of this one fit what is left and what may be exposed.
local function ceilingsFit(running, leftUsd, leftPico, sum)
  local runningUsd, runningPico = split(running)
  local moreUsd, morePico = exposed(sum)
  return covers(leftUsd + moreUsd - runningUsd - ceilingUsd, leftPico + morePico - runningPico - ceilingPico)
end

-- Which condition makes the call wait for others. A call waits for nothing where nothing else holds money.
local function waitsFor()
  if ceiling == '0' then return end
  local all = fields.ceil or '0'
  if all ~= '0' then
    if not covers(availableUsd - amountUsd, availablePico - amountPico) then return 'balance' end
    if not ceilingsFit(all, balanceUsd, balancePico, fields['in']) then return 'balance_ceilings' end
  end
  for _, one in ipairs(caps) do
    if (one.running or '0') ~= '0' then
      if not covers(one.leftUsd - amountUsd, one.leftPico - amountPico) then return 'cap' end
      if not ceilingsFit(one.running, one.unsettledUsd, one.unsettledPico, one.cap) then return 'cap_ceilings' end
    end
  end
end

local by = waitsFor()
if by then return { 'held', by } end

local tight = '0'
if ceiling ~= '0' then
  local nearUsd, nearPico = split(near)
  nearUsd, nearPico = nearUsd + amountUsd, nearPico + amountPico
  if not covers(availableUsd - nearUsd, availablePico - nearPico) then tight = '1' end
  for _, one in ipairs(caps) do
    if not covers(one.leftUsd - nearUsd, one.leftPico - nearPico) then tight = '1' end
  end
end
call('HSET', holds, member, table.concat({ amount, day, '1', at, ceiling, tight }, '|'))
if amount ~= '0' then
  add('avail', -amountUsd, -amountPico)
  addSpend(key, day, 0, 0, amountUsd, amountPico)
end
if ceiling ~= '0' then
  add('ceil', ceilingUsd, ceilingPico)
  add('m:' .. key, ceilingUsd, ceilingPico)
end
save()
return { 'ok', day, '1', tight }
`

/** @see {@link Ledger.raise}. A call without a lease has no entry among the holds. */
export const RAISE = `
local key, member, from, to, difference = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local held = call('HGET', holds, member) or ''
local amount, rest, day, ceiling = string.match(held, '^(%d+)(|(%d+)|1|%d+|(%d+)|%d)$')
if amount ~= from then return end
local ceilingUsd, ceilingPico = split(ceiling)
local toUsd, toPico = split(to)
if not covers(ceilingUsd - toUsd, ceilingPico - toPico) then return end
local names = { 'avail' }
nameSpend(names, key, day)
load(names)
call('HSET', holds, member, to .. rest)
local usd, pico = split(difference)
add('avail', -usd, -pico)
addSpend(key, day, 0, 0, usd, pico)
save()
`

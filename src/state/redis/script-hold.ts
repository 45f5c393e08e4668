/** Lua of the scripts `hold` and `raise`, in `scripts.ts`: what a running call reserves. */
import { ACCOUNT, TIER } from '../ledger/ledger.ts'
import { STANDING } from './script-limits.ts'

/** @see {@link Ledger.hold}. Argument `near` is the number of ceilings below which a call is tight. */
export const HOLD = `
local member, at, amount, ceiling = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local near, share, greatest, free = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local model, tokens, tokenCeiling, tierDay = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local replaces = ARGV[13] == '1'
local minutes = minutesOf(ARGV[14], ARGV[15], ARGV[16])
${STANDING}
local owners = ownersOf(member)
local names = { 'tier', 'bal', 'avail', 'last', 'ahead', 'ceil', 'in' }
for i, of in ipairs(owners) do
  names[#names + 1] = 'l:' .. of
  if i < #owners then names[#names + 1] = 'm:' .. of end
end
nameSpend(names, owners, day)
load(names)
local time = steady(fields.last, fields.ahead)

local lease = call('ZSCORE', leases, member)
if not lease or tonumber(lease) <= time then return { 'lost' } end
local held = call('HGET', holds, member)
local known, billed, wasTight, counted = string.match(held or '', '^%d+|(%d+)|(%d)|%d+|?%d*|?(%d?)|?([^|]*)')
if known and not replaces then return { 'ok', known, billed, wasTight, counted } end
local paid = fields.tier == '1'
if not paid and free ~= '1' then return { 'tier' } end

local all, limits = {}, {}
local owner = { [owners[1]] = 'key', ['${ACCOUNT}'] = 'account' }
for _, of in ipairs(owners) do addLimits(all, owner[of] or 'team', of, model) end
if not paid and tierDay ~= '' then
  all[#all + 1] = newLimit('tier', '${TIER}', 'requests.day', 'requests', 'day', tierDay, tierDay)
end
-- Nothing is charged on the free tier, so limits of money stand still there.
for _, one in ipairs(all) do if paid or one.unit ~= 'usd' then limits[#limits + 1] = one end end
loadCounters(limits)
-- What the call holds is given back first. Where it is refused, nothing of that is saved.
if known then
  local before = holdOf(held)
  local more = {}
  nameSpend(more, owners, before.day)
  nameCounters(more, owners, before.counted)
  loadMore(more)
  local usd, pico = split(before.amount)
  add('avail', usd, pico)
  addSpend(owners, before.day, 0, 0, -usd, -pico)
  usd, pico = split(before.ceiling)
  add('ceil', -usd, -pico)
  for i = 1, #owners - 1 do add('m:' .. owners[i], -usd, -pico) end
  move(owners, before.counted, before)
end

local expected = { usd = amount, tokens = tokens }
local most = { usd = ceiling, tokens = tokenCeiling }
local function later(last, one)
  if not last or one.ends > last.ends then return one end
  return last
end

local function refusal(why, by, one)
  local usd, pico = usedOf(one)
  if one.unit == 'requests' or one.unit == 'concurrent' then
    local heldUsd, heldPico = split(one.held)
    usd, pico = usd + heldUsd, pico + heldPico
  end
  return { why, by, one.owner, one.id, one.value, join(usd, pico), one.current, one.models, one.raisedUntil, now }
end

local terminal, spent
for _, one in ipairs(limits) do
  stand(one)
  one.amount, one.ceiling = expected[one.unit] or '1', most[one.unit] or '1'
  local usd, pico = one.unsettledUsd, one.unsettledPico
  if one.unit == 'requests' then usd, pico = one.leftUsd, one.leftPico end
  if covers(-usd, -pico) then
    if one.unit == 'usd' or (one.unit == 'tokens' and one.window == 'lifetime') then
      terminal = later(terminal, one)
    else
      spent = later(spent, one)
    end
  end
end
if terminal then return refusal('limit', '', terminal) end
local creditUsd, creditPico = split(string.match(fields['l:${ACCOUNT}'] or '', '[|;]credit,(%d+)'))
-- The balance, and what is available of it, with the credit limit.
local function withCredit(sum)
  local usd, pico = split(sum)
  return usd + creditUsd, pico + creditPico
end
local balanceUsd, balancePico = withCredit(fields.bal)
if paid and covers(-balanceUsd, -balancePico) then return { 'credits' } end
if spent then return refusal('limit', '', spent) end

local amountUsd, amountPico = split(amount)
local ceilingUsd, ceilingPico = split(ceiling)
local availableUsd, availablePico = withCredit(fields.avail)
local mostUsd, mostPico = split(greatest)

-- The share of a sum.
local function shareOf(sum)
  return split(text(math.floor(share * tonumber(sum or '0'))))
end

-- The smaller of the share of a sum and the most.
local function exposed(sum)
  local usd, pico = shareOf(sum)
  if covers(usd - mostUsd, pico - mostPico) then return mostUsd, mostPico end
  return usd, pico
end

-- Which condition of a limit makes the call wait for others. A call waits for nothing where nothing else is reserved.
local function waitsAt(one)
  if one.ceiling == '0' or one.running == '0' or one.unit == 'requests' then return end
  local usd, pico = split(one.amount)
  local fits = covers(one.leftUsd - usd, one.leftPico - pico)
  if one.unit == 'concurrent' then return not fits and 'concurrency' or nil end
  if not fits then return 'cap' end
  local moreUsd, morePico
  if one.unit == 'usd' then moreUsd, morePico = exposed(one.value) else moreUsd, morePico = shareOf(one.value) end
  local runningUsd, runningPico = split(one.running)
  usd, pico = split(one.ceiling)
  if not covers(one.unsettledUsd + moreUsd - runningUsd - usd, one.unsettledPico + morePico - runningPico - pico) then
    return 'cap_ceilings'
  end
end

local waiting, full
for _, one in ipairs(limits) do
  one.by = waitsAt(one)
  if one.by then waiting = later(waiting, one) end
  if one.by == 'concurrency' and not full then full = one end
end
-- A call never waits inside for one of those that run at once, so that is told first.
if full then return refusal('held', full.by, full) end
if paid and ceiling ~= '0' and (fields.ceil or '0') ~= '0' then
  if not covers(availableUsd - amountUsd, availablePico - amountPico) then return { 'held', 'balance' } end
  local moreUsd, morePico = exposed(fields['in'])
  local runningUsd, runningPico = split(fields.ceil)
  if not covers(balanceUsd + moreUsd - runningUsd - ceilingUsd, balancePico + morePico - runningPico - ceilingPico) then
    return { 'held', 'balance_ceilings' }
  end
end
if waiting then return refusal('held', waiting.by, waiting) end

local tight = '0'
if paid and ceiling ~= '0' then
  local nearUsd, nearPico = split(near)
  nearUsd, nearPico = nearUsd + amountUsd, nearPico + amountPico
  if not covers(availableUsd - nearUsd, availablePico - nearPico) then tight = '1' end
  for _, one in ipairs(limits) do
    if one.unit == 'usd' and not covers(one.leftUsd - nearUsd, one.leftPico - nearPico) then tight = '1' end
  end
end

local entries, rate = {}, nil
local letters = { key = 'k', team = 't', account = 'a', tier = 'f' }
for _, one in ipairs(limits) do
  if one.own then
    local held, ceilings = plus(one.held, one.amount, 1), plus(one.running, one.ceiling, 1)
    setCounter(one.name, one.since, one.current, one.settled, held, ceilings, one.reset)
    entries[#entries + 1] = letters[one.owner] .. ':' .. one.id .. '@' .. one.current
    if one.id == 'tokens.minute' then
      local usd, pico = split(one.amount)
      usd, pico = one.leftUsd - usd, one.leftPico - pico
      local left = covers(usd, pico) and join(usd, pico) or '0'
      if not rate or tonumber(left) < tonumber(rate[2]) then rate = { one.value, left, one.ends - now } end
    end
  end
end
local entry = paid and { amount, day, '1', at, ceiling, tight } or { '0', day, '0', at, '0', '0' }
local names = table.concat(entries, ',')
if names ~= '' then
  for _, part in ipairs({ names, tokens, tokenCeiling }) do entry[#entry + 1] = part end
end
call('HSET', holds, member, table.concat(entry, '|'))
if paid and amount ~= '0' then
  add('avail', -amountUsd, -amountPico)
  addSpend(owners, day, 0, 0, amountUsd, amountPico)
end
if paid and ceiling ~= '0' then
  add('ceil', ceilingUsd, ceilingPico)
  for i = 1, #owners - 1 do add('m:' .. owners[i], ceilingUsd, ceilingPico) end
end
save()
local reply = { 'ok', day, paid and '1' or '0', tight, names }
for _, number in ipairs(rate or {}) do reply[#reply + 1] = number end
return reply
`

/** @see {@link Ledger.raise}. A call without a lease has no entry among the holds. */
export const RAISE = `
local member, from, to, difference = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local held = call('HGET', holds, member) or ''
local amount, rest, day, ceiling, more = string.match(held, '^(%d+)(|(%d+)|1|%d+|(%d+)|%d(.*))$')
if amount ~= from then return end
local ceilingUsd, ceilingPico = split(ceiling)
local toUsd, toPico = split(to)
if not covers(ceilingUsd - toUsd, ceilingPico - toPico) then return end
local owners = ownersOf(member)
local counted = string.match(more, '^|([^|]*)')
local names = { 'avail' }
nameSpend(names, owners, day)
nameCounters(names, owners, counted)
load(names)
call('HSET', holds, member, to .. rest)
local usd, pico = split(difference)
add('avail', -usd, -pico)
addSpend(owners, day, 0, 0, usd, pico)
eachCounter(owners, counted, function(name, window, head)
  local since, present, settled, committed, ceilings, reset = readCounter(name)
  if head ~= 'cap' or present ~= window then return end
  setCounter(name, since, window, settled, plus(committed, difference, 1), ceilings, reset)
end)
save()
`

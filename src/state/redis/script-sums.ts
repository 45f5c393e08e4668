/**
 * Lua for sums of money, shared by the scripts in `scripts.ts`. A sum is decimal text of picodollars and has no bound. Lua's numbers
 * are exact to 2^53 only, so a script computes with two of them, whole dollars and picodollars, both with the sign of the sum.
 */
/** Days, and months, for which a book keeps spend: the current one, and two more for late settlements. */
export const KEPT_WINDOWS = 3

export const SUMS = `
local unpack = rawget(_G, 'unpack') or table.unpack
local UNIT = 1000000000000

local function split(sum)
  if not sum then return 0, 0 end
  if #sum <= 12 then return 0, tonumber(sum) end
  local usd, pico = string.sub(sum, 1, -13), tonumber(string.sub(sum, -12))
  if string.byte(sum) ~= 45 then return tonumber(usd), pico end
  return usd == '-' and 0 or tonumber(usd), -pico
end

local function join(usd, pico)
  local carry = math.floor(pico / UNIT)
  usd, pico = usd + carry, pico - carry * UNIT
  if usd < 0 and pico > 0 then usd, pico = usd + 1, pico - UNIT end
  if usd == 0 then return string.format('%.0f', pico) end
  return string.format('%.0f%012.0f', usd, math.abs(pico))
end

-- Whether an amount is at least 0; its parts may have different signs.
local function covers(usd, pico)
  return usd + math.floor(pico / UNIT) >= 0
end

-- What a script has read of the book with one HMGET, and what it writes with one HSET.
local fields, changes = {}, {}

local function load(names)
  local texts = call('HMGET', book, unpack(names))
  for i, name in ipairs(names) do fields[name] = texts[i] end
end

-- Reads further names, and keeps those that are known.
local function loadMore(names)
  local new = {}
  for _, name in ipairs(names) do
    if fields[name] == nil then new[#new + 1] = name end
  end
  if #new > 0 then load(new) end
end

local function set(name, value)
  fields[name] = value
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end

local function add(name, usd, pico)
  local oldUsd, oldPico = split(fields[name])
  set(name, join(oldUsd + usd, oldPico + pico))
end

local function count(name, number)
  set(name, text((tonumber(fields[name]) or 0) + number))
end

local function save()
  if #changes > 0 then call('HSET', book, unpack(changes)) end
  changes = {}
end
`

/**
 * The spend of a key, its team and its account, settled (`s`) and committed (`c`), in the windows of a day. The earliest window is dropped,
 * not the oldest entry: a dropped window can then never count from zero again.
 */
export const SPEND = `
-- Adds the names of what spendIn reads.
local function nameSpend(names, owners, day)
  local month = string.sub(day, 1, 6)
  for _, of in ipairs(owners) do
    names[#names + 1] = 'w:' .. of
    for _, window in ipairs({ 'L', day, month }) do
      names[#names + 1] = 's:' .. window .. ':' .. of
      names[#names + 1] = 'c:' .. window .. ':' .. of
    end
  end
end

local function keep(of, kept, window)
  local others, same = '|', { window }
  for name in string.gmatch(kept, '%d+') do
    if #name == #window then same[#same + 1] = name else others = others .. name .. '|' end
  end
  table.sort(same)
  if #same > ${KEPT_WINDOWS} then
    local oldest = table.remove(same, 1)
    call('HDEL', book, 's:' .. oldest .. ':' .. of, 'c:' .. oldest .. ':' .. of)
  end
  kept = others .. table.concat(same, '|') .. '|'
  set('w:' .. of, kept)
  return kept
end

-- The windows in which the money of a day counts; without its day or month if these were dropped.
local function windowsOf(of, day)
  local kept = fields['w:' .. of] or '|'
  local windows = { 'L' }
  for _, window in ipairs({ day, string.sub(day, 1, 6) }) do
    local mark = '|' .. window .. '|'
    if not string.find(kept, mark, 1, true) then kept = keep(of, kept, window) end
    if string.find(kept, mark, 1, true) then windows[#windows + 1] = window end
  end
  return windows
end

-- Adds to the settled and to the committed spend of a key, its team and the account.
local function addSpend(owners, day, settledUsd, settledPico, committedUsd, committedPico)
  local settles = settledUsd ~= 0 or settledPico ~= 0
  local commits = committedUsd ~= 0 or committedPico ~= 0
  if not settles and not commits then return end
  for _, of in ipairs(owners) do
    for _, window in ipairs(windowsOf(of, day)) do
      if settles then add('s:' .. window .. ':' .. of, settledUsd, settledPico) end
      if commits then add('c:' .. window .. ':' .. of, committedUsd, committedPico) end
    end
  end
end
`

/** Reads the hold of a call. */
export const HELD = `
local function holdOf(held)
  local amount, day, at, ceiling, more = string.match(held, '^(%d+)|(%d+)|%d|(%d+)|?(%d*)|?%d?(.*)$')
  local counted, tokens, tokenCeiling = string.match(more or '', '^|([^|]*)|(%d+)|(%d+)$')
  return { amount = amount, day = day, at = at, ceiling = ceiling, counted = counted, tokens = tokens, tokenCeiling = tokenCeiling }
end
`

export const RELEASE = `
-- Removes a lease. Returns nothing for a call that does not run; else its hold, which has no amount where it held no money.
local function release(member)
  if call('ZREM', leases, member) == 0 then return end
  local held = call('HGET', holds, member)
  if not held then return {} end
  call('HDEL', holds, member)
  return holdOf(held)
end

`

/** Gives back what a call held, and charges a cost. Reads `seq` too; the caller saves. */
export const POSTING = `
-- @param released what release has returned. @param counts what the call counts, and in which counters
local function post(owners, released, day, cost, counts)
  local names = { 'seq', 'bal', 'avail', 'ceil' }
  for i = 1, #owners - 1 do
    names[#names + 1] = 'm:' .. owners[i]
    names[#names + 1] = 'n:' .. owners[i]
  end
  nameCounters(names, owners, released and released.counted)
  if counts and counts.counted ~= (released and released.counted) then nameCounters(names, owners, counts.counted) end
  local amount, ceiling = released and released.amount, released and released.ceiling
  local moves = cost ~= '0' or (amount and amount ~= '0')
  if moves then nameSpend(names, owners, day) end
  load(names)
  if released then
    for i = 1, #owners - 1 do count('n:' .. owners[i], -1) end
  end
  moveCounters(owners, cost, released, counts)
  if moves then
    local costUsd, costPico = split(cost)
    local heldUsd, heldPico = split(amount)
    if cost ~= '0' then add('bal', -costUsd, -costPico) end
    add('avail', heldUsd - costUsd, heldPico - costPico)
    addSpend(owners, day, costUsd, costPico, costUsd - heldUsd, costPico - heldPico)
  end
  if ceiling and ceiling ~= '' and ceiling ~= '0' then
    local usd, pico = split(ceiling)
    add('ceil', -usd, -pico)
    for i = 1, #owners - 1 do add('m:' .. owners[i], -usd, -pico) end
  end
end
`

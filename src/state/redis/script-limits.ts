/**
 * Lua for counted limits: those of a book that apply to a call, as they stand, and what running and settled calls count. The field
 * `q:<id>:<owner>` is a counter, `<since>,<window>,<settled>,<held>,<ceilings>,<reset>`: the last row before its limit was set, and in its
 * window what is settled, held, the ceilings of what is held, and what resets took off. A limit that counts by a sum that every owner has
 * is without a counter: `qb:<id>:<owner>`, `<window>,<amount>`, is what resets took off.
 */
import { ACCOUNT, TIER } from '../ledger/ledger.ts'

/** The local date of the zone that the caller names by its offset in minutes, the moment until which it holds, and the next one. */
export const ZONE = `
local function minutesOf(offset, till, next)
  if not offset or offset == '' then return 0 end
  return tonumber(now < tonumber(till) and offset or next)
end
`

/** Counters that a hold has named: `<owner>:<id>@<window>`, joined by commas. */
export const COUNTERS = `
-- Whose the sums of a call are: its key, its team, and the account.
local function ownersOf(member)
  local key, team = string.match(member, '^([^@|]*)@?([^|]*)')
  if team == '' then return { key, '${ACCOUNT}' } end
  return { key, '@team:' .. team, '${ACCOUNT}' }
end

local function readCounter(name)
  return string.match(fields[name] or '', '^(.-),(.-),(.-),(.-),(.-),(.*)$')
end

local function setCounter(name, since, window, settled, held, ceilings, reset)
  set(name, since .. ',' .. window .. ',' .. settled .. ',' .. held .. ',' .. ceilings .. ',' .. reset)
end

-- Calls with the field of each counter that a hold has named, the window, and what its limit counts.
local function eachCounter(owners, counted, visit)
  local names = { k = owners[1], t = owners[2], a = '${ACCOUNT}', f = '${TIER}' }
  for letter, id, head, window in string.gmatch(counted or '', '(%a):((%a+)[^@,]*)@([^,]+)') do
    visit('q:' .. id .. ':' .. names[letter], window, head)
  end
end

local function nameCounters(names, owners, counted)
  eachCounter(owners, counted, function(name) names[#names + 1] = name end)
end

-- A sum with an amount added, or taken off. Numbers of 15 digits are exact.
local function plus(sum, amount, sign)
  if amount == '0' then return sum end
  if #sum < 16 and #amount < 16 then return text(tonumber(sum) + sign * tonumber(amount)) end
  local usd, pico = split(sum)
  local moreUsd, morePico = split(amount)
  return join(usd + sign * moreUsd, pico + sign * morePico)
end

-- Gives back what a call has held in counters, and adds what it counts. Every limit but those of amounts counts calls.
-- @param released what release has returned, if anything. @param counts amounts by what a limit counts, of a settled call
local function move(owners, counted, released, counts)
  local expected = released and { cap = released.amount, tokens = released.tokens }
  local most = released and { cap = released.ceiling, tokens = released.tokenCeiling }
  eachCounter(owners, counted, function(name, window, head)
    local since, present, settled, held, ceilings, reset = readCounter(name)
    if not since and counts and string.find(name, ':${TIER}', 1, true) then since, present = '0', '' end
    if not since then return end
    if present ~= window then
      local isNewer = present == '' or (window ~= '-' and tonumber(window) > tonumber(present))
      if not counts or not isNewer then return end
      settled, held, ceilings, reset = '0', '0', '0', '0'
    elseif released then
      held = plus(held, expected[head] or '1', -1)
      ceilings = plus(ceilings, most[head] or '1', -1)
    end
    if counts then settled = plus(settled, counts[head], 1) end
    setCounter(name, since, window, settled, held, ceilings, reset)
  end)
end

local function moveCounters(owners, cost, released, counts)
  local held, counted = released and released.counted, counts and counts.counted
  local amounts = counts and { cap = cost, tokens = counts.tokens, requests = counts.requests, rpm = counts.requests, concurrency = '0' }
  if counted == held then return move(owners, held, released, amounts) end
  if released then move(owners, held, released) end
  if counts then move(owners, counted, nil, amounts) end
end
`

/** Limits as they stand. The script that uses it defines `minutes`, the offset of its zone. */
export const STANDING = `
local SPANS = { minute = 60000, ['5h'] = 18000000 }
local KEPT = { ['cap.lifetime'] = true, ['cap.day'] = true, ['cap.month'] = true }
local UNITS = { cap = 'usd', tokens = 'tokens', concurrency = 'concurrent' }
local days = math.floor((now + minutes * 60000) / 86400000)
local day = dayOf(days * 86400000)

local function newLimit(owner, of, id, head, window, value, rest)
  if head == 'rpm' then window = 'minute' elseif head == 'concurrency' then window = 'lifetime' end
  local own = not KEPT[id]
  return { owner = owner, of = of, id = id, value = value, rest = rest, unit = UNITS[head] or 'requests', window = window,
    own = own, name = (own and 'q:' or 'qb:') .. id .. ':' .. of, marked = false, models = '', raisedUntil = '', ends = 0,
    current = '', since = '0', settled = '0', held = '0', running = '0', reset = '0', open = false,
    unsettledUsd = 0, unsettledPico = 0, leftUsd = 0, leftPico = 0 }
end

local function appliesTo(patterns, model)
  for pattern in string.gmatch(patterns, '[^,]+') do
    if pattern == model or (string.sub(pattern, -2) == '/*' and
      string.sub(model, 1, #pattern - 1) == string.sub(pattern, 1, -2)) then return true end
  end
  return false
end

-- Adds the limits of an owner that apply to a model, or all.
local function addLimits(limits, owner, of, model)
  local list = string.match(fields['l:' .. of] or '', '^%d+|%d|%-?%d*|%d*|%d*|(.+)$')
  for id, head, window, value, mark, rest in
    string.gmatch(list or '', '((%a+)%.?(%w*)[^,;]*),(%d+)(!?)([^;]*)') do
    local raised, till, patterns
    if rest ~= '' then raised, till, patterns = string.match(rest, '^,([^,]*),([^,]*),?(.*)$') end
    patterns = patterns or ''
    if head ~= 'credit' and (not model or patterns == '' or appliesTo(patterns, model)) then
      local one = newLimit(owner, of, id, head, window, value, value .. mark .. rest)
      one.marked, one.models = mark == '!', patterns
      if raised and raised ~= '' and now < tonumber(till) then one.value, one.raisedUntil = raised, till end
      limits[#limits + 1] = one
    end
  end
end

-- Reads what is counted, with one command and only where there is more than the sums that every owner has.
local function loadCounters(limits)
  local names = {}
  for _, one in ipairs(limits) do
    if one.own or one.marked then names[#names + 1] = one.name end
  end
  if #names > 0 then load(names) end
end

local windows = {}

-- Name and end of the present day, week or month.
local function presentOf(window)
  local known = windows[window]
  if known then return known[1], known[2] end
  local name, last = day, days + 1
  if window == 'week' then
    local monday = days - (days + 3) % 7
    name, last = dayOf(monday * 86400000), monday + 7
  elseif window == 'month' then
    local first = days - tonumber(string.sub(day, 7)) + 32
    name, last = string.sub(day, 1, 6), first - tonumber(string.sub(dayOf(first * 86400000), 7)) + 1
  end
  windows[window] = { name, last * 86400000 - minutes * 60000 }
  return name, windows[window][2]
end

-- The window of a limit, when it ends, and what is counted in it: what its value leaves of what is settled, and of all.
local function stand(one)
  local since, present, settled, held, ceilings, reset
  if one.own then since, present, settled, held, ceilings, reset = readCounter(one.name) end
  if present == '' then present = nil end
  local span, current = SPANS[one.window], '-'
  one.ends = math.huge
  if span then
    current = present and now < tonumber(present) + span and present or text(now)
    one.ends = tonumber(current) + span
  elseif one.window ~= 'lifetime' then
    current, one.ends = presentOf(one.window)
    if present and present ~= current and tonumber(present) > tonumber(current) then current = present end
  end
  one.current = current
  if one.own then
    one.since, one.open = since or '0', present == current
    if one.open then one.settled, one.held, one.running, one.reset = settled, held, ceilings, reset end
  else
    local window, amount = string.match(fields[one.name] or '', '^([^,]*),(%d+)$')
    if window == current then one.reset = amount end
    window = current == '-' and 'L' or current
    one.open = true
    one.settled = fields['s:' .. window .. ':' .. one.of] or '0'
    one.held = plus(fields['c:' .. window .. ':' .. one.of] or '0', one.settled, -1)
    one.running = fields[one.of == '${ACCOUNT}' and 'ceil' or 'm:' .. one.of] or '0'
  end
  local valueUsd, valuePico = split(one.value)
  local usd, pico = split(one.settled)
  one.unsettledUsd, one.unsettledPico = valueUsd - usd, valuePico - pico
  if one.reset ~= '0' then
    usd, pico = split(one.reset)
    one.unsettledUsd, one.unsettledPico = one.unsettledUsd + usd, one.unsettledPico + pico
  end
  usd, pico = split(one.held)
  one.leftUsd, one.leftPico = one.unsettledUsd - usd, one.unsettledPico - pico
end

-- What is used of a limit, less what resets took off.
local function usedOf(one)
  local usd, pico = split(one.value)
  return usd - one.unsettledUsd, pico - one.unsettledPico
end
`

/** @see {@link Ledger.limits}. Counters and resets of limits that are gone, or new, end. */
export const LIMITS = `
local key, limits = ARGV[1], ARGV[2]
local former = call('HGET', book, 'l:' .. key) or ''
local stored = string.match(former, '^%d+')
if stored and tonumber(stored) > tonumber(string.match(limits, '^%d+')) then return end
local form = '^(%d+|%d|%-?%d*|%d*|%d*|)(.*)$'
local _, was = string.match(former, form)
local head, list = string.match(limits, form)
local before, after, entries = {}, {}, {}
for id, rest in string.gmatch((was or ''), '([^,;]+),([^;]*)') do before[id] = rest end
for id, rest in string.gmatch((list or ''), '([^,;]+),([^;]*)') do
  after[id] = true
  -- The mark of a limit whose spend was reset stays with it.
  if before[id] and string.match(before[id], '^%d+!') then rest = string.gsub(rest, '^%d+', '%0!', 1) end
  entries[#entries + 1] = id .. ',' .. rest
end
local function drop(id)
  local name = id .. ':' .. key
  call('HDEL', book, 'q:' .. name, 'qb:' .. name)
end
local function isKept(id) return id == 'cap.lifetime' or id == 'cap.day' or id == 'cap.month' or id == 'credit' end
local letter, whose = 'k', '^' .. string.gsub(key, '%-', '%%-') .. '[@|]'
if key == '${ACCOUNT}' then letter, whose = 'a', '' end
local team = string.match(key, '^@team:(.*)$')
if team then letter, whose = 't', '^[^|]*@' .. string.gsub(team, '%-', '%%-') .. '|' end
local gone = {}
for id, rest in pairs(before) do
  if not after[id] and (not isKept(id) or string.match(rest, '^%d+!')) then gone[#gone + 1] = id end
end
-- Running calls have nothing of a limit that is gone, also if it is set again.
if #gone > 0 then
  local running = call('HGETALL', holds)
  for i = 1, #running, 2 do
    if string.match(running[i], whose) then
      local start, counted, rest = string.match(running[i + 1], '^(%d+|%d+|%d|%d+|%d+|%d|)([^|]*)(|.*)$')
      if start then
        local kept = {}
        for entry in string.gmatch(counted, '[^,]+') do
          local own, id = string.match(entry, '^(%a):([^@]+)@')
          if own ~= letter or before[id] == nil or after[id] then kept[#kept + 1] = entry end
        end
        call('HSET', holds, running[i], start .. table.concat(kept, ',') .. rest)
      end
    end
  end
end
for _, id in ipairs(gone) do drop(id) end
for id in pairs(after) do
  if not before[id] and not isKept(id) then
    drop(id)
    call('HSET', book, 'q:' .. id .. ':' .. key, (call('HGET', book, 'seq') or '0') .. ',,0,0,0,0')
  end
end
call('HSET', book, 'l:' .. key, (head and head .. table.concat(entries, ';')) or limits)
`

/** @see {@link Ledger.counters}: the entry of each limit, its window, and what is used, held and reset. */
export const VIEW = `
local of = ARGV[1]
local minutes = minutesOf(ARGV[2], ARGV[3], ARGV[4])
local state = call('HMGET', book, 'last', 'ahead')
sweep(steady(state[1], state[2]))
${STANDING}
local names = { 'l:' .. of }
nameSpend(names, { of }, day)
load(names)
local limits = {}
addLimits(limits, '', of)
if of == '${TIER}' and call('HEXISTS', book, 'q:requests.day:${TIER}') == 1 then
  limits[1] = newLimit('', of, 'requests.day', 'requests', 'day', '0', '0')
end
loadCounters(limits)
local reply = {}
for _, one in ipairs(limits) do
  stand(one)
  local current = one.current
  if SPANS[one.window] and not one.open then current = '' end
  for _, part in ipairs({ one.id .. ',' .. one.rest, current, join(usedOf(one)), one.held, one.reset }) do
    reply[#reply + 1] = part
  end
end
return reply
`

/** Marks a limit without a counter that was reset: only then what a reset took off is read. */
const MARK = `
local function mark(of, id)
  local plain = string.gsub(id, '%.', '%%.')
  if string.find(fields['l:' .. of], '[|;]' .. plain .. ',%d+!') then return end
  set('l:' .. of, (string.gsub(fields['l:' .. of], '[|;]' .. plain .. ',%d+', '%0!', 1)))
end
`

/** @see {@link Ledger.reset} */
export const RESET = `
${MARK}
local of, id, reference = ARGV[1], ARGV[2], ARGV[3]
local known = call('HGET', resets, reference)
if known then return { 'known', known } end
local minutes = minutesOf(ARGV[4], ARGV[5], ARGV[6])
${STANDING}
local names = { 'l:' .. of }
nameSpend(names, { of }, day)
load(names)
local limits, found = {}, nil
addLimits(limits, '', of)
for _, one in ipairs(limits) do if one.id == id then found = one end end
if not found then return { 'none' } end
loadCounters({ found })
stand(found)
local window, amount = found.current, '0'
if SPANS[found.window] and not found.open then
  window = ''
else
  amount = join(usedOf(found))
end
if amount ~= '0' then
  local reset = plus(found.reset, amount, 1)
  if found.own then
    setCounter(found.name, found.since, window, found.settled, found.held, found.running, reset)
  else
    set(found.name, window .. ',' .. reset)
    mark(of, id)
  end
  save()
end
call('HSET', resets, reference, table.concat({ of, id, window, amount }, '|'))
return { 'done', window, amount }
`

/** Takes what an export has counted, where nothing later is. */
export const TAKE_COUNTER = `
${MARK}
local of, id, window, settled, reset, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local ending = id .. ':' .. of
local name = 'q:' .. ending
load({ name, 'l:' .. of, 'seq' })
if id == 'cap.lifetime' or id == 'cap.day' or id == 'cap.month' then
  if reset ~= '0' then
    set('qb:' .. ending, window .. ',' .. reset)
    if fields['l:' .. of] then mark(of, id) end
  end
else
  local since, present, stored, held, ceilings, former = readCounter(name)
  if not since and of ~= '${TIER}' then return { 'there' } end
  if seen ~= '' and present == '' then
    local begun = text(math.max(0, tonumber(fields.seq or '0') - tonumber(seen)))
    if window == '' and begun == since then return { 'there' } end
    since = begun
  end
  if window == '' and present ~= '' then return { 'there' } end
  if present == window and window ~= '' then
    local usd, pico = split(plus(stored, settled, -1))
    if covers(usd, pico) then return { 'there' } end
  elseif present and present ~= '' and tonumber(present) > tonumber(window) then
    return { 'there' }
  else
    held, ceilings, former = '0', '0', '0'
  end
  if reset == '0' then reset = former end
  setCounter(name, since or '0', window, settled, held, ceilings, reset)
end
save()
return { 'taken' }
`

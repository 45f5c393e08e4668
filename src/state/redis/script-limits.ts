/**
 * Lua for counted limits: those of a book that apply to a call, as they stand, and what running and settled calls count. The fields of
 * a counter of an owner are `q0:<id>:<owner>` (the last row before it was set), `qw` (its window), `qs` (settled), `qc` (committed:
 * settled and held), `qm` (ceilings), and `qb` (`<window>,<amount>`: what resets took off), each with the same ending.
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

local function eachCounter(owners, counted, visit)
  for letter, id, window in string.gmatch(counted or '', '(%a):([^@,]+)@([^,]+)') do
    local of = owners[1]
    if letter == 't' then of = owners[2] elseif letter == 'a' then of = '${ACCOUNT}' elseif letter == 'f' then of = '${TIER}' end
    visit(id .. ':' .. of, window, string.match(id, '^%a+'))
  end
end

local function nameCounters(names, owners, counted)
  eachCounter(owners, counted, function(name)
    for _, field in ipairs({ 'q0:', 'qw:', 'qs:', 'qc:', 'qm:' }) do names[#names + 1] = field .. name end
  end)
end

-- Of the amounts of a call, the one that a limit counts.
local function amountFor(head, usd, tokens, others)
  if head == 'cap' then return split(usd) elseif head == 'tokens' then return split(tokens) end
  return split(others)
end

local function giveBack(owners, released)
  eachCounter(owners, released.counted, function(name, window, head)
    if fields['qw:' .. name] ~= window then return end
    local usd, pico = amountFor(head, released.amount, released.tokens, '1')
    add('qc:' .. name, -usd, -pico)
    usd, pico = amountFor(head, released.ceiling, released.tokenCeiling, '1')
    add('qm:' .. name, -usd, -pico)
  end)
end

local function countIn(owners, cost, counts)
  eachCounter(owners, counts.counted, function(name, window, head)
    if not fields['q0:' .. name] and not string.find(name, ':${TIER}', 1, true) then return end
    local usd, pico = amountFor(head, cost, counts.tokens, head == 'concurrency' and '0' or counts.requests)
    local present = fields['qw:' .. name]
    if present ~= window then
      if present and (window == '-' or tonumber(window) <= tonumber(present)) then return end
      set('qw:' .. name, window)
      for _, field in ipairs({ 'qs:', 'qc:', 'qm:' }) do set(field .. name, '0') end
    end
    add('qs:' .. name, usd, pico)
    add('qc:' .. name, usd, pico)
  end)
end
`

/** Limits as they stand. The script that uses it defines `minutes`, the offset of its zone. */
export const STANDING = `
local SPANS = { minute = 60000, ['5h'] = 18000000 }
local KEPT = { ['cap.lifetime'] = true, ['cap.day'] = true, ['cap.month'] = true }
local days = math.floor((now + minutes * 60000) / 86400000)
local day = dayOf(days * 86400000)
local monday = days - (days + 3) % 7

local function newLimit(owner, of, id, value)
  local head, second = string.match(id, '^(%a+)%.?(%w*)')
  local unit = head == 'cap' and 'usd' or head == 'tokens' and 'tokens' or head == 'concurrency' and 'concurrent' or 'requests'
  local window = head == 'rpm' and 'minute' or second
  if unit == 'concurrent' then window = 'lifetime' end
  return { owner = owner, of = of, id = id, value = value, unit = unit, window = window, name = id .. ':' .. of,
    own = not KEPT[id], models = '', raisedUntil = '' }
end

-- Adds the limits of an owner that apply to a model, or all.
local function addLimits(limits, owner, of, model)
  local list = string.match(fields['l:' .. of] or '', '^%d+|%d|%-?%d*|%d*|%d*|(.+)$')
  for entry in string.gmatch(list or '', '[^;]+') do
    local parts = {}
    for part in string.gmatch(entry .. ',', '([^,]*),') do parts[#parts + 1] = part end
    local applies = not model or #parts < 5
    for i = 5, #parts do
      local pattern = parts[i]
      if not applies then
        applies = pattern == model or (string.sub(pattern, -2) == '/*' and
          string.sub(model, 1, #pattern - 1) == string.sub(pattern, 1, -2))
      end
    end
    if applies then
      local value, mark = string.match(parts[2], '^(%d+)(!?)$')
      local one = newLimit(owner, of, parts[1], value)
      one.marked, one.entry = mark == '!', entry
      if (parts[3] or '') ~= '' and now < tonumber(parts[4]) then one.value, one.raisedUntil = parts[3], parts[4] end
      one.models = table.concat(parts, ',', math.min(5, #parts + 1))
      limits[#limits + 1] = one
    end
  end
end

-- Reads what is counted, with one command and only where there is more than the sums that every owner has.
local function loadCounters(limits)
  local names = {}
  for _, one in ipairs(limits) do
    if one.own then
      for _, field in ipairs({ 'qw:', 'qs:', 'qc:', 'qm:' }) do names[#names + 1] = field .. one.name end
    end
    if one.own or one.marked then names[#names + 1] = 'qb:' .. one.name end
  end
  if #names > 0 then load(names) end
end

local function nextMonth()
  local first = days - tonumber(string.sub(day, 7)) + 32
  return first - tonumber(string.sub(dayOf(first * 86400000), 7)) + 1
end

-- The window of a limit, when it ends, and what is counted in it.
local function stand(one)
  local span, present = SPANS[one.window], one.own and fields['qw:' .. one.name] or nil
  one.ends = math.huge
  if span then
    one.current = present and now < tonumber(present) + span and present or text(now)
    one.ends = tonumber(one.current) + span
  elseif one.window == 'lifetime' then
    one.current = '-'
  else
    local name, last = day, days + 1
    if one.window == 'week' then name, last = dayOf(monday * 86400000), monday + 7 end
    if one.window == 'month' then name, last = string.sub(day, 1, 6), nextMonth() end
    if present and tonumber(present) > tonumber(name) then name = present end
    one.current, one.ends = name, last * 86400000 - minutes * 60000
  end
  local settled, committed
  if one.own then
    one.open = present == one.current
    settled = one.open and fields['qs:' .. one.name] or '0'
    committed = one.open and fields['qc:' .. one.name] or '0'
    one.running = one.open and fields['qm:' .. one.name] or '0'
  else
    local window = one.current == '-' and 'L' or one.current
    one.open = true
    settled, committed = fields['s:' .. window .. ':' .. one.of], fields['c:' .. window .. ':' .. one.of]
    one.running = fields[one.of == '${ACCOUNT}' and 'ceil' or 'm:' .. one.of]
  end
  local window, amount = string.match(fields['qb:' .. one.name] or '', '^([^,]*),(%d+)$')
  one.reset = window == one.current and amount or '0'
  local resetUsd, resetPico = split(one.reset)
  local usd, pico = split(settled)
  one.usedUsd, one.usedPico = usd - resetUsd, pico - resetPico
  local allUsd, allPico = split(committed)
  one.heldUsd, one.heldPico = allUsd - usd, allPico - pico
  local valueUsd, valuePico = split(one.value)
  one.unsettledUsd, one.unsettledPico = valueUsd - one.usedUsd, valuePico - one.usedPico
  one.leftUsd, one.leftPico = one.unsettledUsd - one.heldUsd, one.unsettledPico - one.heldPico
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
  call('HDEL', book, 'q0:' .. name, 'qw:' .. name, 'qs:' .. name, 'qc:' .. name, 'qm:' .. name, 'qb:' .. name)
end
local function isKept(id) return id == 'cap.lifetime' or id == 'cap.day' or id == 'cap.month' end
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
    call('HSET', book, 'q0:' .. id .. ':' .. key, call('HGET', book, 'seq') or '0')
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
if of == '${TIER}' and call('HEXISTS', book, 'qw:requests.day:${TIER}') == 1 then
  limits[1] = newLimit('', of, 'requests.day', '0')
  limits[1].entry = 'requests.day,0'
end
loadCounters(limits)
local reply = {}
for _, one in ipairs(limits) do
  stand(one)
  local current = one.current
  if SPANS[one.window] and not one.open then current = '' end
  for _, part in ipairs({ one.entry, current, join(one.usedUsd, one.usedPico), join(one.heldUsd, one.heldPico), one.reset }) do
    reply[#reply + 1] = part
  end
end
return reply
`

/** @see {@link Ledger.reset} */
export const RESET = `
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
  amount = join(found.usedUsd, found.usedPico)
  local usd, pico = split(found.reset)
  set('qb:' .. found.name, window .. ',' .. join(usd + found.usedUsd, pico + found.usedPico))
  if not found.own and not found.marked then
    local head, list = string.match(fields['l:' .. of], '^(%d+|%d|%-?%d*|%d*|%d*|)(.*)$')
    local entries = {}
    for entry in string.gmatch(list, '[^;]+') do
      if entry == found.entry then entry = string.gsub(entry, '^([^,]+,%d+)', '%1!', 1) end
      entries[#entries + 1] = entry
    end
    set('l:' .. of, head .. table.concat(entries, ';'))
  end
  save()
end
call('HSET', resets, reference, table.concat({ of, id, window, amount }, '|'))
return { 'done', window, amount }
`

/** Takes what an export has counted, where nothing later is. */
export const TAKE_COUNTER = `
local of, id, window, settled, reset = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local name = id .. ':' .. of
load({ 'q0:' .. name, 'qw:' .. name, 'qs:' .. name, 'qc:' .. name, 'l:' .. of })
local kept = id == 'cap.lifetime' or id == 'cap.day' or id == 'cap.month'
if not kept then
  if not fields['q0:' .. name] and of ~= '${TIER}' then return { 'there' } end
  local present = fields['qw:' .. name]
  if present and present ~= window and tonumber(present) > tonumber(window) then return { 'there' } end
  local usd, pico = split(settled)
  local oldUsd, oldPico = split(present == window and fields['qs:' .. name] or '0')
  if present == window and covers(oldUsd - usd, oldPico - pico) then return { 'there' } end
  if present ~= window then
    set('qw:' .. name, window)
    for _, field in ipairs({ 'qs:', 'qc:', 'qm:' }) do set(field .. name, '0') end
  end
  add('qs:' .. name, usd - oldUsd, pico - oldPico)
  add('qc:' .. name, usd - oldUsd, pico - oldPico)
end
if reset ~= '0' then
  set('qb:' .. name, window .. ',' .. reset)
  local limits = fields['l:' .. of]
  if kept and limits then
    local plain = string.gsub(id, '%.', '%%.')
    set('l:' .. of, (string.gsub(limits, '([|;]' .. plain .. ',%d+)([^!%d]?)', '%1!%2', 1)))
  end
end
save()
return { 'taken' }
`

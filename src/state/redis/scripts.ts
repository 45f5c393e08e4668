/**
 * The Lua scripts of the Redis engine. Each script is one atomic step.
 *
 * A script reads what it needs of a book with one HMGET and writes it with one HSET; `script-sums.ts` computes with amounts. Every
 * key is declared, so that a cluster can route the script. Numbers are written with `%.0f`, so that Lua 5.1 and 5.4 write the same.
 *
 * Keys of account A, all beginning with `gw:{A}:` and so in one slot: `book` (hash, below), `ls` (sorted set: leases by
 * expiry, `<key>[@<team>]|<request>`), `h` (hash: their holds, `<amount>|<day>|<billed>|<at>|<ceiling>|<tight>`, and where
 * counters have something of them `|<counters>|<tokens>|<ceiling of tokens>`), `rl:<key>`, `rl:@team:<id>` and `rl:@account` (lists: entries of the last minute), `r:<request>` (string: receipt), `t` (hash:
 * top-ups by reference), `a` (hash: adjustments by reference), `b` (hash: other bookings by `<kind>:<reference>`), `z` (hash: resets by reference), `u` (stream: rows), `f` (hash: totals of rows that were folded).
 *
 * Hash `book`, with `<key>` the id of an API key and `<window>` one of `L`, a day `YYYYMMDD`, a month `YYYYMM`:
 * `bal`, `avail` (balance less holds), `ceil` (ceilings of running calls), `in` (top-ups), `blocks` (promotional and expiring credit, JSON), `tier` (`1` once paid), `seq` (of the last row), `last` and `ahead` (steady time of
 * the last change, and how far it is ahead of the clock),
 * `l:<key>` (limits, `limits-text.ts`), `n:<key>` (calls in flight), `m:<key>` (their ceilings), `w:<key>` (windows kept), `s:<window>:<key>` (settled), and
 * `c:<window>:<key>` (committed: settled and held). `l`, `w`, `s` and `c` of the key `@account` are those of the account, over all
 * its keys; those of the key `@team:<id>` are of a team, as are its `n` and `m`. Counters of limits: `script-limits.ts`.
 */
import { RECEIPT_HOURS } from '../ledger/items.ts'
import { ACCOUNT, LEASE_MS } from '../ledger/ledger.ts'
import { LIFT } from './limits-text.ts'
import { HOLD, RAISE } from './script-hold.ts'
import { COUNTERS, LIMITS, RESET, TAKE_COUNTER, VIEW, ZONE } from './script-limits.ts'
import { HELD, KEPT_WINDOWS, POSTING, RELEASE, SPEND, SUMS } from './script-sums.ts'

interface Script {
  readonly lua: string
  readonly numberOfKeys: number
}

export type ScriptName = keyof ReturnType<typeof scriptsWith>

/** Lifetime of a receipt. A settlement that is sent again later than half of it is looked up among the rows first. */
export const RECEIPT_MS = RECEIPT_HOURS * 3_600_000

/** All scripts. @param clock Lua that defines `now`, ms since epoch: {@link STORE_CLOCK}, or the clock of a test */
export function scriptsWith(clock: string) {
  // What releases expired leases.
  const sweeping = BASE + SUMS + STEADY + SPEND + COUNTERS + HELD + RELEASE + POSTING + ROW + SWEEP
  return {
    enter: script(
      ['book', 'leases', 'holds', 'rows', 'log', 'shared', 'teamLog'],
      clock,
      sweeping + RATE + ENTER,
    ),
    hold: script(
      ['book', 'leases', 'holds'],
      clock,
      BASE + SUMS + STEADY + CALENDAR + ZONE + SPEND + COUNTERS + HELD + HOLD,
    ),
    raise: script(['book', 'holds'], BASE + SUMS + SPEND + COUNTERS + RAISE),
    settle: script(
      ['book', 'leases', 'holds', 'rows', 'receipt'],
      BASE + SUMS + SPEND + COUNTERS + HELD + RELEASE + POSTING + ROW + SETTLE,
    ),
    leave: script(
      ['book', 'leases', 'holds', 'log', 'shared', 'teamLog'],
      clock,
      BASE + SUMS + STEADY + SPEND + COUNTERS + HELD + UNCOUNT + RELEASE + POSTING + LEAVE,
    ),
    renew: script(['book', 'leases'], clock, BASE + STEADY + RENEW),
    book: script(['book', 'rows', 'references'], clock, BASE + SUMS + ROW + BOOKING + BOOK),
    limits: script(['book', 'holds'], BASE + LIMITS),
    reset: script(
      ['book', 'resets'],
      clock,
      BASE + SUMS + CALENDAR + ZONE + SPEND + COUNTERS + RESET,
    ),
    look: script(['book', 'leases', 'holds', 'rows'], clock, sweeping + CALENDAR + ZONE + LOOK),
    view: script(['book', 'leases', 'holds', 'rows'], clock, sweeping + CALENDAR + ZONE + VIEW),
    rates: script(['book', 'log', 'shared'], clock, BASE + STEADY + RATE + RATES),
    takeRow: script(
      ['book', 'rows', 'receipt', 'references'],
      BASE + SUMS + SPEND + COUNTERS + POSTING + ROW + BOOKING + TAKE_ROW,
    ),
    takeTotal: script(['book', 'totals'], BASE + SUMS + SPEND + COUNTERS + POSTING + TAKE_TOTAL),
    takeCounter: script(['book'], BASE + SUMS + COUNTERS + TAKE_COUNTER),
    fold: script(['rows', 'totals'], BASE + SUMS + FOLD),
    lift: script(['book', 'references'], BASE + SUMS + LIFT_BOOK),
    beat: script(['ledger'], clock, BASE + BEAT),
    accept: script(['ledger'], BASE + ACCEPT),
    index: script(['index'], clock, BASE + INDEX),
    replace: script(['record'], REPLACE),
    touchRecord: script(['index'], clock, BASE + TOUCH),
    lock: script(['lock'], LOCK),
    unlock: script(['lock'], UNLOCK),
  }
}

/** @param keys names of the variables that hold the script's keys */
function script(keys: readonly string[], ...parts: string[]): Script {
  const names = keys.map((key, i) => `local ${key} = KEYS[${i + 1}]`)
  return { lua: [...names, ...parts].join('\n'), numberOfKeys: keys.length }
}

const ENTER = `
local key, request, revision = ARGV[1], ARGV[2], tonumber(ARGV[3])
local tierRpm, tierCalls = tonumber(ARGV[4]), tonumber(ARGV[5])
local accountRevision, team, teamRevision = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])

local function read()
  if not team then return call('HMGET', book, 'l:' .. key, 'n:' .. key, 'tier', 'last', 'ahead', 'l:${ACCOUNT}') end
  return call('HMGET', book, 'l:' .. key, 'n:' .. key, 'tier', 'last', 'ahead', 'l:${ACCOUNT}', 'l:@team:' .. team, 'n:@team:' .. team)
end

local state = read()
local time = steady(state[4], state[5])
if sweep(time) then state = read() end

local rev, disabled, expires, rpm, most =
  string.match(state[1] or '', '^(%d+)|(%d)|(%-?%d*)|(%d+)|(%d+)|')
local sharedRev, off, sharedRpm, sharedCalls =
  string.match(state[6] or '', '^(%d+)|(%d)|%-?%d*|(%d*)|(%d*)|')
local teamRev, teamOff, teamRpm, teamCalls =
  string.match(state[7] or '', '^(%d+)|(%d)|%-?%d*|(%d*)|(%d*)|')
-- Limits of a lower schema are stale too: the caller stores them anew.
if not rev or revision < tonumber(rev) or tonumber(rev) < ${LIFT} then return { 'stale' } end
if sharedRev and (accountRevision < tonumber(sharedRev) or tonumber(sharedRev) < ${LIFT}) then return { 'stale' } end
if teamRev and (teamRevision < tonumber(teamRev) or tonumber(teamRev) < ${LIFT}) then return { 'stale' } end
if disabled == '1' then return { 'disabled', 'key' } end
if expires ~= '' and now >= tonumber(expires) then return { 'expired', 'key' } end
if teamOff == '1' then return { 'disabled', 'team' } end
if off == '1' then return { 'disabled', 'account' } end

local running = tonumber(state[2] or '0')
local paid = state[3] == '1'
local logs = { { log = log, rate = rateOf(log, tonumber(rpm), time), of = 'key' } }
teamRpm, teamCalls = tonumber(teamRpm or ''), tonumber(teamCalls or '')
if teamRpm then logs[2] = { log = teamLog, rate = rateOf(teamLog, teamRpm, time), of = 'team' } end

-- The limits over all keys: those of the account, or those of the free tier where they are lower.
sharedRpm, sharedCalls = tonumber(sharedRpm or ''), tonumber(sharedCalls or '')
local sharedOf, callsOf = 'account', 'account'
if not paid then
  if not sharedRpm or tierRpm < sharedRpm then sharedRpm, sharedOf = tierRpm, 'tier' end
  if not sharedCalls or tierCalls < sharedCalls then sharedCalls, callsOf = tierCalls, 'tier' end
end
if sharedRpm then logs[#logs + 1] = { log = shared, rate = rateOf(shared, sharedRpm, time), of = sharedOf } end
local wait, longest = 0, nil
for _, one in ipairs(logs) do
  if one.rate.wait > wait then wait, longest = one.rate.wait, one end
end

-- The log with the fewest requests remaining; with equally many, the one with the lowest limit.
local function nearest()
  local rate, left
  for _, one in ipairs(logs) do
    local itsLeft = math.max(0, one.rate.limit - one.rate.count)
    if not rate or itsLeft < left or (itsLeft == left and one.rate.limit < rate.limit) then
      rate, left = one.rate, itsLeft
    end
  end
  return rate.limit, left, rate.reset
end

local function admitted(at, lease)
  local limit, left, reset = nearest()
  return { 'ok', at, lease, paid and 1 or 0, limit, left, reset }
end

local why, retry, of, value
local ofTeam = tonumber(state[8] or '0')
if longest then
  why, retry, of, value = 'rpm', wait, longest.of, longest.rate.limit
elseif running >= tonumber(most) then
  why, retry, of, value = 'concurrency', 1000, 'key', most
elseif teamCalls and ofTeam >= teamCalls then
  why, retry, of, value = 'concurrency', 1000, 'team', teamCalls
elseif sharedCalls and call('ZCARD', leases) >= sharedCalls then
  why, retry, of, value = 'concurrency', 1000, callsOf, sharedCalls
end

local member = (team and key .. '@' .. team or key) .. '|' .. request
if why or call('ZADD', leases, 'NX', text(time + ${LEASE_MS}), member) == 0 then
  local known = call('ZSCORE', leases, member)
  if known then
    local lease = tonumber(known) - (time - now)
    return admitted(lease - ${LEASE_MS}, lease)
  end
  local limit, left, reset = nearest()
  return { why, of, value, retry, limit, left, reset }
end

for _, one in ipairs(logs) do push(one.log, one.rate, time) end
if team then
  call('HSET', book, 'last', text(time), 'n:' .. key, text(running + 1), 'n:@team:' .. team, text(ofTeam + 1))
else
  call('HSET', book, 'last', text(time), 'n:' .. key, text(running + 1))
end
return admitted(now, now + ${LEASE_MS})
`

const SETTLE = `
local member, request, day, cost, at, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local booked = call('GET', receipt)
-- One that is sent again names its row, because its receipt may have expired. Only folding removes rows.
if not booked and ARGV[10] and (tonumber(call('HGET', book, 'seq')) or 0) >= tonumber(ARGV[10]) then
  local row = call('XRANGE', rows, ARGV[10], ARGV[10])[1]
  if not row or row[2][4] == request then booked = cost end
end
if booked then return { 'duplicate', booked, call('HGET', book, 'bal') or '0' } end

local released = release(member)
day = released and released.day or day
local owners, counts = ownersOf(member), nil
if ARGV[7] and ARGV[7] ~= '' then counts = { counted = ARGV[7], tokens = ARGV[8], requests = ARGV[9] } end
post(owners, released, day, cost, counts)
call('SET', receipt, cost, 'PX', '${RECEIPT_MS}')
local seq = write('usage', request, owners[1], cost, day, at, body)
save()
return { 'charged', cost, fields.bal or '0', seq, day }
`

const LEAVE = `
local member, slot = ARGV[1], tonumber(ARGV[2])
-- A call that has left is not counted any more.
if slot and call('ZSCORE', leases, member) then
  local state = call('HMGET', book, 'last', 'ahead')
  local time = slot + steady(state[1], state[2]) - now
  uncount(log, time)
  uncount(shared, time)
  if string.find(member, '@', 1, true) then uncount(teamLog, time) end
end
local released = release(member)
if released then
  post(ownersOf(member), released, released.day, '0')
  save()
end
`

const RENEW = `
local state = call('HMGET', book, 'last', 'ahead')
local time = steady(state[1], state[2])
local renewed = 0
for _, member in ipairs(ARGV) do
  renewed = renewed + call('ZADD', leases, 'XX', 'CH', text(time + ${LEASE_MS}), member)
end
if renewed > 0 then call('HSET', book, 'last', text(time)) end
`

const BOOK = `
local kind, reference, cost, body, actor = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local name = referenceOf(kind, reference)
local booked = call('HGET', references, name)
if booked then return { 'duplicate', kind == 'top-up' and negated(booked) or booked, call('HGET', book, 'bal') or '0' } end
load({ 'seq', 'bal', 'avail', 'in', 'blocks', 's:L:${ACCOUNT}' })
-- New blocks were laid out for what they were, and for the spend.
if ARGV[8] then
  local blocks, spent = fields.blocks or '', fields['s:L:${ACCOUNT}'] or ''
  if blocks ~= ARGV[9] or spent ~= ARGV[10] then return { 'moved', blocks, spent } end
end
bookAmount(kind, cost, ARGV[6], ARGV[7], ARGV[8])
call('HSET', references, name, kind == 'top-up' and negated(cost) or cost)
write(kind, reference, '', cost, '', text(now), body, actor)
save()
return { 'charged', cost, fields.bal }
`

const LOOK = `
local key = ARGV[1]
local state = call('HMGET', book, 'last', 'ahead')
sweep(steady(state[1], state[2]))
local day = dayOf(now + minutesOf(ARGV[2], ARGV[3], ARGV[4]) * 60000)
local sums = call('HMGET', book, 'bal', 'avail', 'tier', 's:L:' .. key, 's:' .. day .. ':' .. key,
  's:' .. string.sub(day, 1, 6) .. ':' .. key, 'n:' .. key)
if key == '${ACCOUNT}' then sums[7] = call('ZCARD', leases) end
sums[8] = now
return sums
`

const RATES = `
local state = call('HMGET', book, 'last', 'ahead')
local time = steady(state[1], state[2])
local own, all = rateOf(log, math.huge, time), rateOf(shared, math.huge, time)
return { own.count, own.reset, all.count, all.reset }
`

const TAKE_ROW = `
local kind, request, key, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local day, at, body, actor = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local owners = ownersOf(key)
key = owners[1]
if kind == 'usage' then
  if call('EXISTS', receipt) == 1 then return { 'there' } end
  post(owners, nil, day, cost)
  call('SET', receipt, cost, 'PX', '${RECEIPT_MS}')
else
  load({ 'seq', 'bal', 'avail', 'in' })
end
if ARGV[9] then
  local name = referenceOf(kind, request)
  if call('HEXISTS', references, name) == 1 then return { 'there' } end
  bookAmount(kind, cost, ARGV[9], ARGV[10], ARGV[11])
  call('HSET', references, name, kind == 'top-up' and negated(cost) or cost)
end
local seq = write(kind, request, key, cost, day, at, body, actor)
save()
return { 'taken', seq }
`

/** A total takes as many sequences as it has rows, so that `seq` always equals the number of stored and folded rows. */
const TAKE_TOTAL = `
local key, day, rows, cost, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local name = day .. '|' .. string.gsub(key, '@', '|')
if call('HEXISTS', totals, 'n|' .. name) == 1 then return { 'there' } end
post(ownersOf(key), nil, day, cost)
count('seq', tonumber(rows))
save()
call('HINCRBY', totals, 'rows', rows)
if tonumber(call('HGET', totals, 'at') or '0') < tonumber(at) then call('HSET', totals, 'at', at) end
call('HSET', totals, 'n|' .. name, rows, 'c|' .. name, cost)
return { 'taken' }
`

/** Moves a book of schema 8 to this one. */
const LIFT_BOOK = `
local all = call('HGETALL', book)
local sums, days, months, seen, hasShared = {}, {}, {}, {}, false
for i = 1, #all, 2 do
  local field, value = all[i], all[i + 1]
  if field == 'w:${ACCOUNT}' then hasShared = true end
  local rev, members, scope, amount = string.match(value, '^(%d+)(|%d?|%-?%d*|%d*|%d*|)(%a*)|?(%d*)$')
  if rev and string.sub(field, 1, 2) == 'l:' and tonumber(rev) < ${LIFT} then
    local list = scope ~= '' and 'cap.' .. scope .. ',' .. amount or ''
    set(field, text(tonumber(rev) + ${LIFT}) .. members .. list)
  end
  local window = string.match(field, '^[sc]:(%d+):')
  if window and not seen[window] then
    seen[window] = true
    local same = #window == 8 and days or months
    same[#same + 1] = window
  end
  fields[field] = value
end
if not fields['l:${ACCOUNT}'] then set('l:${ACCOUNT}', '${LIFT}|0||||') end

-- The spend of the account, which books of early releases do not have: in the newest windows, of which no key has dropped any.
if not hasShared then
  local kept, marks = { L = true }, '|'
  for _, same in ipairs({ days, months }) do
    table.sort(same)
    for i = math.max(1, #same - ${KEPT_WINDOWS - 1}), #same do
      kept[same[i]] = true
      marks = marks .. same[i] .. '|'
    end
  end
  for i = 1, #all, 2 do
    local kind, window, key = string.match(all[i], '^([sc]):(%w+):(.*)$')
    if kind and kept[window] and key ~= '${ACCOUNT}' then
      add(kind .. ':' .. window .. ':${ACCOUNT}', split(all[i + 1]))
    end
  end
  if marks ~= '|' then set('w:${ACCOUNT}', marks) end
end

-- What was paid in: a sum that stopped at four million USD, or is missing.
local amounts = call('HVALS', references)
set('in', '0')
for _, amount in ipairs(amounts) do add('in', split(amount)) end
save()
`

/** Adds to an index in order, also within a millisecond. */
const INDEX = `
local newest = tonumber(call('ZRANGE', index, '-1', '-1', 'WITHSCORES')[2] or '0')
local at = math.max(now, newest + 1)
for i, id in ipairs(ARGV) do call('ZADD', index, 'NX', text(at + i), id) end
`

/** Moves a member to the end of an index, whether it is there or not. */
const TOUCH = `
local newest = tonumber(call('ZRANGE', index, '-1', '-1', 'WITHSCORES')[2] or '0')
call('ZADD', index, text(math.max(now, newest + 1)), ARGV[1])
`

/** Replaces a record of a revision; records of earlier releases may have none. A third argument is its time to live in seconds. */
const REPLACE = `
local stored = redis.call('GET', record)
if not stored or (cjson.decode(stored).revision or 0) ~= tonumber(ARGV[2]) then return { '0' } end
if ARGV[3] then redis.call('SET', record, ARGV[1], 'EX', ARGV[3]) else redis.call('SET', record, ARGV[1]) end
return { '1' }
`

/** Takes a lock that is free or this caller's. A repetition after a lost answer takes it too. */
const LOCK = `
local holder = redis.call('GET', lock)
if holder and holder ~= ARGV[1] then return { '0' } end
redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
return { '1' }
`

const UNLOCK = `
if redis.call('GET', lock) == ARGV[1] then redis.call('DEL', lock) end
return { '1' }
`

/** Moves the base of an account. Each row that goes is given as id, day, key and cost; that of an orphan has no day. */
const FOLD = `
local folded = 0
if (call('HGET', totals, 'base') or '0') ~= ARGV[2] then return { 0 } end
call('HSET', totals, 'base', ARGV[3], 'folded', ARGV[4], 'chain', ARGV[5])
for i = 6, #ARGV, 4 do
  folded = folded + call('XDEL', rows, ARGV[i])
  if ARGV[i + 1] ~= '' then
    local name = ARGV[i + 1] .. '|' .. ARGV[i + 2]
    call('HINCRBY', totals, 'n|' .. name, '1')
    local usd, pico = split(call('HGET', totals, 'c|' .. name))
    local moreUsd, morePico = split(ARGV[i + 3])
    call('HSET', totals, 'c|' .. name, join(usd + moreUsd, pico + morePico))
  end
end
if folded > 0 then
  call('HINCRBY', totals, 'rows', text(folded))
  if tonumber(call('HGET', totals, 'at') or '0') < tonumber(ARGV[1]) then call('HSET', totals, 'at', ARGV[1]) end
end
return { folded }
`

// Parts of Lua that the scripts share. A part uses functions of the parts before it.

/** Most expired leases that one script releases, within well below a millisecond. */
const MAX_SWEPT = 64
const BASE = `
local call = redis.call

local function text(number)
  return string.format('%.0f', number)
end
`

/** Time that never goes back: when the clock does, or a failover leads to a slower one, it goes on from its last value. */
const STEADY = `
local function steady(last, ahead)
  local time = now + (tonumber(ahead) or 0)
  local lag = (tonumber(last) or 0) - time
  if lag <= 0 then return time end
  call('HINCRBY', book, 'ahead', text(lag))
  return time + lag
end
`

/** UTC day of a moment, `YYYYMMDD`. Counts days from 1 March 2000, which puts leap days at the end of each cycle. */
const CALENDAR = `
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

/** Appends a row. The caller has read `seq`, and saves it. */
const ROW = `
local function write(kind, request, key, cost, day, at, body, actor)
  count('seq', 1)
  local row = { 'kind', kind, 'request', request, 'key', key, 'cost', cost, 'day', day, 'at', at, 'body', body }
  if actor and actor ~= '' then
    row[15], row[16] = 'actor', actor
  end
  call('XADD', rows, fields.seq .. '-0', unpack(row))
  return fields.seq
end
`

/** Releases expired leases; a call that held money leaves an orphan row. */
const SWEEP = `
local function sweep(time)
  local expired = call('ZRANGEBYSCORE', leases, '-inf', text(time), 'LIMIT', '0', '${MAX_SWEPT}')
  for _, member in ipairs(expired) do
    local request = string.match(member, '|(.*)$')
    local owners = ownersOf(member)
    local released = release(member)
    post(owners, released, released.day, '0')
    if released.day then write('orphan', request, owners[1], '0', '', released.at, '') end
    save()
  end
  return #expired > 0
end
`

/** Moves the balance by a booking. */
const BOOKING = `
local function negated(amount)
  if amount == '0' then return amount end
  return string.sub(amount, 1, 1) == '-' and string.sub(amount, 2) or '-' .. amount
end

local function referenceOf(kind, reference)
  if kind == 'top-up' or kind == 'adjust' then return reference end
  return kind .. ':' .. reference
end

-- @param paidIn '1' where it was paid. @param unlocks '1' where it ends the free tier. @param blocks the blocks after it, where it changes them
local function bookAmount(kind, cost, paidIn, unlocks, blocks)
  local usd, pico = split(negated(cost))
  add('bal', usd, pico)
  add('avail', usd, pico)
  if paidIn == '1' then add('in', usd, pico) end
  if unlocks == '1' then set('tier', '1') end
  if (blocks or '') ~= '' then set('blocks', blocks) end
end
`

// Parts of Lua that count the admissions of the last minute.

/** Admissions per minute up to which a log is exact; above, a list of times would cost too much memory. */
const EXACT_ENTRIES = 6000

/**
 * A log is a list, newest first, of steady times. For limits up to EXACT_ENTRIES it holds the time of every entry. Above,
 * it holds one element per second with entries, `<second>:<entries up to its end>`, so that a count is a difference. Sixty
 * whole seconds and the current one count; one element before them is kept to subtract.
 */
const RATE = `
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
const UNCOUNT = `
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

// Lua of the scripts `beat` and `accept`, in `scripts.ts`: whether this is the ledger that a gateway knows.

/**
 * Takes the first case that holds; see `beat.ts`. The hash has `id`, `schema`, `epoch`, `doubt` where there is one, `m:<memory>` with
 * the time of its last beat, and `was:<id>` for each ledger in whose place this one was accepted.
 */
const BEAT = `
local memory, knownId, knownAt, knownEpoch = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lost, lacks = tonumber(ARGV[5]), ARGV[6] == '1'
local state = call('HMGET', ledger, 'id', 'schema', 'epoch', 'doubt', 'm:' .. memory, 'was:' .. knownId)
local id, epoch, doubt, seen, was = state[1], tonumber(state[3] or '0'), state[4], state[5], state[6]

local function answer(what, at)
  return { what, id or '', state[2] or '8', text(epoch), seen or '0', text(at or now), doubt or '' }
end

local function doubted(kind)
  doubt = table.concat({ kind, knownId, knownAt, id or '', seen or '' }, '|')
  call('HSET', ledger, 'doubt', doubt)
  return answer('doubted')
end

if doubt then return answer('doubted') end
if not id then return knownId == '' and answer('new') or doubted('emptied') end
if knownId ~= '' and id ~= knownId and not was then return answer('foreign') end
local isKnown = knownId == id and epoch <= knownEpoch
if isKnown and (lacks or not seen or tonumber(seen) < tonumber(knownAt) - lost) then return doubted('older') end
-- A clock that was set back does not make the ledger older.
local at = math.max(now, tonumber(seen or '0'))
call('HSET', ledger, 'm:' .. memory, text(at))
return answer('agreed', at)
`

/** Ends a doubt. The other gateways see the new epoch, or that their ledger was this one. */
const ACCEPT = `
local kind, knownId, newId = ARGV[1], ARGV[2], ARGV[3]
local doubt = call('HGET', ledger, 'doubt')
if kind ~= 'foreign' and not doubt then return { 'none' } end
call('HDEL', ledger, 'doubt')
call('HINCRBY', ledger, 'epoch', '1')
call('HSETNX', ledger, 'id', newId)
if call('HGET', ledger, 'id') ~= knownId then call('HSET', ledger, 'was:' .. knownId, '1') end
return { 'accepted' }
`

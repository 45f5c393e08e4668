/**
 * The Lua scripts of the Redis engine. Each script is one atomic step.
 *
 * Scripts do no arithmetic on amounts, because Lua's numbers are exact to 2^53 only: HINCRBY adds them, a sign negates them,
 * and they are compared by length and then as text. Every key is declared, so that a cluster can route the script. Numbers
 * are written with `%.0f`, so that Lua 5.1 and 5.4 write the same.
 *
 * Keys of account A, all beginning with `gw:{A}:` and so in one slot: `book` (hash, below), `ls` (sorted set: leases by
 * expiry, `<key>|<request>`), `h` (hash: their holds, `<amount>|<day>|<billed>|<at>|<ceiling>|<tight>`, or `-` for a call
 * that was refused with `held`), `rl:<key>` and `rl:@account` (lists: entries of the last minute), `r:<request>` (string: receipt), `t` (hash:
 * top-ups by reference), `a` (hash: adjustments by reference), `u` (stream: rows), `f` (hash: totals of rows that were folded).
 *
 * Hash `book`, with `<key>` the id of an API key and `<window>` one of `L`, a day `YYYYMMDD`, a month `YYYYMM`:
 * `bal`, `avail` (balance less holds), `ceil` (ceilings of running calls), `in` (top-ups), `tier` (`1` once paid), `seq` (of the last row), `last` and `ahead` (steady time of
 * the last change, and how far it is ahead of the clock), `fday` and `fcount` (entries of an unpaid account on a day),
 * `l:<key>` (limits), `n:<key>` (calls in flight), `m:<key>` (their ceilings), `w:<key>` (windows kept), `s:<window>:<key>` (settled), and
 * `c:<window>:<key>` (committed: settled and held). `l`, `w`, `s` and `c` of the key `@account` are those of the account, over all
 * its keys.
 */
import { RECEIPT_HOURS } from '../ledger/items.ts'
import { ACCOUNT, LEASE_MS } from '../ledger/ledger.ts'
import {
  ADJUST,
  BASE,
  CALENDAR,
  CHARGE,
  CREDIT,
  PAID_IN,
  RELEASE,
  ROW,
  STEADY,
  SPEND,
  SWEEP,
  WINDOWS,
} from './script-parts.ts'
import { COVERS, HOLD, RAISE } from './script-hold.ts'
import { RATE, UNCOUNT } from './script-rate.ts'

/** As ioredis defines a command. */
interface Script {
  readonly lua: string
  readonly numberOfKeys: number
}

/** Names of the scripts. */
export type ScriptName = keyof ReturnType<typeof scriptsWith>

/** Reads the clock of the server into `now`, ms since epoch. */
export const STORE_CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)`

/** Lifetime of a receipt. A settlement that is sent again later than half of it is looked up among the rows first. */
export const RECEIPT_MS = RECEIPT_HOURS * 3_600_000

/** All scripts. @param clock Lua that defines `now`, ms since epoch: {@link STORE_CLOCK}, or the clock of a test */
export function scriptsWith(clock: string) {
  return {
    enter: script(
      ['book', 'leases', 'holds', 'rows', 'log', 'shared'],
      clock,
      BASE + STEADY + CALENDAR + WINDOWS + SPEND + RELEASE + ROW + SWEEP + RATE + ENTER,
    ),
    hold: script(
      ['book', 'leases', 'holds', 'log', 'shared', 'references'],
      clock,
      BASE + STEADY + CALENDAR + WINDOWS + SPEND + UNCOUNT + PAID_IN + COVERS + HOLD,
    ),
    raise: script(['book', 'holds'], BASE + WINDOWS + SPEND + RAISE),
    settle: script(
      ['book', 'leases', 'holds', 'rows', 'receipt'],
      BASE + WINDOWS + SPEND + RELEASE + ROW + CHARGE + SETTLE,
    ),
    leave: script(
      ['book', 'leases', 'holds', 'log', 'shared'],
      clock,
      BASE + STEADY + CALENDAR + WINDOWS + SPEND + UNCOUNT + RELEASE + LEAVE,
    ),
    renew: script(['book', 'leases'], clock, BASE + STEADY + RENEW),
    topUp: script(['book', 'rows', 'references'], clock, BASE + ROW + PAID_IN + CREDIT + TOP_UP),
    adjust: script(['book', 'rows', 'references'], clock, BASE + ROW + ADJUST + CORRECT),
    limits: script(['book'], LIMITS),
    look: script(
      ['book', 'leases', 'holds', 'rows'],
      clock,
      BASE + STEADY + CALENDAR + WINDOWS + SPEND + RELEASE + ROW + SWEEP + LOOK,
    ),
    rates: script(['book', 'log', 'shared'], clock, BASE + STEADY + CALENDAR + RATE + RATES),
    takeRow: script(
      ['book', 'rows', 'receipt', 'references'],
      BASE + WINDOWS + SPEND + ROW + CHARGE + PAID_IN + CREDIT + ADJUST + TAKE_ROW,
    ),
    takeTotal: script(['book', 'totals'], BASE + WINDOWS + SPEND + CHARGE + TAKE_TOTAL),
    fold: script(['rows', 'totals'], BASE + FOLD),
    index: script(['index'], clock, BASE + INDEX),
    replace: script(['record'], REPLACE),
    touchRecord: script(['index'], clock, BASE + TOUCH),
  }
}

/** @param keys the variables that hold the script's keys */
function script(keys: readonly string[], ...parts: string[]): Script {
  const names = keys.map((key, i) => `local ${key} = KEYS[${i + 1}]`)
  return { lua: [...names, ...parts].join('\n'), numberOfKeys: keys.length }
}

const ENTER = `
local key, request, revision = ARGV[1], ARGV[2], tonumber(ARGV[3])
local tierRpm, tierDay, tierCalls = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local accountRevision = tonumber(ARGV[7])

local function read()
  return call('HMGET', book, 'l:' .. key, 'n:' .. key, 'tier', 'last', 'ahead', 'fday', 'fcount', 'l:${ACCOUNT}')
end

local state = read()
local time = steady(state[4], state[5])
if sweep(time) then state = read() end

local rev, disabled, expires, rpm, most =
  string.match(state[1] or '', '^(%d+)|(%d)|(%-?%d*)|(%d+)|(%d+)|')
local sharedRev, off, sharedRpm, sharedCalls =
  string.match(state[8] or '', '^(%d+)|(%d)|%-?%d*|(%d*)|(%d*)|')
if not rev or revision < tonumber(rev) then return { 'stale' } end
if sharedRev and accountRevision < tonumber(sharedRev) then return { 'stale' } end
if disabled == '1' then return { 'disabled', 'key' } end
if expires ~= '' and now >= tonumber(expires) then return { 'expired', 'key' } end
if off == '1' then return { 'disabled', 'account' } end

local running = tonumber(state[2] or '0')
local paid = state[3] == '1'
local own = rateOf(log, tonumber(rpm), time)
local wait, rpmOf = own.wait, 'key'

-- The limits over all keys: those of the account, or those of the free tier where they are lower.
sharedRpm, sharedCalls = tonumber(sharedRpm or ''), tonumber(sharedCalls or '')
local sharedOf, callsOf = 'account', 'account'
local day
local today, midnight = 0, 0
if not paid then
  if not sharedRpm or tierRpm < sharedRpm then sharedRpm, sharedOf = tierRpm, 'tier' end
  if not sharedCalls or tierCalls < sharedCalls then sharedCalls, callsOf = tierCalls, 'tier' end
  day = dayOf(now)
  if state[6] == day then today = tonumber(state[7]) end
  if today >= tierDay then midnight = 86400000 - now % 86400000 end
end
local all
if sharedRpm then
  all = rateOf(shared, sharedRpm, time)
  if all.wait > wait then wait, rpmOf = all.wait, sharedOf end
end

-- The log with the fewest requests remaining.
local function nearest()
  local rate, left = own, math.max(0, own.limit - own.count)
  if all then
    local allLeft = math.max(0, all.limit - all.count)
    if allLeft < left or (allLeft == left and all.limit < own.limit) then
      rate, left = all, allLeft
    end
  end
  return rate.limit, left, rate.reset
end

local function admitted(at, lease)
  local limit, left, reset = nearest()
  return { 'ok', at, lease, paid and 1 or 0, limit, left, reset }
end

local why, retry, of
if midnight > wait then
  why, retry, of = 'day', midnight, 'tier'
elseif wait > 0 then
  why, retry, of = 'rpm', wait, rpmOf
elseif running >= tonumber(most) then
  why, retry, of = 'concurrency', 1000, 'key'
elseif sharedCalls and call('ZCARD', leases) >= sharedCalls then
  why, retry, of = 'concurrency', 1000, callsOf
end

local member = key .. '|' .. request
if why or call('ZADD', leases, 'NX', text(time + ${LEASE_MS}), member) == 0 then
  local known = call('ZSCORE', leases, member)
  if known then
    local lease = tonumber(known) - (time - now)
    return admitted(lease - ${LEASE_MS}, lease)
  end
  local limit, left, reset = nearest()
  if why == 'day' then left, reset = 0, midnight end
  return { why, of, retry, limit, left, reset }
end

push(log, own, time)
if all then push(shared, all, time) end
if not paid then
  call('HSET', book, 'fday', day, 'fcount', text(today + 1))
end
call('HSET', book, 'last', text(time), 'n:' .. key, text(running + 1))
return admitted(now, now + ${LEASE_MS})
`

const SETTLE = `
local key, request, day, cost, at, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local booked = call('GET', receipt)
if booked then return { 'duplicate', booked, call('HGET', book, 'bal') or '0' } end

if not fits(key) then
  return redis.error_reply('RANGE a sum of this account has left the range of money')
end
day = release(key .. '|' .. request) or day
call('SET', receipt, cost, 'PX', '${RECEIPT_MS}')
charge(key, day, cost)
write('usage', request, key, cost, day, at, body)
return { 'charged', cost, call('HGET', book, 'bal') or '0' }
`

const LEAVE = `
local member, slot = ARGV[1], tonumber(ARGV[2])
-- A call that has left, or that was refused with 'held', is not counted any more.
if slot and call('ZSCORE', leases, member) and call('HGET', holds, member) ~= '-' then
  local state = call('HMGET', book, 'last', 'ahead', 'tier', 'fday')
  local time = slot + steady(state[1], state[2]) - now
  uncount(log, time)
  uncount(shared, time)
  if state[3] ~= '1' and state[4] == dayOf(slot) then call('HINCRBY', book, 'fcount', '-1') end
end
release(member)
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

const TOP_UP = `
local reference, amount, note = ARGV[1], ARGV[2], ARGV[3]
local booked = call('HGET', references, reference)
if booked then return { 'duplicate', booked, call('HGET', book, 'bal') } end
local balance, credited = credit(amount)
if not credited then return { 'range', balance } end
call('HSET', references, reference, amount)
write('top-up', reference, '', '-' .. amount, '', text(now), note)
return { 'charged', amount, balance }
`

const CORRECT = `
local reference, amount, cost, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local booked = call('HGET', references, reference)
if booked then return { 'duplicate', booked, call('HGET', book, 'bal') } end
local balance, adjusted = adjust(amount)
if not adjusted then return { 'range', balance } end
call('HSET', references, reference, cost)
write('adjust', reference, '', cost, '', text(now), reason)
return { 'charged', cost, balance }
`

const LIMITS = `
local key, limits = ARGV[1], ARGV[2]
local stored = string.match(redis.call('HGET', book, 'l:' .. key) or '', '^%d+')
if stored and tonumber(stored) > tonumber(string.match(limits, '^%d+')) then return end
redis.call('HSET', book, 'l:' .. key, limits)
`

const LOOK = `
local key = ARGV[1]
local state = call('HMGET', book, 'last', 'ahead')
sweep(steady(state[1], state[2]))
local day = dayOf(now)
if key == '${ACCOUNT}' then sharedWindows(day) end
local fields = call('HMGET', book, 'bal', 'avail', 'tier', 's:L:' .. key, 's:' .. day .. ':' .. key,
  's:' .. string.sub(day, 1, 6) .. ':' .. key, 'n:' .. key)
if key == '${ACCOUNT}' then fields[7] = call('ZCARD', leases) end
fields[8] = now
return fields
`

const RATES = `
local state = call('HMGET', book, 'last', 'ahead', 'fday', 'fcount')
local time = steady(state[1], state[2])
local own, all = rateOf(log, math.huge, time), rateOf(shared, math.huge, time)
local today = state[3] == dayOf(now) and tonumber(state[4]) or 0
return { own.count, own.reset, all.count, all.reset, today }
`

const TAKE_ROW = `
local kind, request, key, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local day, at, body = ARGV[5], ARGV[6], ARGV[7]
if kind == 'usage' then
  if call('EXISTS', receipt) == 1 then return { 'there' } end
  if not fits(key) then return { 'range' } end
  call('SET', receipt, cost, 'PX', '${RECEIPT_MS}')
  charge(key, day, cost)
elseif kind == 'top-up' then
  if call('HEXISTS', references, request) == 1 then return { 'there' } end
  local amount = string.sub(cost, 2)
  local _, credited = credit(amount)
  if not credited then return { 'range' } end
  call('HSET', references, request, amount)
elseif kind == 'adjust' then
  if call('HEXISTS', references, request) == 1 then return { 'there' } end
  local _, adjusted = adjust(string.sub(cost, 1, 1) == '-' and string.sub(cost, 2) or '-' .. cost)
  if not adjusted then return { 'range' } end
  call('HSET', references, request, cost)
end
return { 'taken', write(kind, request, key, cost, day, at, body) }
`

/** A total takes as many sequences as it has rows, so that `seq` always equals the number of stored and folded rows. */
const TAKE_TOTAL = `
local key, day, count, cost, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local name = day .. '|' .. key
if call('HEXISTS', totals, 'n|' .. name) == 1 then return { 'there' } end
if not fits(key) then return { 'range' } end
charge(key, day, cost)
call('HINCRBY', book, 'seq', count)
call('HINCRBY', totals, 'rows', count)
if below(call('HGET', totals, 'at') or '0', at) then call('HSET', totals, 'at', at) end
call('HSET', totals, 'n|' .. name, count, 'c|' .. name, cost)
return { 'taken' }
`

/** Keeps the order of adds, also within a millisecond. */
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

/** Replaces a record of a revision; records of earlier releases may have none. */
const REPLACE = `
local stored = redis.call('GET', record)
if not stored or (cjson.decode(stored).revision or 0) ~= tonumber(ARGV[2]) then return { '0' } end
redis.call('SET', record, ARGV[1])
return { '1' }
`

/** Each row is given as id, day, key and cost. */
const FOLD = `
local folded = 0
for i = 2, #ARGV, 4 do
  if call('XDEL', rows, ARGV[i]) == 1 then
    local name = ARGV[i + 1] .. '|' .. ARGV[i + 2]
    call('HINCRBY', totals, 'n|' .. name, '1')
    call('HINCRBY', totals, 'c|' .. name, ARGV[i + 3])
    folded = folded + 1
  end
end
if folded > 0 then
  call('HINCRBY', totals, 'rows', text(folded))
  if below(call('HGET', totals, 'at') or '0', ARGV[1]) then call('HSET', totals, 'at', ARGV[1]) end
end
return { folded }
`

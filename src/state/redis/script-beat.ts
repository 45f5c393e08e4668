/** Lua of the scripts `beat` and `accept`, in `scripts.ts`: whether this is the ledger that a gateway knows. */

/**
 * Takes the first case that holds; see `beat.ts`. The hash has `id`, `schema`, `epoch`, `doubt` where there is one, `m:<memory>` with
 * the time of its last beat, and `was:<id>` for each ledger in whose place this one was accepted.
 */
export const BEAT = `
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
export const ACCEPT = `
local kind, knownId, newId = ARGV[1], ARGV[2], ARGV[3]
local doubt = call('HGET', ledger, 'doubt')
if kind ~= 'foreign' and not doubt then return { 'none' } end
call('HDEL', ledger, 'doubt')
call('HINCRBY', ledger, 'epoch', '1')
call('HSETNX', ledger, 'id', newId)
if call('HGET', ledger, 'id') ~= knownId then call('HSET', ledger, 'was:' .. knownId, '1') end
return { 'accepted' }
`

import { chainOf, limitsOf } from './limits.ts'
import { leftOf, zoneOf } from '../../accounts/limits.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { toKeyChange, type Key } from '../../accounts/stored.ts'
import { withIds } from '../../models/allowlist.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note, audited, changing } from './audit.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { requireJudge } from './policies.ts'
import { keyChange, keySettings, newKey, rotation, rotationOf, keyView } from './resources/key.ts'
import {
  bodyOf,
  idFromKey,
  REPLAYED,
  type Answer,
  type AdminRequest,
  read,
  readNew,
  missing,
  type Routes,
  needs,
} from './route.ts'
import { lastUsed, lastUsedAt } from './views.ts'
import { keyNotices, type Act } from '../../gateway/notices.ts'

export const keyRoutes: Routes = {
  '/accounts/:id/keys': { POST: needs('keys', createKey) },
  '/keys/:id': {
    GET: needs('read', showKey),
    PATCH: needs('keys', changeKey),
    DELETE: needs('keys', archiveKey),
  },
  '/keys/:id/play': { POST: needs('keys', playKey) },
  '/keys/:id/rotate': { POST: needs('keys', rotateKey) },
}

async function createKey(request: AdminRequest): Promise<Answer> {
  const {
    id: given,
    name,
    sha256,
    start,
    owner,
    ...settings
  } = readNew(newKey, await bodyOf(request))
  const made = given === undefined ? idFromKey(request, 'keys', request.id) : undefined
  const existing = made === undefined ? undefined : await request.runtime.accounts.key(made)
  if (existing) {
    // Its secret is not stored, and cannot be shown again.
    const data = { ...(await wholeKey(request.runtime, existing)), duplicate: true }
    return { status: 200, headers: REPLAYED, body: { data } }
  }
  const id = given ?? made
  const wanted = { ...settingsOf(request.runtime, settings), id, name, sha256, start, owner }
  requireJudge(request.runtime, wanted.policy)
  await requireMember(request.runtime, owner, request.id)
  const { key, secret, fromDefaults } = await request.runtime.accounts.createKey(
    request.id,
    wanted,
    request.actor.id,
  )
  await note(request, {
    action: 'key.create',
    object: `key:${key.id}`,
    after: keySettings(key),
  })
  const data = {
    ...(await wholeKey(request.runtime, key, 'create')),
    ...(fromDefaults.length > 0 && { from_defaults: fromDefaults }),
  }
  return { status: 201, body: sha256 === undefined ? { data, key: secret } : { data } }
}

async function showKey({ runtime, id }: AdminRequest): Promise<Answer> {
  const key = await keyOf(runtime, id)
  const used = await lastUsed(runtime, [{ account: key.account, key: id }])
  const data = { ...(await wholeKey(runtime, key)), last_used_at: lastUsedAt(used, id) }
  return { body: { data } }
}

/** Makes a token to call as the key for ten minutes. */
async function playKey(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const key = await keyOf(runtime, id)
  const { revision } = key
  const played = { key: id, revision, by: request.actor.id }
  const { secret: token, expiresAt } = await runtime.credentials.playToken(played)
  const expires_at = new Date(expiresAt).toISOString()
  await note(request, { action: 'key.play', object: `key:${id}`, after: { expires_at } })
  const chain = { ...(await chainOf(runtime, 'key', id)), key }
  const warnings = await keyNotices(runtime, chain, { act: 'play' })
  return { status: 201, body: { data: { token, expires_at, warnings } } }
}

async function changeKey(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const { owner, ...settings } = read(keyChange, await bodyOf(request))
  const change = { ...settingsOf(runtime, settings), owner }
  requireJudge(runtime, change.policy)
  if (owner != null) await requireMember(runtime, owner, (await keyOf(runtime, id)).account)
  return changing(request, ofKeys(request), 'update', async (condition) => ({
    item: await runtime.accounts.changeKey(id, change, condition),
  }))
}

async function archiveKey(request: AdminRequest): Promise<Answer> {
  return changing(request, ofKeys(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveKey(request.id, condition),
  }))
}

async function rotateKey(request: AdminRequest): Promise<Answer> {
  const wanted = rotationOf(read(rotation, await bodyOf(request)))
  return changing(request, ofKeys(request, 'rotate'), 'rotate', async (condition) => {
    const { key, secret } = await request.runtime.accounts.rotateKey(request.id, wanted, condition)
    return { item: key, status: 201, more: { key: secret } }
  })
}

const ofKeys = ({ runtime }: AdminRequest, act?: Act) => ({
  kind: 'key',
  settings: audited(keySettings),
  view: (key: Key) => wholeKey(runtime, key, act),
})

/** The settings of a key in their stored form, with the ids of models. */
function settingsOf({ catalog }: Runtime, settings: Parameters<typeof toKeyChange>[0]) {
  return withIds(catalog, toKeyChange(settings))
}

/** @throws InvalidRequest for an owner that is no member of the account */
async function requireMember(
  { members }: Runtime,
  owner: string | undefined,
  account: string,
): Promise<void> {
  if (owner === undefined || (await members.member(owner))?.account === account) return
  const message = `Invalid 'owner': expected the id of a member of account ${account}.`
  throw new InvalidRequest('invalid_value', message, { param: 'owner' })
}

async function keyOf({ accounts }: Runtime, id: string): Promise<Key> {
  return (await accounts.key(id)) ?? missing('key', id)
}

/** A key with its settings, and notices of what has no effect. */
async function wholeKey(runtime: Runtime, key: Key, act?: Act) {
  const { ledger, config } = runtime
  const { team, account } = await chainOf(runtime, 'key', key.id)
  const zone = zoneOf(account, config.defaults)
  const spend = await ledger.key(key.account, key.id, ruleOf(zone))
  const limit_status = await limitsOf(runtime, { key, team, account })
  return {
    ...keyView(key, spend, {}),
    limit_status,
    left: await leftOf(ledger, account, limit_status),
    time_zone: zone ?? 'UTC',
    warnings: await keyNotices(runtime, { key, team, account }, { status: limit_status, act }),
  }
}

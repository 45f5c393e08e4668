import { limitsOfKey } from '../../accounts/limits.ts'
import { toKeyChange, type Key } from '../../accounts/stored.ts'
import { playTokenFor } from '../../accounts/play.ts'
import { allowlistOf } from '../../models/allowlist.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from './audit.ts'
import { read, readNew } from './bodies.ts'
import { changing } from './change.ts'
import { requireJudge } from './policies.ts'
import { keyChange, keySettings, newKey, rotation } from './resources/key.ts'
import { accountOf, bodyOf, keyOf, type Answer, type AdminRequest } from './route.ts'
import { lastUsed, lastUsedAt, wholeKey } from './views.ts'

export async function createKey(request: AdminRequest): Promise<Answer> {
  const { id, name, sha256, start, ...settings } = readNew(newKey, await bodyOf(request))
  const wanted = { ...settingsOf(request.runtime, settings), id, name, sha256, start }
  requireJudge(request.runtime, wanted.policy)
  const { key, secret } = await request.runtime.accounts.createKey(request.id, wanted)
  await note(request, {
    action: 'key.create',
    object: `key:${key.id}`,
    after: keySettings(key),
  })
  const data = await wholeKey(request.runtime, key)
  return { status: 201, body: sha256 === undefined ? { data, key: secret } : { data } }
}

export async function showKey({ runtime, id }: AdminRequest): Promise<Answer> {
  const key = await keyOf(runtime, id)
  const used = await lastUsed(runtime, [{ account: key.account, key: id }])
  const data = {
    ...(await wholeKey(runtime, key)),
    last_used_at: lastUsedAt(used, id),
    limits: await limitsOf(runtime, key),
  }
  return { body: { data } }
}

/** Makes a token to call as the key for ten minutes. */
export async function playKey(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const key = await keyOf(runtime, id)
  const played = playTokenFor(key, runtime.config.admin, Date.now())
  // The token exists, because the request itself came with a token of the role admin.
  const { token, expiresAt } = played!
  const expires_at = new Date(expiresAt).toISOString()
  await note(request, { action: 'key.play', object: `key:${id}`, after: { expires_at } })
  return { status: 201, body: { data: { token, expires_at } } }
}

export async function showLimits({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: await limitsOf(runtime, await keyOf(runtime, id)) } }
}

async function limitsOf(runtime: Runtime, key: Key) {
  const account = await accountOf(runtime, key.account)
  const [totals] = await runtime.ledger.balances([account.id])
  const { limits: defaults, freeTier } = runtime.config.defaults
  const spend = await runtime.ledger.key(account.id, key.id)
  const rates = await runtime.ledger.rates(account.id, key.id)
  const money = { spend, totals: totals!, rates }
  return limitsOfKey({ key, account, defaults, freeTier, ...money, now: Date.now() })
}

export async function changeKey(request: AdminRequest): Promise<Answer> {
  const change = settingsOf(request.runtime, read(keyChange, await bodyOf(request)))
  requireJudge(request.runtime, change.policy)
  return changing(request, ofKeys(request), 'update', async (condition) => ({
    item: await request.runtime.accounts.changeKey(request.id, change, condition),
  }))
}

export async function archiveKey(request: AdminRequest): Promise<Answer> {
  return changing(request, ofKeys(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveKey(request.id, condition),
  }))
}

export async function rotateKey(request: AdminRequest): Promise<Answer> {
  const { overlap } = read(rotation, await bodyOf(request))
  return changing(request, ofKeys(request), 'rotate', async (condition) => {
    const { key, secret } = await request.runtime.accounts.rotateKey(request.id, overlap, condition)
    return { item: key, status: 201, more: { key: secret } }
  })
}

const ofKeys = ({ runtime }: AdminRequest) => ({
  kind: 'key',
  settings: keySettings,
  view: (key: Key) => wholeKey(runtime, key),
})

/** The settings of a key in their stored form, with the ids of models. */
function settingsOf({ catalog }: Runtime, settings: Parameters<typeof toKeyChange>[0]) {
  const { models, ...change } = toKeyChange(settings)
  return { ...change, models: models && allowlistOf(catalog, models) }
}

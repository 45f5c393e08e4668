import { chainOf, limitsOf } from './limits.ts'
import { leftOf, zoneOf } from '../../accounts/limits.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { toKeyChange, type Key } from '../../accounts/stored.ts'
import { isAllowed, withIds, MAX_CANDIDATES } from '../../models/allowlist.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note, audited, changing } from './audit.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { requireJudge } from './policies.ts'
import { keyChange, keySettings, newKey, rotation, keyView } from './resources/key.ts'
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
import { coverageWarnings } from '../../guard/policy-check.ts'
import { policyWarnings, tighten } from '../../policy/policy.ts'

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
    ...(await wholeKey(request.runtime, key)),
    ...(fromDefaults.length > 0 && { from_defaults: fromDefaults }),
  }
  return { status: 201, body: sha256 === undefined ? { data, key: secret } : { data } }
}

async function showKey({ runtime, id }: AdminRequest): Promise<Answer> {
  const key = await keyOf(runtime, id)
  const used = await lastUsed(runtime, [{ account: key.account, key: id }])
  const chain = await chainOf(runtime, 'key', id)
  const limit_status = await limitsOf(runtime, chain)
  const data = {
    ...(await wholeKey(runtime, key)),
    last_used_at: lastUsedAt(used, id),
    limit_status,
    left: await leftOf(runtime.ledger, key.account, limit_status),
    time_zone: zoneOf(chain.account, runtime.config.defaults) ?? 'UTC',
  }
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
  return { status: 201, body: { data: { token, expires_at } } }
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
  const { overlap } = read(rotation, await bodyOf(request))
  return changing(request, ofKeys(request), 'rotate', async (condition) => {
    const { key, secret } = await request.runtime.accounts.rotateKey(request.id, overlap, condition)
    return { item: key, status: 201, more: { key: secret } }
  })
}

const ofKeys = ({ runtime }: AdminRequest) => ({
  kind: 'key',
  settings: audited(keySettings),
  view: (key: Key) => wholeKey(runtime, key),
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

/** A key with its settings, and warnings about settings without effect. */
async function wholeKey(runtime: Runtime, key: Key) {
  const { timeZone } = runtime.config.defaults
  const account = await runtime.accounts.account(key.account)
  const zone = account ? zoneOf(account, { timeZone }) : undefined
  const spend = await runtime.ledger.key(key.account, key.id, ruleOf(zone))
  return { ...keyView(key, spend, {}), warnings: await warningsOf(key, runtime) }
}

async function warningsOf(
  { models = [], denyModels = [], policy, expiresAt }: Key,
  { catalog, guards }: Runtime,
): Promise<string[]> {
  const unknown = [...models, ...denyModels].filter(
    (entry) =>
      !catalog.get(entry) &&
      !Object.hasOwn(catalog.naming.wildcards, entry) &&
      catalog.all().every(({ id }) => !isAllowed([entry], id)),
  )
  return [
    ...(expiresAt !== undefined && expiresAt <= Date.now()
      ? [
          `the key expired on ${new Date(expiresAt).toISOString().slice(0, 10)}: it is refused until expires_at is changed`,
        ]
      : []),
    ...unknown.map((entry) => {
      const several = catalog.candidates(entry)
      if (several.length > 0) {
        return `several models are called ${JSON.stringify(entry)}: ${several.slice(0, MAX_CANDIDATES).join(', ')}`
      }
      const meant = catalog.suggest(entry)
      const hint = meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`
      return `the catalog has no model ${JSON.stringify(entry)}${hint}`
    }),
    ...(policy ? await policyWarnings(policy) : []),
    ...(await coverageWarnings(guards, tighten(policy, undefined))),
  ]
}

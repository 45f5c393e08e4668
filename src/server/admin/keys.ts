/** Keys in the admin API. */
import { toKeyChange } from '../../gateway/seed.ts'
import { allowlistOf } from '../../models/allowlist.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from './audit.ts'
import { readKey, readKeyChange } from './bodies.ts'
import { requireJudge } from './policies.ts'
import { bodyOf, filterOf, keyOf, page, type Answer, type Asked } from './route.ts'
import { keySettings, keyView } from './views.ts'

export async function createKey(asked: Asked): Promise<Answer> {
  const { id, name, sha256, start, ...settings } = readKey(await bodyOf(asked))
  const wanted = { ...settingsOf(asked.runtime, settings), id, name, sha256, start }
  requireJudge(asked.runtime, wanted.policy)
  const { key, secret } = await asked.runtime.accounts.createKey(asked.id, wanted)
  await note(asked, {
    action: 'key.create',
    object: `key:${key.id}`,
    after: keySettings(key),
  })
  const data = await keyView(asked.runtime, key)
  return { status: 201, body: sha256 === undefined ? { data, key: secret } : { data } }
}

export async function listKeys(asked: Asked): Promise<Answer> {
  const { runtime } = asked
  const { items, next } = page(asked, await runtime.accounts.listKeys(await filterOf(asked)))
  return { body: { data: await Promise.all(items.map((key) => keyView(runtime, key))), next } }
}

export async function showKey({ runtime, id }: Asked): Promise<Answer> {
  const key = await keyOf(runtime, id)
  return { body: { data: await keyView(runtime, key) } }
}

export async function changeKey(asked: Asked): Promise<Answer> {
  const change = settingsOf(asked.runtime, readKeyChange(await bodyOf(asked)))
  requireJudge(asked.runtime, change.policy)
  let before = {}
  const key = await asked.runtime.accounts.changeKey(asked.id, change, (replaced) => {
    before = keySettings(replaced)
  })
  const after = keySettings(key)
  await note(asked, { action: 'key.update', object: `key:${key.id}`, before, after })
  return { body: { data: await keyView(asked.runtime, key) } }
}

/** The settings of a key as they are stored: with the ids of models. */
function settingsOf({ catalog }: Runtime, settings: Parameters<typeof toKeyChange>[0]) {
  const { models, ...change } = toKeyChange(settings)
  return { ...change, models: models && allowlistOf(catalog, models) }
}

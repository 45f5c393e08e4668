/** Accounts and keys as people name them: by id, by name, by the beginning of either, and a key by its secret, which is never sent. */
import { hash } from 'node:crypto'
import { text as textOf } from 'node:stream/consumers'
import type { Found } from '../server/admin/resources/overview.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments } from './command.ts'

/** Shortest beginning of an id or a secret. */
const MIN_LETTERS = 4
/** Shortest argument that is taken for a secret. */
const SECRET = /^sk-.{17,}$/

/**
 * The path of the account or key that the first argument of a command means; `-` reads a secret from standard input.
 * @throws CommandError where there is none, or several
 */
export async function pathOf(
  admin: Admin,
  kind: 'account' | 'key',
  { positionals: [name = ''] }: Arguments,
): Promise<string> {
  const secret =
    kind !== 'key' ? undefined : name === '-' ? await readSecret() : SECRET.exec(name)?.[0]
  const query = new URLSearchParams({
    kind,
    ...(secret ? { sha256: hash('sha256', secret) } : { q: name }),
  })
  const { data } = (await admin.ask('GET', `/search?${query}`)) as {
    readonly data: readonly Found[]
  }
  const hits = secret ? data : best(name, data)
  if (hits.length === 1) return `/${kind}s/${encodeURIComponent(hits[0]!.id)}`
  if (secret) throw new CommandError('No key has this secret.')
  if (hits.length === 0)
    throw new CommandError(`There is no ${kind} ${JSON.stringify(name)}.${hint(data)}`)
  const lines = hits.map(({ id, name: called, state }) => `  ${id}  ${called}  ${state}\n`)
  throw new CommandError(
    `Several ${kind}s are called ${JSON.stringify(name)}; name one by its id:\n${lines.join('')}`.trimEnd(),
  )
}

async function readSecret(): Promise<string> {
  const secret = (await textOf(process.stdin)).trim()
  if (secret === '') throw new CommandError('There is no secret on the standard input.', 2)
  return secret
}

/** The hits of the first way in which a text can name something; what is archived only where nothing else has the name. */
function best(name: string, hits: readonly Found[]): readonly Found[] {
  const ways: readonly ((hit: Found) => boolean | undefined)[] = [
    ({ id }) => id === name,
    (hit) => hit.name === name,
    ({ start }) => name.length >= MIN_LETTERS && start?.startsWith(name),
    ({ id }) => name.replace(/^[a-z]+_/, '').length >= MIN_LETTERS && id.startsWith(name),
  ]
  for (const isMeant of ways) {
    const meant = hits.filter(isMeant)
    const live = meant.filter(({ state }) => state !== 'archived')
    if (meant.length > 0) return live.length > 0 ? live : meant
  }
  return []
}

function hint(hits: readonly Found[]): string {
  return hits.length === 0
    ? ''
    : ` Did you mean ${hits.map(({ name }) => JSON.stringify(name)).join(', ')}?`
}

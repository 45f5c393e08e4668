/** What people name: by id or its beginning, by name, and a key by its secret, which is never sent. */
import { hash } from 'node:crypto'
import { nearest } from '../errors/nearest.ts'
import type { Admin } from './admin.ts'
import { CommandError, type Arguments, type Kind, type Owner } from './command.ts'
import { table } from './output.ts'
import { hiddenText } from './terminal.ts'

/** Shortest beginning of an id or a secret. */
const MIN_LETTERS = 4
/** Shortest argument that is taken for a secret. */
const SECRET = /^sk-.{17,}$/
const OWNER = /^(?:(key|team|account):)?(.*)$/s
/** Kinds whose lists are short; the admin API has no search for them. */
const LISTS: Readonly<Partial<Record<Kind, string>>> = {
  team: '/teams',
  token: '/tokens',
  session: '/sessions',
  member: '/members',
  alert: '/alerts',
}

interface Hit {
  readonly id: string
  readonly name?: string
  readonly state?: string
  readonly start?: string
}

/** An object that an argument names. */
export interface Named {
  readonly id: string
  readonly name: string
  /** Its path in the admin API. */
  readonly path: string
}

/**
 * The object that the first argument of a command means; `-` reads the secret of a key from standard input.
 * @throws CommandError where there is none, or several
 */
export async function lookUp(
  admin: Pick<Admin, 'ask'>,
  of: Kind | Owner,
  { positionals: [text = ''] }: Pick<Arguments, 'positionals'>,
): Promise<Named> {
  const [, owner = 'key', owned = ''] = OWNER.exec(text) ?? []
  const [kind, name] = of === 'owner' ? [owner as Kind, owned] : [of, text]
  const secret =
    kind !== 'key' ? undefined : name === '-' ? await readSecret() : SECRET.exec(name)?.[0]
  const query = new URLSearchParams({
    kind,
    ...(secret ? { sha256: hash('sha256', secret) } : { q: name }),
  })
  const list = LISTS[kind]
  const { data } = await admin.ask('GET', list ?? `/search?${query}`)
  const hits: readonly Hit[] = secret ? data : best(name, data)
  if (hits.length === 1) {
    const [{ id, name: called = id }] = hits as readonly [Hit]
    return { id, name: called, path: `/${kind}s/${encodeURIComponent(id)}` }
  }
  if (hits.length === 0) {
    const what = secret ? 'No key has this secret.' : `There is no ${kind} ${JSON.stringify(name)}.`
    const others = list ? nearestOf(name, data) : data
    const isBare = of === 'owner' && name === text
    const forms = isBare ? ' A team is named team:<name>, an account account:<name>.' : ''
    throw new CommandError(secret ? what : what + hint(others) + forms, 1, { status: 404 })
  }
  const rows = hits.map(({ id, name: called, state }) => [id, called, state])
  throw new CommandError(
    `Several ${kind}s are called ${JSON.stringify(name)}; name one by its id:\n${table(['ID', 'NAME', 'STATE'], rows)}`.trimEnd(),
  )
}

/** The arguments with the ids of what the options of these names name; "none" and an empty text are no names. @throws as {@link lookUp} */
export async function withIds(admin: Pick<Admin, 'ask'>, args: Arguments): Promise<Arguments> {
  const text: Record<string, string | undefined> = { ...args.text }
  for (const kind of ['account', 'team', 'key'] as const) {
    const ids: string[] = []
    for (const name of text[kind]?.split(',') ?? []) {
      const isName = name !== '' && name !== 'none'
      ids.push(isName ? (await lookUp(admin, kind, { positionals: [name] })).id : name)
    }
    if (ids.length > 0) text[kind] = ids.join()
  }
  return { ...args, text }
}

async function readSecret(): Promise<string> {
  const secret = await hiddenText('Secret of the key')
  if (secret === '') throw new CommandError('There is no secret on the standard input.', 2)
  return secret
}

/** The hits of the first way in which a text can name something; what is archived only where nothing else has the name. */
function best(name: string, hits: readonly Hit[]): readonly Hit[] {
  const ways: readonly ((hit: Hit) => boolean | undefined)[] = [
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

/** The object of a whole list whose name is most like the text. */
function nearestOf(name: string, all: readonly Hit[]): readonly Hit[] {
  const meant = nearest(
    name,
    all.flatMap((one) => one.name ?? []),
  )
  return all.filter((one) => one.name === meant).slice(0, 1)
}

function hint(hits: readonly Hit[]): string {
  return hits.length === 0
    ? ''
    : ` Did you mean ${hits.map(({ name }) => JSON.stringify(name)).join(', ')}?`
}

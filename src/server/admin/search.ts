/** Search for accounts, keys and models by a part of a name or id. */
import type { ListedAccount, ListedKey } from '../../accounts/directory.ts'
import { checkParameters, wrongQuery } from '../../errors/query.ts'
import type { Found } from './resources/overview.ts'
import type { Answer, AdminRequest } from './route.ts'

const PARAMETERS = new Set(['q'])
/** Most results of each kind. */
const MOST = 8

/** Searches; an exact id comes first. @throws InvalidRequest without a text */
export async function search({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const wanted = query.get('q')?.trim().toLowerCase() ?? ''
  if (wanted === '') throw wrongQuery('q', 'part of a name or id')
  const { accounts, keys } = await runtime.accounts.directory.view()
  const data: readonly Found[] = [
    ...listed('account', accounts, wanted),
    ...listed('key', keys, wanted),
    ...runtime.catalog
      .at()
      .all()
      .filter(({ id, aliases }) =>
        [id, ...aliases].some((name) => name.toLowerCase().includes(wanted)),
      )
      .slice(0, MOST)
      .map(({ id }) => ({ kind: 'model' as const, id, name: id })),
  ]
  const isExact = ({ id }: Found) => Number(id.toLowerCase() !== wanted)
  return { body: { data: data.toSorted((one, other) => isExact(one) - isExact(other)) } }
}

function listed(
  kind: 'account' | 'key',
  all: ReadonlyMap<string, ListedAccount | ListedKey>,
  wanted: string,
): readonly Found[] {
  const matches = new Map<string, Found>()
  const exact = all.get(wanted)
  if (exact) matches.set(exact.id, { kind, id: exact.id, name: exact.name })
  for (const { id, name, texts, archived } of all.values()) {
    if (matches.size >= MOST) break
    if (!archived && texts.includes(wanted)) matches.set(id, { kind, id, name })
  }
  return [...matches.values()]
}

/** Names of keys beside their ids, for people who read a list, a plot or a report. */
import { Unavailable } from '../../errors/errors.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'

/** The name of a key; null where it is unknown. */
export type NameOf = (id: string | null) => string | null

/** Names of all keys; none while they cannot be read, because figures are shown without them. */
export async function keyNames({ accounts }: Runtime): Promise<NameOf> {
  try {
    const { keys } = await accounts.directory.view()
    return (id) => (id === null ? null : (keys.get(id)?.name ?? null))
  } catch (error) {
    if (error instanceof Unavailable) return () => null
    throw error
  }
}

export async function withNames<Row extends object>(runtime: Runtime, rows: readonly Row[]) {
  const nameOf = await keyNames(runtime)
  return rows.map((row) => ({
    ...row,
    key_name: nameOf((row as { readonly key_id?: string | null }).key_id ?? null),
  }))
}

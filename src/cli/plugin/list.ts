/** `plugin list`: built-in plugins, and packages that a configuration here would find. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { builtInPlugins, findPlugin } from '../../gateway/plugin-code.ts'
import { packageVersion } from '../../gateway/version.ts'
import type { Arguments } from '../command.ts'
import { configurationOf } from '../configuration.ts'
import { print, table } from '../output.ts'

const PACKAGE = /^(?:@[^/]+\/)?sluicegate-(provider|guard|search|sink|payments)-(.+)$/

interface Listed {
  readonly kind: string
  readonly name: string
  readonly version: string
  readonly api: number | null
  readonly used: boolean
  readonly error?: string
}

export async function listPlugins(args: Arguments): Promise<void> {
  const { loaded } = await configurationOf(args)
  const { directory, config } = loaded
  const used = usesOf(config)
  const version = packageVersion()
  const listed: Listed[] = (await builtInPlugins()).map(([kind, name]) => ({
    kind,
    name,
    version,
    api: 1,
    used: used.has(`${kind} ${name}`),
  }))
  for (const [name, manifest] of await packagesFrom(directory)) {
    const [, kind = '', short = ''] = PACKAGE.exec(name)!
    const isUsed = used.has(`${kind} ${short}`) || used.has(`${kind} ${name}`)
    const row = { kind, name, version: manifest.version ?? '-', used: isUsed }
    try {
      const { plugin } = await findPlugin(name, directory)
      listed.push({ ...row, api: plugin.api })
    } catch (error) {
      listed.push({ ...row, api: null, error: (error as Error).message })
    }
  }
  print(args, listed, () => {
    const rows = listed.map(({ kind, name, version: own, api, used: isUsed, error }) => [
      kind,
      name,
      own,
      api,
      isUsed ? 'yes' : '-',
      error?.replaceAll(/\s+/g, ' '),
    ])
    return table(['KIND', 'NAME', 'VERSION', 'API', 'USED', ''], rows).replaceAll(/ +-$/gm, '')
  })
}

function usesOf({
  providers,
  guards,
  search,
  sinks,
  payments,
}: LoadedSections): ReadonlySet<string> {
  const uses = (kind: string, entries: readonly { readonly use: unknown }[]) =>
    entries.map(({ use }) => `${kind} ${String(use)}`)
  return new Set([
    ...uses('provider', Object.values(providers)),
    ...uses('guard', guards.use),
    ...uses('search', Object.values(search.engines)),
    ...uses('sink', sinks),
    ...uses('payments', payments ? [payments] : []),
  ])
}

type LoadedSections = Pick<
  Awaited<ReturnType<typeof configurationOf>>['loaded']['config'],
  'providers' | 'guards' | 'search' | 'sinks' | 'payments'
>

/** Packages with the names of plugins, as an import from the folder would find them. */
async function packagesFrom(folder: string) {
  const packages = new Map<string, { readonly version?: string }>()
  for (let at = resolve(folder); ; at = dirname(at)) {
    const modules = join(at, 'node_modules')
    for (const name of await namesIn(modules)) {
      if (!PACKAGE.test(name) || packages.has(name)) continue
      const manifest = await readFile(join(modules, name, 'package.json'), 'utf8').catch(() => '{}')
      packages.set(name, JSON.parse(manifest) as { readonly version?: string })
    }
    if (dirname(at) === at) return [...packages].toSorted()
  }
}

async function namesIn(modules: string): Promise<string[]> {
  const names = await readdir(modules).catch(() => [])
  const scoped = names
    .filter((name) => name.startsWith('@'))
    .map(async (scope) =>
      (await readdir(join(modules, scope)).catch(() => [])).map((name) => `${scope}/${name}`),
    )
  return [...names, ...(await Promise.all(scoped)).flat()]
}

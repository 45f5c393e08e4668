import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')

interface Source {
  readonly path: string
  readonly text: string
  /** Paths inside the repository, and names of packages. */
  readonly imports: readonly string[]
}

const IMPORT =
  /\b(?:import|export)\b[^'"`;]*?\bfrom\s*'([^']+)'|\bimport\(\s*'([^']+)'\s*\)|^import '([^']+)'/gm

function sourcesIn(folder: string): Source[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => {
      const file = join(entry.parentPath, entry.name)
      const text = readFileSync(file, 'utf8')
      const imports = [...text.matchAll(IMPORT)].map((match) => {
        const specifier = match[1] ?? match[2] ?? match[3]!
        return specifier.startsWith('.')
          ? relative(root, resolve(dirname(file), specifier))
          : specifier
      })
      return { path: relative(root, file), text, imports }
    })
}

const src = sourcesIn('src')
const plugins = [...sourcesIn('providers'), ...sourcesIn('plugins')]

/** From the ground up; a file imports from its own floor or from below it. */
const FLOORS: readonly (readonly [name: string, files: RegExp])[] = [
  ['ground', /^src\/(errors|json|lists|money|plugin|plugin\/.*|flow|ids)\.ts$/],
  [
    'nouns',
    /^src\/(ledger\/.*|records|accounts|allowlist|branch|catalog|media|audio\/.*|fetch|policy|policy\/.*|checks|exposition|metrics|access-log|config|settings|key-settings|environment|issues|form|upstream|sse|template|routing|health|holds|alarms|scope|search|search\/.*|guard\/.*)\.ts$/,
  ],
  ['request path', /^src\/(http|pipeline|stream|edge|guarded\/.*)\.ts$/],
  ['stages and endpoints', /^src\/(stages|endpoints)\/.*\.ts$/],
  ['assembly', /^src\/(loader|routes|gateway|guard-setup|first-run)\.ts$/],
  ['entrances', /^src\/(server|admin\/.*|cli|cli\/.*|index|testing|testing\/.*)\.ts$/],
]

/** What endpoint families share; a family's other files are its own. */
const SHARED_BY_ENDPOINTS = /^src\/endpoints\/(billed|body|chunks|chat-texts|multipart)\.ts$/

/** Plugins that build upon the folder of another one. */
const KIN: Readonly<Record<string, readonly string[]>> = {
  'providers/anthropic': ['providers/openai-compatible/'],
  'providers/azure': ['providers/openai-compatible/'],
  'providers/bedrock': ['providers/openai-compatible/', 'providers/anthropic/'],
  'providers/google': ['providers/openai-compatible/'],
  'providers/mistral': ['providers/openai-compatible/'],
  'providers/openai': ['providers/openai-compatible/'],
}

function floorOf(path: string): number {
  return FLOORS.findIndex(([, files]) => files.test(path))
}

describe('architecture', () => {
  it('finds the sources and reads their imports', () => {
    expect(src.length).toBeGreaterThan(30)
    expect(src.find(({ path }) => path === 'src/gateway.ts')!.imports).toContain('src/pipeline.ts')
  })

  it('has a floor for every file', () => {
    expect(src.filter(({ path }) => floorOf(path) < 0).map(({ path }) => path)).toEqual([])
  })

  it('imports downwards only', () => {
    const upward = src.flatMap(({ path, imports }) =>
      imports
        .filter((to) => to.startsWith('src/') && floorOf(to) > floorOf(path))
        .map((to) => `${path} -> ${to}`),
    )
    expect(upward).toEqual([])
  })

  it('has no cycles, types included', () => {
    const byPath = new Map(src.map((source) => [source.path, source]))
    const done = new Set<string>()
    const cycles: string[] = []
    const visit = (path: string, trail: readonly string[]): void => {
      if (trail.includes(path)) {
        cycles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
        return
      }
      if (done.has(path)) return
      for (const to of byPath.get(path)?.imports ?? []) visit(to, [...trail, path])
      done.add(path)
    }
    for (const { path } of src) visit(path, [])
    expect(cycles).toEqual([])
  })

  it('keeps stages apart from each other, and endpoint families too', () => {
    const sideways = src.flatMap(({ path, imports }) => {
      const folder = /^src\/(stages|endpoints)\//.exec(path)?.[1]
      if (!folder) return []
      const family = familyOf(path)
      return imports
        .filter((to) => /^src\/(stages|endpoints)\//.test(to))
        .filter((to) => !SHARED_BY_ENDPOINTS.test(to))
        .filter(
          (to) => folder === 'stages' || !to.includes('/endpoints/') || familyOf(to) !== family,
        )
        .map((to) => `${path} -> ${to}`)
    })
    expect(sideways).toEqual([])
  })

  it('gives plugins nothing of the gateway but its public contract', () => {
    const wrong = plugins.flatMap(({ path, imports }) => {
      const own = path.replace(/\.ts$/, '').split('/').slice(0, 2).join('/')
      return imports
        .filter((to) => /^(src|providers|plugins|test|config)\//.test(to))
        .filter((to) => to !== 'src/plugin.ts' && !to.startsWith(`${own}/`) && to !== `${own}.ts`)
        .filter((to) => !KIN[own]?.some((folder) => to.startsWith(folder)))
        .map((to) => `${path} -> ${to}`)
    })
    expect(wrong).toEqual([])
  })

  it('names no vendor in the core', () => {
    const names = readdirSync(join(root, 'providers'))
      .filter((name) => name.endsWith('.ts'))
      .map((name) => name.slice(0, -3))
    expect(names).toContain('openai-compatible')
    const named = src.flatMap(({ path, text }) =>
      names
        .filter((name) => new RegExp(`['"\`]${name}['"\`]`).test(text))
        .map((name) => `${path}: ${name}`),
    )
    expect(named).toEqual([])
  })

  it('moves money in two places only', () => {
    const callers = (method: string) =>
      src
        .filter(({ path }) => !path.startsWith('src/ledger/'))
        .filter(({ text }) => new RegExp(`\\bledger\\.${method}\\(`).test(text))
        .map(({ path }) => path)
    expect(callers('settle')).toEqual(['src/stages/settle.ts'])
    expect(callers('topUp').sort()).toEqual(['src/admin/api.ts', 'src/first-run.ts'])
  })

  it('never branches on the operation inside a stage', () => {
    const branching = src
      .filter(({ path }) => path.startsWith('src/stages/'))
      .filter(({ text }) => /operation\s*[!=]==?/.test(text))
    expect(branching.map(({ path }) => path)).toEqual([])
  })
})

/** `chat` for `chat.ts`, `chat-request.ts` and what only chat uses. */
function familyOf(path: string): string {
  const name = path.split('/').at(-1)!.replace(/\.ts$/, '')
  return name === 'conform' ? 'chat' : name.split('-')[0]!
}

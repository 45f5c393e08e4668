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

const EXPORTED =
  /^export (?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type) ([\w$]+)/gm
const NAMES = /\b(?:import|export)\s+(?:type\s+)?(\*|\{[^}]*\})[^'`;]*?\bfrom\s*'(\.[^']+)'/g

/** File and name of what a file imports; `*` is all of them. */
function importedNames({ path, text }: Source): string[] {
  const place = (specifier: string) => relative(root, resolve(root, dirname(path), specifier))
  const named = [...text.matchAll(NAMES)].flatMap(([, clause, specifier]) =>
    clause!
      .replaceAll(/[{}]/g, '')
      .split(',')
      .map(
        (one) =>
          `${place(specifier!)} ${
            one
              .trim()
              .replace(/^type /, '')
              .split(' as ')[0]
          }`,
      ),
  )
  const loaded = [...text.matchAll(/\bimport\(\s*'(\.[^']+)'/g)]
  return [...named, ...loaded.map(([, specifier]) => `${place(specifier!)} *`)]
}

const src = sourcesIn('src')
const plugins = [...sourcesIn('providers'), ...sourcesIn('plugins')]

/** Entries of `src/` in the order of their imports: a file imports from its own entry and from entries before it. */
const ORDER: readonly string[] = [
  'lifetime',
  'plugin',
  'plugin.ts',
  'money',
  'patterns',
  'errors',
  'threads',
  // Descriptions of what the admin API answers; they import nothing but values of the entries before.
  'server/admin/resources',
  'models',
  'import',
  'policy',
  'state',
  'stream',
  'answers',
  'accounts',
  'access',
  'observe',
  'config',
  'guard',
  'masking',
  'search',
  'upstream',
  'catalog',
  'payments',
  'index.ts',
  'pipeline',
  'endpoints',
  'gateway',
  'server',
  'cluster',
  'console',
  'testing',
  'testing.ts',
  'cli',
  'cli.ts',
]

/** Files whose exports are for packages, or for the thread that loads them by their address. */
const ENTRIES: ReadonlySet<string> = new Set([
  'src/index.ts',
  'src/observe/log/thread.ts',
  'src/observe/usage/thread.ts',
])

/** Files that dialects of chat may import from elsewhere: they format, and decide nothing. */
const FORMATTERS: ReadonlySet<string> = new Set([
  'src/money/money.ts',
  'src/state/ids.ts',
  'src/models/catalog.ts',
])

/** Folders of `endpoints/` that every family may import. */
const SHARED_BY_ENDPOINTS = new Set(['shared', 'audio'])

/** Names, addresses and variables of vendors: no plugin. Importers of other formats read it too. */
const VENDOR_TABLE = 'providers/vendors.ts'

/** Folder of `providers/` that every provider may import. */
const SHARED_BY_PROVIDERS = 'providers/shared/'

/** Plugins that build upon the folder of another one. */
const KIN: Readonly<Record<string, readonly string[]>> = {
  'providers/azure': ['providers/openai-compatible/', 'providers/openai-responses/'],
  'providers/bedrock': ['providers/openai-compatible/', 'providers/anthropic/'],
  'providers/mistral': ['providers/openai-compatible/'],
  'providers/openai': ['providers/openai-compatible/', 'providers/openai-responses/'],
  'providers/openai-compatible': ['providers/openai-responses/', 'providers/anthropic/'],
  'providers/openai-responses': ['providers/openai-compatible/'],
}

/** Position in {@link ORDER}; -1 for a file that has no place there. */
function placeOf(path: string): number {
  const leaf = 'server/admin/resources'
  return ORDER.indexOf(path.startsWith(`src/${leaf}/`) ? leaf : path.split('/')[1]!)
}

describe('architecture', () => {
  it('finds the sources and reads their imports', () => {
    expect(src.length).toBeGreaterThan(30)
    expect(src.find(({ path }) => path === 'src/gateway/gateway.ts')!.imports).toContain(
      'src/pipeline/pipeline.ts',
    )
  })

  it('has a place for every file', () => {
    expect(src.filter(({ path }) => placeOf(path) < 0).map(({ path }) => path)).toEqual([])
  })

  it('imports in one direction only', () => {
    const backward = src.flatMap(({ path, imports }) =>
      imports
        .filter((to) => to.startsWith('src/') && placeOf(to) > placeOf(path))
        .map((to) => `${path} -> ${to}`),
    )
    expect(backward).toEqual([])
  })

  it('has no cycles, types included', () => {
    const all = [...src, ...plugins]
    const byPath = new Map(all.map((source) => [source.path, source]))
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
    for (const { path } of all) visit(path, [])
    expect(cycles).toEqual([])
  })

  it('has no file above 900 lines', () => {
    const long = [...src, ...plugins].filter(({ text }) => text.split('\n').length > 901)
    expect(long.map(({ path }) => path)).toEqual([])
  })

  it('exports nothing that no other file imports', () => {
    const all = [...src, ...plugins, ...sourcesIn('test'), ...sourcesIn('config')]
    const imported = new Set(all.flatMap(importedNames))
    const unused = [...src, ...plugins].flatMap(({ path, text }) => {
      if (ENTRIES.has(path) || imported.has(`${path} *`)) return []
      const names = [...text.matchAll(EXPORTED)].map(([, name]) => name!)
      return names
        .filter((name) => !imported.has(`${path} ${name}`))
        .map((name) => `${path}: ${name}`)
    })
    expect(unused).toEqual([])
  })

  it('keeps stages apart from each other', () => {
    const sideways = src.flatMap(({ path, imports }) =>
      imports
        .filter(() => stageOf(path) !== undefined)
        .filter((to) => stageOf(to) !== undefined && stageOf(to) !== stageOf(path))
        .map((to) => `${path} -> ${to}`),
    )
    expect(sideways).toEqual([])
  })

  it('keeps endpoint families apart from each other', () => {
    const sideways = src.flatMap(({ path, imports }) =>
      imports
        .filter((to) => familyOf(path) !== undefined && familyOf(to) !== undefined)
        .filter((to) => familyOf(to) !== familyOf(path) && !SHARED_BY_ENDPOINTS.has(familyOf(to)!))
        .map((to) => `${path} -> ${to}`),
    )
    expect(sideways).toEqual([])
  })

  it('keeps the client form of chat inside its dialect', () => {
    // The kit for plugin authors checks events as clients get them.
    const gateway = src.filter(({ path }) => !path.startsWith('src/testing/'))
    const outside = gateway.filter(({ path }) => !path.startsWith('src/endpoints/chat/dialects/'))
    const formed = outside.filter(({ text }) => /\bchat\.completion\b/.test(text))
    expect(formed.map(({ path }) => path)).toEqual([])
    // `usage.cost` of chat is written from the receipt.
    const chat = outside.filter(({ path }) => path.startsWith('src/endpoints/chat/'))
    const priced = chat.filter(({ text }) => /\bcostJson\b|\bcost_details\b|\.cost\b/.test(text))
    expect(priced.map(({ path }) => path)).toEqual([])
  })

  it('keeps dialects of chat pure, and the stages without them', () => {
    const foreign = /^src\/(money|state|guard|policy|accounts|models|pipeline\/stages)\//
    const impure = src
      .filter(({ path }) => path.startsWith('src/endpoints/chat/dialects/'))
      .flatMap(({ path, imports }) => imports.map((to) => ({ path, to })))
      // The form of a cost is the same everywhere; ids and types do nothing.
      .filter(({ to }) => foreign.test(to) && !FORMATTERS.has(to))
      .map(({ path, to }) => `${path} -> ${to}`)
    expect(impure).toEqual([])
    const knowing = src
      .filter(({ path }) => /^src\/(pipeline\/stages|state)\//.test(path))
      .filter(
        ({ text, imports }) =>
          /'(messages|responses|dialects?)'/.test(text) ||
          imports.some((to) => to.includes('/dialects/')),
      )
    expect(knowing.map(({ path }) => path)).toEqual([])
  })

  it('gives plugins nothing of the gateway but its public contract', () => {
    const wrong = plugins.flatMap(({ path, imports }) => {
      const own = path.replace(/\.ts$/, '').split('/').slice(0, 2).join('/')
      return imports
        .filter((to) => /^(src|providers|plugins|test|config)\//.test(to))
        .filter((to) => to !== 'src/plugin.ts' && !to.startsWith(`${own}/`) && to !== `${own}.ts`)
        .filter((to) => !(own.startsWith('plugins/import') && to === VENDOR_TABLE))
        .filter((to) => !(own.startsWith('providers/') && to.startsWith(SHARED_BY_PROVIDERS)))
        .filter((to) => !KIN[own]?.some((folder) => to.startsWith(folder)))
        .map((to) => `${path} -> ${to}`)
    })
    expect(wrong).toEqual([])
  })

  it('names no vendor in the core', () => {
    const names = readdirSync(join(root, 'providers'))
      .filter((name) => name.endsWith('.ts') && `providers/${name}` !== VENDOR_TABLE)
      .map((name) => name.slice(0, -3))
    expect(names).toContain('openai-compatible')
    const named = src.flatMap(({ path, text }) =>
      names
        .filter((name) => new RegExp(`['"\`]${name}['"\`]`).test(text))
        .map((name) => `${path}: ${name}`),
    )
    expect(named).toEqual([])
  })

  it('keeps the console a page: it imports its own files and five libraries', () => {
    const libraries = new Set([
      'preact',
      'preact/hooks',
      '@preact/signals',
      'htm',
      'uplot',
      'markdown-it',
    ])
    const pages = src.filter(({ path }) => /^src\/console\/(?!pack\.ts)/.test(path))
    expect(pages.length).toBeGreaterThan(20)
    const wrong = pages.flatMap(({ path, imports }) =>
      imports
        .filter((to) => !to.startsWith('src/console/') && !libraries.has(to))
        // Types of answers, which import types alone.
        .filter((to) => !to.startsWith('src/server/admin/resources/'))
        .map((to) => `${path} -> ${to}`),
    )
    expect(wrong).toEqual([])
    const loaded = pages.filter(({ text }) =>
      /^(?:import|export) (?!type )[^'`;]*?from '[./]+server\/admin\/resources\//m.test(text),
    )
    expect(loaded.map(({ path }) => path)).toEqual([])
    const drawing = pages.filter(({ imports }) => imports.includes('uplot'))
    expect(drawing.map(({ path }) => path)).toEqual(['src/console/parts/plot.ts'])
    const reading = pages.filter(({ imports }) => imports.includes('markdown-it'))
    expect(reading.map(({ path }) => path)).toEqual(['src/console/parts/help.ts'])
    // Loaded where something is drawn, because it is as large as the rest.
    const eager = pages.filter(({ text }) =>
      /from '[./]*parts\/(?:plot|help)\.ts'|from '\.\/(?:plot|help)\.ts'/.test(text),
    )
    expect(eager.filter(({ text }) => !/import type .*plot\.ts/.test(text))).toEqual([])
    const users = src
      .filter(({ path }) => !path.startsWith('src/console/'))
      .filter(({ imports }) => imports.some((to) => to.startsWith('src/console/')))
    expect(users.map(({ path }) => path)).toEqual([])
  })

  it('keeps descriptions of resources free of what describes nothing', () => {
    const leaves = /^(valibot$|src\/server\/admin\/resources\/)/
    const values = new Set([
      'src/errors/moments.ts',
      'src/money/amounts.ts',
      'src/plugin/categories.ts',
      'src/plugin/ended-call.ts',
      'src/plugin/fields.ts',
    ])
    const wrong = src
      .filter(({ path }) => path.startsWith('src/server/admin/resources/'))
      .flatMap(({ path, imports }) =>
        imports.filter((to) => !leaves.test(to) && !values.has(to)).map((to) => `${path} -> ${to}`),
      )
    expect(wrong).toEqual([])
  })

  it('lets the console write no markup, no style attribute and no inline handler', () => {
    const marked = src
      .filter(({ path }) => path.startsWith('src/console/'))
      .filter(({ text }) =>
        /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|\bstyle="|\bstyle=\$|\bon[a-z]+="/.test(
          text,
        ),
      )
    expect(marked.map(({ path }) => path)).toEqual([])
  })

  it('moves money in a few places only', () => {
    const callers = (method: string) =>
      src
        .filter(({ path }) => !path.startsWith('src/state/'))
        .filter(({ text }) => new RegExp(`\\bledger\\.${method}\\(`).test(text))
        .map(({ path }) => path)
    expect(callers('settle')).toEqual(['src/pipeline/stages/settle.ts'])
    expect(callers('book').sort()).toEqual([
      'src/gateway/seed.ts',
      'src/observe/usage/expiry.ts',
      'src/payments/orders.ts',
      'src/server/admin/bookings.ts',
    ])
  })

  it('never branches on the operation inside a stage', () => {
    const branching = src
      .filter(({ path }) => path.startsWith('src/pipeline/stages/'))
      .filter(({ text }) => /operation\s*[!=]==?/.test(text))
    expect(branching.map(({ path }) => path)).toEqual([])
  })
})

/** `guard` for `stages/guard.ts`. */
function stageOf(path: string): string | undefined {
  return /^src\/pipeline\/stages\/([\w-]+)/.exec(path)?.[1]
}

/** `chat` for what lies in `endpoints/chat/`. */
function familyOf(path: string): string | undefined {
  return /^src\/endpoints\/([\w-]+)\//.exec(path)?.[1]
}

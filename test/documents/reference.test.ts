import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { configSchema } from '../../src/config/schema.ts'
import { ROUTES } from '../../src/gateway/routes.ts'
import { ADMIN_ROUTES } from '../../src/server/admin/api.ts'
import { SESSION_ROUTES } from '../../src/server/admin/session.ts'
import { readPolicy } from '../../src/policy/policy.ts'
import { filesBelow, page, pages, root, tablesOf, type Page, type Table } from './_markdown.ts'
import { membersOf } from './_schema.ts'

describe('docs/configuration.md', () => {
  const { leaves: all, containers } = membersOf(configSchema)
  // The members of every `egress` are described once.
  const leaves = new Map(
    [...all].map(([path, one]) => [path.replace(/^.*\.(?=egress\.)/, ''), one]),
  )
  const documented = new Map(
    [page('docs/configuration.md'), page('docs/models-and-prices.md')].flatMap(documentedMembers),
  )

  it('has every member of the schema', () => {
    expect([...leaves.keys()].filter((path) => !documented.has(path))).toEqual([])
  })

  it('has no other member', () => {
    const unknown = [...documented.keys()].filter(
      (path) => !leaves.has(path) && !containers.has(path),
    )
    expect(unknown).toEqual([])
  })

  it('has the defaults of the schema', () => {
    const differences = [...leaves].flatMap(([path, member]) => {
      const cell = documented.get(path) ?? ''
      const code = cell.includes('`') ? cell.replaceAll('`', '') : undefined
      const expected = member.default ?? (member.required ? 'required' : undefined)
      const found = code ?? (cell === 'required' ? cell : undefined)
      return found === expected ? [] : [`${path}: ${cell || 'nothing'}, in the schema ${expected}`]
    })
    expect(differences).toEqual([])
  })
})

describe('docs/api', () => {
  const parts = pages.filter(({ path }) => path.startsWith('docs/api/'))
  const text = parts.map((one) => one.text).join('\n')

  it('has pages of at most 2500 words', () => {
    expect(parts.length).toBeGreaterThan(8)
    expect(parts.filter(({ words }) => words > 2500).map(({ path }) => path)).toEqual([])
  })

  it('has every route of the API', () => {
    const routes = ROUTES.map(({ method, path }) => `\`${method} ${path}\``)
    expect(routes.length).toBeGreaterThan(8)
    expect(routes.filter((route) => !text.includes(route))).toEqual([])
  })

  it('has every route of the admin API, and no other', () => {
    const found = Object.entries(ADMIN_ROUTES).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} /admin${path}`),
    )
    found.push(...SESSION_ROUTES.map((route) => route.replace(' ', ' /admin')))
    expect(found.length).toBeGreaterThan(10)
    const shown = [...text.matchAll(/^\| `([A-Z]+ \/admin\/[^`*]*)`/gm)].map(([, route]) => route!)
    expect(shown.toSorted()).toEqual(found.toSorted())
  })

  it('has every code of an error', () => {
    const source = readFileSync(join(root, 'src/errors/errors.ts'), 'utf8')
    const codes = new Set(
      [...source.matchAll(/'([a-z]+(?:_[a-z0-9]+)+)'/g)].map(([, code]) => code!),
    )
    expect(codes.size).toBeGreaterThan(30)
    const classes = page('docs/plugins/provider.md').text
    const missing = [...codes].filter(
      (code) => !text.includes(`\`${code}\``) && !classes.includes(`\`${code}\``),
    )
    expect(missing).toEqual([])
  })
})

describe('CONTRIBUTING.md', () => {
  const { text, tables } = page('CONTRIBUTING.md')
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

  it('has a line for every dependency, and no other', () => {
    const { dependencies, devDependencies } = manifest
    const table = tables.find(({ header }) => header[0] === 'package')!
    const shown = table.rows.flatMap(([cell]) =>
      [...cell!.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
    )
    const installed = Object.keys({ ...dependencies, ...devDependencies })
    expect(shown.toSorted()).toEqual(installed.toSorted())
  })

  it('has every folder of src/ on its map', () => {
    const folders = readdirSync(join(root, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => `\n  ${name}/`)
    expect(folders.filter((line) => !text.includes(line))).toEqual([])
  })

  it('and all other pages name scripts that there are', () => {
    const missing = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/\bnpm run ([a-z][a-z:]*)/g)]
        .filter(([, script]) => !Object.hasOwn(manifest.scripts, script!))
        .map(([, script]) => `${path}: ${script}`),
    )
    expect(missing).toEqual([])
  })
})

describe('options of plugins', () => {
  const kinds = [
    ['providers', 'providers/README.md', 'openai-compatible'],
    ['plugins/search', 'plugins/README.md', 'search-engines'],
    ['plugins/guards', 'plugins/README.md', 'guards'],
    ['plugins/sinks', 'plugins/README.md', 'sinks'],
  ] as const

  it.each(kinds)('of %s are all in %s', async (folder, readme, shared) => {
    const missing: string[] = []
    for (const name of namesIn(folder)) {
      const { default: plugin } = await import(join(root, folder, `${name}.ts`))
      const known = `${sectionOf(page(readme), name)}${sectionOf(page(readme), shared)}`
      const options = [plugin.options, plugin.deploymentOptions].flatMap(optionNames)
      missing.push(
        ...options.filter((one) => !known.includes(`\`${one}\``)).map((one) => `${name}: ${one}`),
      )
    }
    expect(missing).toEqual([])
  })
})

describe('defaults of options', () => {
  it.each(['providers', 'plugins/guards'])('of %s are as documented', async (folder) => {
    const readme = page(`${folder.split('/')[0]}/README.md`)
    const differences: string[] = []
    let compared = 0
    for (const name of namesIn(folder)) {
      const { default: plugin } = await import(join(root, folder, `${name}.ts`))
      const rows = tablesOf(sectionOf(readme, name)).flatMap(rowsWithDefaults)
      for (const schema of [plugin.options, plugin.deploymentOptions]) {
        if (!schema?.entries) continue
        for (const [option, member] of membersOf(schema).leaves) {
          const cells = rows.filter(([names]) => names.includes(`\`${option}\``))
          if (cells.length === 0 || member.default === undefined) continue
          compared++
          if (cells.some(([, cell]) => cell.replaceAll('`', '').startsWith(member.default!)))
            continue
          differences.push(`${name}: ${option}: ${cells[0]![1]}, in the schema ${member.default}`)
        }
      }
    }
    expect(differences).toEqual([])
    expect(compared).toBeGreaterThan(folder === 'providers' ? 10 : 3)
  })
})

describe('docs/policies.md', () => {
  it('has every member of a policy, and no other', () => {
    const table = page('docs/policies.md').tables.find(({ header }) => header[0] === 'member')!
    const shown = table.rows.flatMap(([cell]) =>
      [...cell!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
    )
    const known = [
      ...policyMembers({ version: 1, unknown: true }).filter((name) => name !== 'guard'),
      ...policyMembers({ version: 1, guard: { unknown: true } }).map((name) => `guard.${name}`),
    ]
    expect(known.length).toBeGreaterThan(10)
    expect(shown.toSorted()).toEqual(known.toSorted())
  })
})

describe('other tables', () => {
  it('docs/models-and-prices.md has every capability', () => {
    const { text } = page('docs/models-and-prices.md')
    const capabilities = configSchema.entries.models.wrapped.value.entries.capabilities.wrapped.item
    expect(capabilities.options.filter((one) => !text.includes(`\`${one}\``))).toEqual([])
  })

  it('docs/operate/metrics.md has every metric, and no other', () => {
    const names = (text: string) => new Set(text.match(/\bsluicegate_[a-z_]+/g))
    const made = new Set(
      ['src/observe', 'src/server', 'src/cluster']
        .flatMap(sourceTexts)
        .flatMap((text) => [...names(text)]),
    )
    expect(made.size).toBeGreaterThan(20)
    expect([...names(page('docs/operate/metrics.md').text)].toSorted()).toEqual(
      [...made].toSorted(),
    )
  })

  it('providers/README.md and plugins/README.md have every built-in', () => {
    const providers = page('providers/README.md').anchors
    const plugins = page('plugins/README.md').text
    const missing = [
      ...namesIn('providers').filter((name) => !providers.has(name)),
      ...namesIn('plugins/search').filter((name) => !plugins.includes(`| \`${name}\` |`)),
      ...namesIn('plugins/sinks').filter((name) => !plugins.includes(`| \`${name}\` |`)),
      ...namesIn('plugins/guards').filter((name) => !plugins.includes(`\n### ${name}\n`)),
    ]
    expect(missing).toEqual([])
  })
})

/** Paths and cells of defaults, of tables whose first heading is a path of the configuration. */
function documentedMembers({ tables }: Page): [path: string, cell: string][] {
  return tables.flatMap(({ header, rows }) => {
    // A table with several paths at its head has the members of each.
    const prefixes =
      header[0] === 'top level'
        ? ['']
        : header[0]!.split(', ').flatMap((one) => /^`([^`]+)`$/.exec(one)?.[1] ?? [])
    const column = header.indexOf('default')
    if (column < 0) return []
    const named = rows.flatMap((cells) =>
      cells[0]!.split(', ').map((name) => [name.replaceAll('`', ''), cells] as const),
    )
    return prefixes.flatMap((prefix) =>
      named.map(([name, cells]): [string, string] => {
        const path = prefix === '' ? name : `${prefix}.${name}`
        return [path.replace(/<[^>]*>/g, '<>'), cells[column]!]
      }),
    )
  })
}

/** The part of a page below the heading with this anchor, up to the next heading of its level or above. */
function sectionOf({ text }: Page, anchor: string): string {
  const sections = text.split(/^(?=#{2,3} )/m)
  const start = sections.findIndex(
    (one) => one.split('\n')[0]!.toLowerCase().replace(/^#+ /, '').replaceAll(' ', '-') === anchor,
  )
  return start < 0 ? '' : sections[start]!
}

/** Cells of names and of defaults. */
function rowsWithDefaults({ header, rows }: Table): [names: string, cell: string][] {
  const column = header.indexOf('default')
  return column < 0 ? [] : rows.map((cells) => [cells[0]!, cells[column]!])
}

/** Names of the options of a schema; of a schema with alternatives, those of all. */
function optionNames(schema: any): string[] {
  if (schema === undefined) return []
  if (schema.options) return schema.options.flatMap(optionNames)
  return Object.keys(schema.entries ?? {})
}

/** What the refusal of an unknown member says there is. */
function policyMembers(policy: object): string[] {
  try {
    readPolicy(policy)
  } catch (error) {
    return /only the members ([\w, ]+), found/.exec((error as Error).message)![1]!.split(', ')
  }
  return []
}

function sourceTexts(path: string): string[] {
  return filesBelow(path, (name) => name.endsWith('.ts')).map((file) =>
    readFileSync(join(root, file), 'utf8'),
  )
}

/** Names of the plugins in a folder: one file each, beside the table of vendors. */
function namesIn(path: string): string[] {
  return filesBelow(path, (name) => name.endsWith('.ts'))
    .filter((file) => file.split('/').length === path.split('/').length + 1)
    .map((file) => basename(file, '.ts'))
    .filter((name) => name !== 'vendors')
}

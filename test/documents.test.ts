import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { COMMANDS } from '../src/cli/commands.ts'
import { loadConfig } from '../src/config/config.ts'
import { configSchema } from '../src/config/schema.ts'
import { ConfigError } from '../src/errors/errors.ts'
import { ROUTES } from '../src/gateway/routes.ts'
import { readPolicy } from '../src/policy/policy.ts'
import { folder } from './_folder.ts'
import {
  brokenLink,
  filesBelow,
  page,
  pages,
  root,
  tablesOf,
  type Block,
  type Page,
  type Table,
} from './documents/_markdown.ts'
import { membersOf } from './documents/_schema.ts'

describe('links', () => {
  it('lead to files and headings of the repository', () => {
    const broken = pages.flatMap(({ path, links }) =>
      links
        .filter(({ target }) => !/^[a-z]+:/.test(target))
        .map(({ target, line }) => ({ line, target, found: brokenLink(path, target) }))
        .filter(({ found }) => found !== undefined)
        .map(({ line, target, found }) => `${path}:${line}: ${target}: ${found}`),
    )
    expect(broken).toEqual([])
  })

  it('and paths in the text name files that there are', () => {
    const path = /`((?:src|test|docs|providers|plugins|config|\.ci)\/[\w./-]*)`/g
    const missing = pages.flatMap((one) =>
      [...one.text.matchAll(path)]
        .filter(([, target]) => brokenLink('README.md', target!) !== undefined)
        .map(([, target]) => `${one.path}: ${target}`),
    )
    expect(missing).toEqual([])
  })

  it('go outside by https alone', () => {
    const others = pages.flatMap(({ path, links }) =>
      links
        .filter(({ target }) => /^[a-z]+:/.test(target) && !target.startsWith('https://'))
        .map(({ target, line }) => `${path}:${line}: ${target}`),
    )
    expect(others).toEqual([])
  })
})

describe('blocks of code', () => {
  beforeAll(() => {
    // Node.js warns that stripping types is new.
    vi.spyOn(process, 'emitWarning').mockReturnValue()
  })
  afterAll(() => {
    vi.restoreAllMocks()
  })

  const CHECKS: Readonly<Record<string, (text: string) => unknown>> = {
    js: (text) => stripTypeScriptTypes(text),
    ts: (text) => stripTypeScriptTypes(text),
    json: checkJson,
    sh: checkShell,
    yaml: checkConfiguration,
  }

  it.each(Object.keys(CHECKS))('can be read as what they say they are: %s', async (language) => {
    const wrong: string[] = []
    for (const { path, block } of blocksOf(language)) {
      try {
        await CHECKS[language]!(block.text)
      } catch (error) {
        wrong.push(
          `${path}:${block.line}: ${error instanceof Error ? error.message : String(error)}`,
        )
      }
    }
    expect(wrong).toEqual([])
  })

  it('that show a file show all of it', () => {
    const copies = pages.flatMap(({ path, blocks }) =>
      blocks.map((block) => ({ path, block })).filter(({ block }) => block.directive !== undefined),
    )
    expect(copies.length).toBeGreaterThan(0)
    for (const { path, block } of copies) {
      const file = /^copy-of=(\S+)$/.exec(block.directive!)?.[1]
      expect(file, `${path}:${block.line}: ${block.directive}`).toBeDefined()
      const text = readFileSync(join(root, file!), 'utf8')
      expect(block.text.trimEnd(), `${path}:${block.line}`).toBe(text.trimEnd())
    }
  })
})

describe('sizes', () => {
  it('keep README.md between 150 and 250 lines', () => {
    expect(page('README.md').lines).toBeGreaterThanOrEqual(150)
    expect(page('README.md').lines).toBeLessThanOrEqual(250)
  })

  it.each([
    ['CONTRIBUTING.md', 2500],
    ['AGENTS.md', 600],
  ])('keep %s below %i words', (path, most) => {
    expect(page(path).words).toBeLessThanOrEqual(most)
  })

  it('keep a README of a source folder below 80 lines', () => {
    const long = pages
      .filter(({ path }) => path.startsWith('src/') && basename(path) === 'README.md')
      .filter(({ lines }) => lines > 80)
      .map(({ path, lines }) => `${path}: ${lines} lines`)
    expect(long).toEqual([])
  })

  it('keep a title and a description of at most 160 characters on every page of docs/', () => {
    const wrong = pages
      .filter(({ path }) => path.startsWith('docs/'))
      .filter(
        ({ text }) => !/^---\ntitle: \S.*\ndescription: .{1,160}\norder: \d+\n---\n/.test(text),
      )
      .map(({ path }) => path)
    expect(wrong).toEqual([])
  })
})

describe('words', () => {
  it('are plain: no persons without a role', () => {
    const found = pages.flatMap(({ path, prose }) =>
      prose
        .split('\n')
        .flatMap((line, index) =>
          /\b(whoever|somebody|nobody|the house)\b/i.test(line)
            ? [`${path}:${index + 1}: ${line}`]
            : [],
        ),
    )
    expect(found).toEqual([])
  })
})

describe('docs/configuration.md', () => {
  const { leaves, containers } = membersOf(configSchema)
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

describe('docs/api.md', () => {
  const { text } = page('docs/api.md')

  it('has every route of the API', () => {
    const routes = ROUTES.map(({ method, path }) => `\`${method} ${path}\``)
    expect(routes.length).toBeGreaterThan(8)
    expect(routes.filter((route) => !text.includes(route))).toEqual([])
  })

  it('has every route of the admin API, and no other', () => {
    const found = sourceTexts('src/server/admin').flatMap((source) =>
      [...source.matchAll(/^ +'(\/[^']*)': \{ (.*) \},$/gm)].flatMap(([, path, methods]) =>
        [...methods!.matchAll(/\b(GET|POST|PATCH|PUT|DELETE): /g)].map(
          ([, method]) => `${method} /admin${path}`,
        ),
      ),
    )
    expect(found.length).toBeGreaterThan(10)
    const shown = [...text.matchAll(/^\| `([A-Z]+ \/admin\/[^`*]*)`/gm)].map(([, route]) => route!)
    expect(shown.toSorted()).toEqual(found.toSorted())
  })

  it('has every command', () => {
    const commands = COMMANDS.map(({ name, arguments: names = [] }) =>
      [name, ...names.map((one) => `<${one}>`)].join(' '),
    )
    const { tables } = page('docs/api.md')
    const table = tables.find(({ header }) => header[0] === 'command')!
    const shown = table.rows.map(([command]) => command!.replaceAll('`', ''))
    expect(shown).toEqual(commands)
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

describe('docs/policies-and-guards.md', () => {
  it('has every member of a policy, and no other', () => {
    const table = page('docs/policies-and-guards.md').tables.find(
      ({ header }) => header[0] === 'member',
    )!
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

  it('docs/operations.md has every metric, and no other', () => {
    const names = (text: string) => new Set(text.match(/\bgateway_[a-z_]+/g))
    const made = new Set(
      ['src/observe', 'src/server'].flatMap(sourceTexts).flatMap((text) => [...names(text)]),
    )
    expect(made.size).toBeGreaterThan(20)
    expect([...names(page('docs/operations.md').text)].toSorted()).toEqual([...made].toSorted())
  })

  it('providers/README.md and plugins/README.md have every built-in', () => {
    const providers = page('providers/README.md').anchors
    const plugins = page('plugins/README.md').text
    const missing = [
      ...namesIn('providers').filter((name) => !providers.has(name)),
      ...namesIn('plugins/search').filter((name) => !plugins.includes(`| \`${name}\` |`)),
      ...namesIn('plugins/guards').filter((name) => !plugins.includes(`\n### ${name}\n`)),
    ]
    expect(missing).toEqual([])
  })
})

function blocksOf(language: string): { readonly path: string; readonly block: Block }[] {
  return pages.flatMap(({ path, blocks }) =>
    blocks.filter((block) => block.language === language).map((block) => ({ path, block })),
  )
}

/** A policy has to be one that the gateway takes. */
function checkJson(text: string): void {
  const value = JSON.parse(text)
  if (value.version === 1) readPolicy(value)
}

function checkShell(text: string): void {
  const { status, stderr } = spawnSync('bash', ['-n'], { input: text, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
}

/** A configuration, or a part of one, which may name providers that it does not show. */
async function checkConfiguration(text: string): Promise<void> {
  const names = [...text.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name]) => name!)
  const env = Object.fromEntries(names.map((name) => [name, `value-of-${name}`]))
  const cwd = await folder({ 'gateway.config.yaml': text })
  try {
    await loadConfig({ cwd, env })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const wrong = error.issues.filter(
      ({ message }) => !message.startsWith('expected the name of a provider'),
    )
    if (wrong.length > 0) throw error
  }
}

/** Paths and cells of defaults, of tables whose first heading is a path of the configuration. */
function documentedMembers({ tables }: Page): [path: string, cell: string][] {
  return tables.flatMap(({ header, rows }) => {
    const prefix = /^`([^`]+)`$/.exec(header[0]!)?.[1]
    const column = header.indexOf('default')
    if (prefix === undefined || column < 0) return []
    return rows.map((cells): [string, string] => {
      const name = cells[0]!.replaceAll('`', '')
      return [`${prefix}.${name}`.replace(/<[^>]*>/g, '<>'), cells[column]!]
    })
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

/** Names of the plugins in a folder: one file each. */
function namesIn(path: string): string[] {
  return filesBelow(path, (name) => name.endsWith('.ts'))
    .filter((file) => file.split('/').length === path.split('/').length + 1)
    .map((file) => basename(file, '.ts'))
}

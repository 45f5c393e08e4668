import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { loadConfig } from '../src/config/config.ts'
import { ConfigError } from '../src/errors/errors.ts'
import { readPolicy } from '../src/policy/policy.ts'
import { folder } from './_folder.ts'
import { brokenLink, page, pages, root, type Block } from './documents/_markdown.ts'

/** Blocks with a comment on the line before them. */
const directed = pages.flatMap(({ path, blocks }) =>
  blocks.map((block) => ({ path, block })).filter(({ block }) => block.directive !== undefined),
)

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

  it('can be read as what they say they are: sh', () => {
    const shown = blocksOf('sh')
    const each = 'for block; do bash -n <<<"$block" 2>&1; echo "end $?"; done'
    const texts = shown.map(({ block }) => block.text)
    const { stdout } = spawnSync('bash', ['-c', each, 'bash', ...texts], { encoding: 'utf8' })
    const answers = stdout.split(/(?<=^end \d+\n)/m)
    const where = shown.map(({ path, block }) => `${path}:${block.line}: `)
    expect(answers.map((text, i) => where[i] + text)).toEqual(where.map((at) => `${at}end 0\n`))
  })

  it('have directives that are known', () => {
    const unknown = directed.filter(
      ({ block }) =>
        !/^(?:(?:(?:copy-of|file|schema|given)=\S+|output|shape|with=client)(?: (?!$)|$))+$|^skip=\S.*$/.test(
          block.directive!,
        ),
    )
    expect(unknown.map(({ path, block }) => `${path}:${block.line}: ${block.directive}`)).toEqual(
      [],
    )
    const skipped = directed.filter(({ block }) => block.directive!.startsWith('skip='))
    expect(skipped.length).toBeLessThanOrEqual(25)
  })

  it('that show a file show all of it', () => {
    const copies = directed.filter(({ block }) => block.directive!.startsWith('copy-of='))
    expect(copies.length).toBeGreaterThan(0)
    for (const { path, block } of copies) {
      const file = block.directive!.slice('copy-of='.length)
      const text = readFileSync(join(root, file), 'utf8')
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

  it.each([
    ['a page of a guide', /^docs\/(?:install|clients|migrate|operate|explain)\//, 1200],
    ['the list of symptoms and codes', /^docs\/troubleshooting/, 1400],
  ])('keep %s short', (_, guide, most) => {
    const long = pages
      .filter(({ path, words }) => guide.test(path) && words > most)
      .map(({ path, words }) => `${path}: ${words} words`)
    expect(long).toEqual([])
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
        ({ text }) =>
          !/^---\ntitle: \S.*\ndescription: (?!.*: ).{1,160}\norder: \d+\n---\n/.test(text),
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

function blocksOf(language: string): { readonly path: string; readonly block: Block }[] {
  return pages.flatMap(({ path, blocks }) =>
    blocks
      .filter(
        ({ language: own, directive = '' }) => own === language && !directive.startsWith('schema='),
      )
      .map((block) => ({ path, block })),
  )
}

/** A policy has to be one that the gateway takes. */
function checkJson(text: string): void {
  const value = JSON.parse(text)
  if (value.version === 1) readPolicy(value)
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
